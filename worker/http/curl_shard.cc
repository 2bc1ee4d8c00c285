#include "worker/http/curl_shard.h"

#include <sys/epoll.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/log.h"
#include "worker/http/curl_transfer.h"

namespace headrace::http {
namespace {

// libcurl before 8.11.1 at times forgets to ask for its next timer; it is called at least this
// often while it has transfers (http.md section 2.2).
constexpr absl::Duration kSafetyPeriod = absl::Seconds(1);
// libcurl forgets addresses after 60 s (CURLOPT_DNS_CACHE_TIMEOUT); it gets them again before that.
constexpr absl::Duration kResolvePeriod = absl::Seconds(25);

uint32_t EpollEvents(int what) {
  uint32_t events = 0;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) events |= EPOLLOUT;
  return events;
}

int CurlEvents(uint32_t events) {
  int result = 0;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) != 0) result |= CURL_CSELECT_IN;
  if ((events & (EPOLLOUT | EPOLLHUP)) != 0) result |= CURL_CSELECT_OUT;
  if ((events & EPOLLERR) != 0) result |= CURL_CSELECT_ERR;
  return result;
}

template <typename T>
void Set(CURLM* multi, CURLMoption option, T value) {
  const CURLMcode code = curl_multi_setopt(multi, option, value);
  HR_CHECK(code == CURLM_OK) << "curl_multi_setopt: " << curl_multi_strerror(code);
}

}  // namespace

// One fd that libcurl wants watched.
struct CurlShard::Socket : FdHandler {
  Socket(CurlShard* s, curl_socket_t f) : shard(s), fd(f) {}
  // libcurl may have this object deleted before Act() returns, so nothing follows.
  void OnFdReady(uint32_t ready) override { shard->Act(fd, CurlEvents(ready)); }

  CurlShard* const shard;
  const curl_socket_t fd;
  uint32_t events = 0;
};

CurlShard::CurlShard(Reactor* reactor, absl::Duration idle_timeout)
    : reactor_(reactor), idle_timeout_(idle_timeout) {
  Open();
}

CurlShard::~CurlShard() {
  HR_CHECK(size_ == 0) << size_ << " transfers outlive their shard";
  Close();
  reactor_->Cancel(&timer_);
}

