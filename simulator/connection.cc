#include "simulator/connection.h"

#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"

namespace headrace::simulator {
namespace {

constexpr absl::string_view kH2Preface =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";  // RFC 9113 section 3.4
constexpr size_t kReadSize = size_t{64} << 10;
// Reads per connection and turn; the rest waits, so that one peer cannot starve the others.
constexpr int kMaxReadsPerTurn = 8;
// Bytes taken from the session before they are written.
constexpr size_t kOutLimit = size_t{64} << 10;
// Rounds of taking and writing per turn.
constexpr int kMaxWritesPerTurn = 16;
// How long a closed connection waits for the peer's end. Chosen, not measured.
constexpr absl::Duration kMaxLinger = absl::Seconds(2);
constexpr size_t kTlsRecord = 16384;  // RFC 8446 section 5.1

// One per thread: a connection's bytes are consumed before another one reads.
char* ReadBuffer() {
  thread_local char buffer[kReadSize];
  return buffer;
}

}  // namespace

Connection::Connection(Reactor* reactor, Service* service, ConnectionOwner* owner, int fd,
                       SSL_CTX* tls)
    : reactor_(reactor),
      service_(service),
      owner_(owner),
      fd_(fd),
      state_(tls == nullptr ? State::kDetect : State::kHandshake) {
  if (tls != nullptr) {
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, fd_);
    SSL_set_accept_state(ssl_);
  }
  Truth& truth = service_->truth().counters();
  ++truth.connections_total;
  truth.peak_connections = std::max(truth.peak_connections, ++truth.connections);
}

Connection::~Connection() {
  if (session_ != nullptr) session_->PeerGone(Gone::kOurs);
  session_.reset();
  Unlink();
  reactor_->Cancel(&more_);
  reactor_->Cancel(&linger_);
  if (watched_ != 0) reactor_->Unwatch(fd_);
  if (reset_) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  if (ssl_ != nullptr) SSL_free(ssl_);
  ERR_clear_error();
  close(fd_);
  --service_->truth().counters().connections;
}

absl::Status Connection::Start() {
  absl::Status status = reactor_->Watch(fd_, EPOLLIN, this);
  if (status.ok()) watched_ = EPOLLIN;
  return status;
}

bool Connection::CountRequest() {
  return ++requests_ == service_->options().max_requests_per_connection;
}

void Connection::CloseAfterFlush(bool reset) {
  closing_ = true;
  reset_ = reset_ || reset;
  RequestFlush();
}

void Connection::OnFdReady(uint32_t events) {
  if (state_ == State::kDead) return;
  if ((events & EPOLLERR) != 0) return Die(Gone::kReset);
  if (state_ == State::kLinger) return Discard();
  bool readable = (events & (EPOLLIN | EPOLLHUP)) != 0;
  if (state_ == State::kHandshake) {
    Handshake();
    readable = true;  // TLS may have read ahead of the handshake's last message
  }
  if (state_ == State::kDetect || state_ == State::kOpen) {
    if (readable) ReadSome();
    RequestFlush();
  }
}

void Connection::OnMore(void* connection) {
  auto* self = static_cast<Connection*>(connection);
  if (self->state_ != State::kOpen) return;
  self->ReadSome();
  self->RequestFlush();
}

void Connection::Handshake() {
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    const unsigned char* protocol = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(ssl_, &protocol, &size);
    WatchFor(EPOLLIN);
    return Open(absl::string_view(reinterpret_cast<const char*>(protocol), size) == "h2");
  }
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return WatchFor(EPOLLIN);
    case SSL_ERROR_WANT_WRITE:
      return WatchFor(EPOLLOUT);
    default:
      ERR_clear_error();
      return Die(Gone::kClosed);
  }
}

Connection::Io Connection::Read(size_t* size) {
  if (ssl_ == nullptr) {
    const ssize_t got = recv(fd_, ReadBuffer(), kReadSize, 0);
    if (got > 0) return *size = static_cast<size_t>(got), Io::kDone;
    if (got == 0) return Io::kClosed;
    return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Io::kBroken;
  }
  const int got = SSL_read(ssl_, ReadBuffer(), kReadSize);
  if (got > 0) return *size = static_cast<size_t>(got), Io::kDone;
  const int error = SSL_get_error(ssl_, got);
  ERR_clear_error();
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return Io::kBlocked;
  return error == SSL_ERROR_ZERO_RETURN ? Io::kClosed : Io::kBroken;
}

