// A connected socket with or without TLS, as bytes in and bytes out; never blocks.
#ifndef HEADRACE_COMMON_NET_TRANSPORT_H_
#define HEADRACE_COMMON_NET_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/net/tls.h"

namespace headrace::net {

// Owns an fd. It must not be watched any more when this is destroyed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  void Reset();

 private:
  int fd_ = -1;
};

class Transport {
 public:
  Transport() = default;
  Transport(UniqueFd fd, SslPtr ssl) : fd_(std::move(fd)), ssl_(std::move(ssl)) {}

  int fd() const { return fd_.get(); }
  bool tls() const { return ssl_ != nullptr; }
  absl::string_view alpn() const { return ssl_ == nullptr ? "" : AlpnOf(ssl_.get()); }

  enum class Io {
    kOk,
    kWouldBlock,  // again when the fd is readable (Read) or writable (Write)
    kEnd,         // Read only: the peer closed in order (FIN; with TLS, close_notify or FIN)
    kError,       // broken: error() says how
  };
  // One read of up to `size` bytes (at most one TLS record); *count is set when kOk.
  Io Read(char* data, size_t size, size_t* count);
  // One write; may take less than `size`.
  Io Write(const char* data, size_t size, size_t* count);
  // Bytes wait inside the TLS layer, where epoll does not see them.
  bool HasPending() const { return ssl_ != nullptr && SSL_has_pending(ssl_.get()) == 1; }
  // The TLS handshake is over; true without TLS.
  bool ready() const { return ssl_ == nullptr || SSL_is_init_finished(ssl_.get()) == 1; }
  // The TLS handshake resumed an earlier session.
  bool resumed() const { return ssl_ != nullptr && SSL_session_reused(ssl_.get()) == 1; }
  const std::string& error() const { return error_; }

  // Says goodbye (close_notify) as far as that goes without waiting, and closes.
  void Close();

  absl::Duration connect_time;  // name, TCP and TLS

 private:
  Io FromErrno(int error);
  Io FromSsl(int result);

  UniqueFd fd_;
  SslPtr ssl_;
  bool broken_ = false;  // TLS must not be spoken any more, not even a goodbye
  std::string error_;
};

}  // namespace headrace::net

#endif  // HEADRACE_COMMON_NET_TRANSPORT_H_