void CurlShard::Open() {
  multi_ = curl_multi_init();
  HR_CHECK(multi_ != nullptr) << "curl_multi_init failed";
  Set(multi_, CURLMOPT_SOCKETFUNCTION, &CurlShard::OnSocket);
  Set(multi_, CURLMOPT_SOCKETDATA, static_cast<void*>(this));
  Set(multi_, CURLMOPT_TIMERFUNCTION, &CurlShard::OnTimeout);
  Set(multi_, CURLMOPT_TIMERDATA, static_cast<void*>(this));
  Set(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
  // No limit on the connections of a host: the shard's size is the limit, so nothing waits inside
  // libcurl, where a waiting transfer has no working timeout.
  Set(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(kTransfers));
  used_ = false;
  known_addresses_.clear();
}

void CurlShard::Close() {
  for (CURL* easy : spare_) curl_easy_cleanup(easy);
  spare_.clear();
  curl_multi_cleanup(multi_);  // reports the end of its sockets
  for (Socket* socket : sockets_) {
    reactor_->Unwatch(socket->fd);
    delete socket;
  }
  sockets_.clear();
  curl_deadline_ = MonoTime::Max();
}

void CurlShard::Reopen() {
  Close();
  Open();
  ArmTimer();
}

void CurlShard::Start(CurlTransfer* transfer, absl::Duration connect_used,
                      const std::string& addresses) {
  HR_CHECK(!full()) << "a shard got more transfers than it takes";
  CURL* easy = nullptr;
  if (spare_.empty()) {
    easy = curl_easy_init();
    HR_CHECK(easy != nullptr) << "curl_easy_init failed";
  } else {
    easy = spare_.back();
    spare_.pop_back();
  }
  const MonoTime now = reactor_->Now();
  const bool tell = !addresses.empty() && (now >= resolve_again_ || addresses != known_addresses_);
  if (tell) {
    known_addresses_ = addresses;
    resolve_again_ = now + kResolvePeriod;
  }
  transfer->Start(this, easy, connect_used, tell ? addresses : std::string());
  transfers_.PushBack(transfer);
  ++size_;
  used_ = true;
  const CURLMcode code = curl_multi_add_handle(multi_, easy);
  if (code != CURLM_OK) {
    transfer->OnShardFailed(curl_multi_strerror(code));
    Release(transfer);
  }
}

void CurlShard::Abort(CurlTransfer* transfer) {
  if (!in_curl_) {
    Release(transfer);
  } else if (std::find(doomed_.begin(), doomed_.end(), transfer) == doomed_.end()) {
    doomed_.push_back(transfer);
  }
}

void CurlShard::Release(CurlTransfer* transfer) {
  CURL* easy = transfer->easy();
  if (transfer->on_the_wire()) ++aborted_;
  const CURLMcode code = curl_multi_remove_handle(multi_, easy);
  if (code == CURLM_OK && spare_.size() < kTransfers) {
    curl_easy_reset(easy);
    spare_.push_back(easy);
  } else {
    curl_easy_cleanup(easy);
  }
  transfer->Unlink();
  --size_;
  if (size_ == 0) {
    idle_since_ = reactor_->Now();
    ArmTimer();
  }
  transfer->OnReleased();
}

void CurlShard::ReleaseDoomed() {
  std::vector<CurlTransfer*> doomed;
  doomed.swap(doomed_);
  for (CurlTransfer* transfer : doomed) Release(transfer);
}

// What libcurl asks for.

int CurlShard::OnSocket(CURL*, curl_socket_t fd, int what, void* shard, void* socket) {
  return static_cast<CurlShard*>(shard)->UpdateSocket(fd, what, static_cast<Socket*>(socket));
}

int CurlShard::UpdateSocket(curl_socket_t fd, int what, Socket* socket) {
  if (what == CURL_POLL_REMOVE) {
    if (socket == nullptr) return 0;
    reactor_->Unwatch(fd);
    sockets_.erase(socket);
    delete socket;
    return 0;
  }
  const uint32_t events = EpollEvents(what);
  if (socket == nullptr) {
    auto fresh = std::make_unique<Socket>(this, fd);
    if (const absl::Status status = reactor_->Watch(fd, events, fresh.get()); !status.ok()) {
      HR_LOG(kError) << "libcurl's socket cannot be watched: " << status.message();
      return -1;
    }
    socket = fresh.release();
    sockets_.insert(socket);
    curl_multi_assign(multi_, fd, socket);
  } else if (socket->events != events) {
    reactor_->Rewatch(fd, events, socket);
  }
  socket->events = events;
  return 0;
}

int CurlShard::OnTimeout(CURLM*, long timeout_ms, void* shard) {
  auto* self = static_cast<CurlShard*>(shard);
  self->curl_deadline_ =
      timeout_ms < 0 ? MonoTime::Max() : self->reactor_->Now() + absl::Milliseconds(timeout_ms);
  self->ArmTimer();
  return 0;
}

// What libcurl is told.

void CurlShard::Act(curl_socket_t fd, int events) {
  int running = 0;
  in_curl_ = true;
  const CURLMcode code = curl_multi_socket_action(multi_, fd, events, &running);
  in_curl_ = false;
  if (code != CURLM_OK) {
    FailAll(code);
    return;
  }
  ReleaseDoomed();
  TakeMessages();
}

void CurlShard::TakeMessages() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CurlTransfer* transfer = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
    transfer->OnCurlDone(message->data.result);
    Release(transfer);
  }
}

void CurlShard::FailAll(CURLMcode code) {
  HR_LOG(kError) << "libcurl failed with " << size_ << " transfers: " << curl_multi_strerror(code);
  doomed_.clear();
  while (CurlTransfer* transfer = transfers_.front()) {
    transfer->OnShardFailed(curl_multi_strerror(code));
    Release(transfer);
  }
  Reopen();
}

void CurlShard::OnTimer(void* shard) {
  auto* self = static_cast<CurlShard*>(shard);
  const MonoTime now = self->reactor_->Now();
  if (self->size_ == 0 && self->used_ && now >= self->idle_since_ + self->idle_timeout_) {
    self->Reopen();
    return;
  }
  self->curl_deadline_ = MonoTime::Max();
  self->Act(CURL_SOCKET_TIMEOUT, 0);
  self->ArmTimer();
}

void CurlShard::ArmTimer() {
  MonoTime next = curl_deadline_;
  if (size_ > 0) {
    next = std::min(next, reactor_->Now() + kSafetyPeriod);
  } else if (used_) {
    next = std::min(next, idle_since_ + idle_timeout_);
  }
  if (next == MonoTime::Max()) {
    reactor_->Cancel(&timer_);
  } else {
    reactor_->Arm(&timer_, next, &CurlShard::OnTimer, this);
  }
}

}  // namespace headrace::http
