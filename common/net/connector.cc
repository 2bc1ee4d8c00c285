#include "common/net/connector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/status.h"

namespace headrace::net {
namespace {

// RFC 8305 section 5: the recommended delay before the next address is tried as well.
constexpr absl::Duration kAttemptDelay = absl::Milliseconds(250);
// Addresses tried per connection. Chosen, not measured.
constexpr size_t kMaxAddresses = 8;
// http.md section 1.7: NATs and load balancers drop silent flows; a dead peer is noticed in 30 s.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepCount = 3;
constexpr int kUserTimeoutMs = 30'000;

std::string AddressText(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat(text, ":", ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  return absl::StrCat("[", text, "]:", ntohs(v6->sin6_port));
}

void SetSocketOptions(int fd) {
  // Best effort: a kernel that lacks one of them still connects.
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

// OpenSSL writes to sockets with write(2), which raises SIGPIPE when the peer is gone.
void IgnoreSigpipe() {
  struct sigaction old{};
  if (sigaction(SIGPIPE, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

// One TCP connect under way.
class Attempt final : public FdHandler {
 public:
  Attempt(Reactor* reactor, Event* changed) : reactor_(reactor), changed_(changed) {}
  ~Attempt() override { Unwatch(); }

  bool pending() const { return watched_; }
  bool connected() const { return connected_; }
  const std::string& error() const { return error_; }
  UniqueFd TakeFd() { return std::move(fd_); }

  void Start(const Address& address) {
    name_ = AddressText(address);
    fd_ = UniqueFd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd_.get() < 0) return Fail(errno);
    SetSocketOptions(fd_.get());
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) ==
        0) {
      connected_ = true;
      return;
    }
    if (errno != EINPROGRESS) return Fail(errno);
    const absl::Status watched = reactor_->Watch(fd_.get(), EPOLLOUT, this);
    if (!watched.ok()) {
      error_ = std::string(watched.message());
      return;
    }
    watched_ = true;
  }

  void OnFdReady(uint32_t events) override {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    Unwatch();
    error == 0 ? void(connected_ = true) : Fail(error);
    changed_->Set();
  }

 private:
  void Unwatch() {
    if (std::exchange(watched_, false)) reactor_->Unwatch(fd_.get());
  }
  void Fail(int error) { error_ = absl::StrCat("connect ", name_, ": ", strerror(error)); }

  Reactor* const reactor_;
  Event* const changed_;
  UniqueFd fd_;
  std::string name_;
  std::string error_;
  bool watched_ = false;
  bool connected_ = false;
};

// Waits for readiness of one fd.
class FdWait final : public FdHandler {
 public:
  FdWait(Reactor* reactor, int fd) : reactor_(reactor), fd_(fd), ready_(reactor) {}
  ~FdWait() override {
    if (events_ != 0) reactor_->Unwatch(fd_);
  }

  // True when ready for one of `events`, false when stopped or when the fd cannot be watched.
  Task<bool> Wait(uint32_t events, StopToken stop) {
    ready_.Reset();
    if (events_ == 0) {
      const absl::Status watched = reactor_->Watch(fd_, events, this);
      if (!watched.ok()) co_return false;
    } else {
      reactor_->Rewatch(fd_, events, this);
    }
    events_ = events;
    co_return co_await ready_.Wait(stop);
  }

 private:
  void OnFdReady(uint32_t events) override { ready_.Set(); }

  Reactor* const reactor_;
  const int fd_;
  uint32_t events_ = 0;
  Event ready_;
};

// RFC 8305 section 4: families alternate, beginning with that of the first address.
std::vector<Address> Interleave(const std::vector<Address>& addresses) {
  std::vector<Address> first, second, result;
  for (const Address& address : addresses) {
    (address.family() == addresses[0].family() ? first : second).push_back(address);
  }
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size()) result.push_back(first[i]);
    if (i < second.size()) result.push_back(second[i]);
  }
  if (result.size() > kMaxAddresses) result.resize(kMaxAddresses);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connector>> Connector::Make(Reactor* reactor,
                                                           ConnectorOptions options) {
  if (options.unix_path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(options.unix_path,
                                                   ": the path of a Unix socket has at most ",
                                                   sizeof(sockaddr_un::sun_path) - 1, " bytes"));
  }
  std::unique_ptr<TlsContext> tls;
  if (options.tls.has_value()) {
    absl::StatusOr<std::unique_ptr<TlsContext>> made = TlsContext::Make(*options.tls);
    if (!made.ok()) return made.status();
    tls = *std::move(made);
    IgnoreSigpipe();
  }
  return std::unique_ptr<Connector>(new Connector(reactor, std::move(options), std::move(tls)));
}

Connector::Connector(Reactor* reactor, ConnectorOptions options, std::unique_ptr<TlsContext> tls)
    : reactor_(reactor),
      options_(std::move(options)),
      tls_(std::move(tls)),
      resolver_(reactor, options_.name_cache_time) {}

Task<absl::StatusOr<Transport>> Connector::Connect(absl::Duration timeout, StopToken stop) {
  const MonoTime start = reactor_->Now();
  DeadlineSource deadline(reactor_, start + timeout, stop);
  absl::StatusOr<Transport> transport = co_await ConnectAll(deadline.token());
  if (transport.ok()) {
    transport->connect_time = reactor_->Now() - start;
    co_return transport;
  }
  if (stop.stopped()) co_return absl::CancelledError("stopped while connecting");
  if (deadline.token().stopped()) {
    co_return absl::DeadlineExceededError(absl::StrCat("no connection to ", options_.name,
                                                       " within ", absl::FormatDuration(timeout)));
  }
  co_return Annotate(transport.status(), options_.name);
}

Task<absl::StatusOr<Transport>> Connector::ConnectAll(StopToken stop) {
  if (!options_.unix_path.empty()) {
    absl::StatusOr<UniqueFd> unix_fd = ConnectUnix();
    if (!unix_fd.ok()) co_return unix_fd.status();
    co_return Transport(*std::move(unix_fd), nullptr);
  }
  absl::StatusOr<UniqueFd> fd = co_await ConnectTcp(stop);
  if (!fd.ok()) co_return fd.status();
  SslPtr ssl;
  if (tls_ != nullptr) {
    absl::StatusOr<SslPtr> shaken = co_await ShakeHands(fd->get(), stop);
    if (!shaken.ok()) co_return shaken.status();
    ssl = *std::move(shaken);
  }
  co_return Transport(*std::move(fd), std::move(ssl));
}

absl::StatusOr<UniqueFd> Connector::ConnectUnix() const {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return ErrnoStatus(errno, "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, options_.unix_path.data(), options_.unix_path.size());
  // Connects at once or fails: with EAGAIN when the server's queue of connections is full.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(absl::StrCat("connect: ", strerror(errno)));
  }
  return fd;
}

Task<absl::StatusOr<UniqueFd>> Connector::ConnectTcp(StopToken stop) {
  absl::StatusOr<std::vector<Address>> resolved =
      co_await resolver_.Resolve(options_.host, options_.port, stop);
  if (!resolved.ok()) co_return resolved.status();
  const std::vector<Address> addresses = Interleave(*resolved);

  Event changed(reactor_);
  std::vector<std::unique_ptr<Attempt>> attempts;
  MonoTime next_start = reactor_->Now();
  while (true) {
    changed.Reset();
    bool pending = false;
    for (const std::unique_ptr<Attempt>& attempt : attempts) {
      if (attempt->connected()) co_return attempt->TakeFd();
      pending = pending || attempt->pending();
    }
    const bool more = attempts.size() < addresses.size();
    if (more && (!pending || reactor_->Now() >= next_start)) {
      attempts.push_back(std::make_unique<Attempt>(reactor_, &changed));
      attempts.back()->Start(addresses[attempts.size() - 1]);
      next_start = reactor_->Now() + kAttemptDelay;
      continue;
    }
    if (!pending) co_return absl::UnavailableError(attempts.back()->error());
    DeadlineSource wait(reactor_, more ? next_start : MonoTime::Max(), stop);
    co_await changed.Wait(wait.token());
    if (stop.stopped()) co_return absl::CancelledError("stopped");
  }
}

Task<absl::StatusOr<SslPtr>> Connector::ShakeHands(int fd, StopToken stop) {
  absl::StatusOr<SslPtr> ssl = tls_->NewConnection(fd, options_.host, options_.alpn);
  if (!ssl.ok()) co_return ssl.status();
  FdWait wait(reactor_, fd);
  while (true) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_connect(ssl->get());
    if (result == 1) co_return std::move(ssl);
    const int error = SSL_get_error(ssl->get(), result);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      const bool closed =
          error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SYSCALL && errno == 0);
      co_return absl::UnavailableError(absl::StrCat(
          "TLS handshake: ", closed ? "the peer closed the connection" : TlsErrorText(ssl->get())));
    }
    const bool ready = co_await wait.Wait(error == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT, stop);
    if (!ready) co_return absl::CancelledError("stopped");
  }
}

}  // namespace headrace::net