void Connection::ReadSome() {
  for (int i = 0; i < kMaxReadsPerTurn; ++i) {
    size_t size = 0;
    switch (Read(&size)) {
      case Io::kDone:
        Take({ReadBuffer(), size});
        break;
      case Io::kBlocked:
        return;
      case Io::kClosed:
        return Die(Gone::kClosed);
      case Io::kBroken:
        return Die(Gone::kReset);
    }
    if (state_ == State::kDead) return;
    // A short plain read has emptied the socket; epoll tells of more.
    if (ssl_ == nullptr && size < kReadSize) return;
  }
  // TLS may hold decrypted bytes that epoll cannot see.
  if (ssl_ != nullptr) reactor_->Arm(&more_, reactor_->Now(), OnMore, this);
}

void Connection::Take(absl::string_view bytes) {
  if (closing_) return;  // what still comes is not read any more
  if (state_ == State::kOpen) {
    if (!session_->Receive(bytes)) CloseAfterFlush(/*reset=*/false);
    return;
  }
  detect_.append(bytes.data(), bytes.size());
  if (absl::StartsWith(kH2Preface, detect_) && detect_.size() < kH2Preface.size()) return;
  Open(absl::StartsWith(detect_, kH2Preface));
  const std::string first = std::exchange(detect_, {});
  if (!session_->Receive(first)) CloseAfterFlush(/*reset=*/false);
}

void Connection::Open(bool h2) {
  state_ = State::kOpen;
  if (h2) ++service_->truth().counters().h2_connections_total;
  session_ = h2 ? MakeH2Session(this) : MakeH1Session(this);
}

void Connection::OnEndOfTurn() {
  if (state_ == State::kOpen) Flush();
  if (state_ == State::kDead) owner_->Remove(this);
}

void Connection::Flush() {
  for (int i = 0; i < kMaxWritesPerTurn; ++i) {
    if (out_.size() - out_sent_ < kOutLimit) session_->Produce(&out_, out_sent_ + kOutLimit);
    if (out_.size() == out_sent_) {
      WatchFor(EPOLLIN);
      if (closing_ || session_->Ended()) Linger();
      return;
    }
    switch (WriteOut()) {
      case Io::kDone:
        continue;
      case Io::kBlocked:
        return WatchFor(EPOLLIN | EPOLLOUT);
      case Io::kClosed:
      case Io::kBroken:
        return Die(Gone::kReset);
    }
  }
  // More is ready than one turn may write: the socket is still writable, so epoll brings us back.
  WatchFor(EPOLLIN | EPOLLOUT);
}

Connection::Io Connection::WriteOut() {
  while (out_sent_ < out_.size()) {
    const char* data = out_.data() + out_sent_;
    const size_t size = out_.size() - out_sent_;
    ssize_t written = 0;
    if (ssl_ == nullptr) {
      written = send(fd_, data, size, MSG_NOSIGNAL);
      if (written < 0) return errno == EAGAIN || errno == EINTR ? Io::kBlocked : Io::kBroken;
    } else {
      const int result = SSL_write(ssl_, data, static_cast<int>(std::min(size, kTlsRecord)));
      if (result <= 0) {
        const int error = SSL_get_error(ssl_, result);
        ERR_clear_error();
        return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? Io::kBlocked
                                                                             : Io::kBroken;
      }
      written = result;
    }
    out_sent_ += static_cast<size_t>(written);
  }
  out_.clear();
  out_sent_ = 0;
  return Io::kDone;
}

void Connection::WatchFor(uint32_t events) {
  if (events == watched_) return;
  watched_ = events;
  reactor_->Rewatch(fd_, events, this);
}

void Connection::Linger() {
  session_->PeerGone(Gone::kOurs);
  if (reset_) return Die(Gone::kOurs);
  state_ = State::kLinger;
  if (ssl_ != nullptr) SSL_shutdown(ssl_);
  ERR_clear_error();
  shutdown(fd_, SHUT_WR);
  reactor_->Arm(&linger_, reactor_->Now() + kMaxLinger, OnLingerEnd, this);
}

void Connection::OnLingerEnd(void* connection) {
  static_cast<Connection*>(connection)->Die(Gone::kOurs);
}

void Connection::Discard() {
  for (int i = 0; i < kMaxReadsPerTurn; ++i) {
    const ssize_t got = recv(fd_, ReadBuffer(), kReadSize, 0);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return Die(Gone::kOurs);
  }
}

void Connection::Die(Gone how) {
  if (state_ == State::kDead) return;
  state_ = State::kDead;
  if (session_ != nullptr) session_->PeerGone(how);
  RequestFlush();
}

}  // namespace headrace::simulator
