#include "common/net/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/async/wait.h"

namespace headrace::net {
namespace {

// Lookups that may wait for the thread; one more is refused. Chosen: an engine has one host.
constexpr size_t kMaxWaiting = 64;
// Cached names; past it the cache starts anew.
constexpr size_t kMaxCached = 64;

// The address when `host` is a literal one.
bool ParseLiteral(const std::string& host, uint16_t port, Address* address) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address->storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address->size = sizeof(sockaddr_in);
    return true;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address->storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address->size = sizeof(sockaddr_in6);
    return true;
  }
  return false;
}

absl::StatusOr<std::vector<Address>> LookUp(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (error != 0) {
    const std::string text = absl::StrCat("name lookup of ", host, ": ", gai_strerror(error));
    return error == EAI_NONAME ? absl::NotFoundError(text) : absl::UnavailableError(text);
  }
  std::vector<Address> addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    if (info->ai_addrlen > sizeof(sockaddr_storage)) continue;
    Address& address = addresses.emplace_back();
    memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  freeaddrinfo(list);
  if (addresses.empty()) return absl::NotFoundError(absl::StrCat(host, " has no address"));
  return addresses;
}

}  // namespace

struct Resolver::Lookup {
  Lookup(Reactor* reactor, std::string h, uint16_t p)
      : host(std::move(h)), port(p), done(reactor) {}

  const std::string host;
  const uint16_t port;
  Event done;  // reactor thread
  absl::StatusOr<std::vector<Address>> result = absl::UnknownError("not looked up");
};

struct Resolver::Shared {
  absl::Mutex mutex;
  std::deque<std::shared_ptr<Lookup>> waiting ABSL_GUARDED_BY(mutex);
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  bool busy ABSL_GUARDED_BY(mutex) = false;  // inside getaddrinfo, which nothing can interrupt
  Reactor* reactor = nullptr;                // not touched once stopped
  std::thread thread;                        // the resolver's alone

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return stopped || !waiting.empty(); }
  static void Loop(const std::shared_ptr<Shared>& shared);
};

void Resolver::Shared::Loop(const std::shared_ptr<Shared>& shared) {
  while (true) {
    std::shared_ptr<Lookup> lookup;
    {
      absl::MutexLock lock(&shared->mutex);
      shared->mutex.Await(absl::Condition(shared.get(), &Shared::HasWork));
      if (shared->stopped) return;
      lookup = std::move(shared->waiting.front());
      shared->waiting.pop_front();
      shared->busy = true;
    }
    absl::StatusOr<std::vector<Address>> result = LookUp(lookup->host, lookup->port);
    absl::MutexLock lock(&shared->mutex);
    shared->busy = false;
    if (shared->stopped) return;
    shared->reactor->Post([lookup = std::move(lookup), result = std::move(result)]() mutable {
      lookup->result = std::move(result);
      lookup->done.Set();
    });
  }
}

Resolver::Resolver(Reactor* reactor, absl::Duration cache_time)
    : reactor_(reactor), cache_time_(cache_time) {}

Resolver::~Resolver() {
  if (shared_ == nullptr) return;
  bool busy = false;
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->stopped = true;
    busy = shared_->busy;
  }
  busy ? shared_->thread.detach() : shared_->thread.join();
}

bool Resolver::Enqueue(std::shared_ptr<Lookup> lookup) {
  if (shared_ == nullptr) {
    shared_ = std::make_shared<Shared>();
    shared_->reactor = reactor_;
    shared_->thread = std::thread([shared = shared_] { Shared::Loop(shared); });
  }
  absl::MutexLock lock(&shared_->mutex);
  if (shared_->waiting.size() >= kMaxWaiting) return false;
  shared_->waiting.push_back(std::move(lookup));
  return true;
}

Task<absl::StatusOr<std::vector<Address>>> Resolver::Resolve(std::string host, uint16_t port,
                                                             StopToken stop) {
  Address literal;
  if (ParseLiteral(host, port, &literal)) co_return std::vector<Address>{literal};
  const std::string key = absl::StrCat(host, ":", port);
  const auto cached = cache_.find(key);
  if (cached != cache_.end() && reactor_->Now() < cached->second.until) {
    co_return cached->second.addresses;
  }
  // One question serves all who ask it at the same time.
  std::shared_ptr<Lookup> lookup = pending_[key].lock();
  if (lookup == nullptr) {
    lookup = std::make_shared<Lookup>(reactor_, host, port);
    if (!Enqueue(lookup)) {
      pending_.erase(key);
      co_return absl::UnavailableError(absl::StrCat("name lookup of ", host, ": too many wait"));
    }
    pending_[key] = lookup;
  }
  const bool done = co_await lookup->done.Wait(stop);
  if (!done) co_return absl::CancelledError("stopped during the name lookup");
  pending_.erase(key);
  if (!lookup->result.ok()) co_return lookup->result.status();
  if (cache_.size() >= kMaxCached) cache_.clear();
  cache_[key] = {*lookup->result, reactor_->Now() + cache_time_};
  co_return *lookup->result;
}

}  // namespace headrace::net
