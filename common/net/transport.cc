#include "common/net/transport.h"

#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace headrace::net {

void UniqueFd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Transport::Io Transport::FromErrno(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return Io::kWouldBlock;
  error_ = strerror(error);
  return Io::kError;
}

Transport::Io Transport::FromSsl(int result) {
  const int error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    // Without renegotiation a read never waits for a write; a key update's answer goes out with the
    // next write.
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return Io::kWouldBlock;
    case SSL_ERROR_ZERO_RETURN:
      return Io::kEnd;
    case SSL_ERROR_SYSCALL:
      broken_ = true;
      if (error == 0) return Io::kEnd;
      error_ = strerror(error);
      ERR_clear_error();
      return Io::kError;
    default:
      broken_ = true;
      errno = error;
      error_ = TlsErrorText(ssl_.get());
      return Io::kError;
  }
}

Transport::Io Transport::Read(char* data, size_t size, size_t* count) {
  if (ssl_ == nullptr) {
    const ssize_t result = recv(fd_.get(), data, size, 0);
    if (result < 0) return FromErrno(errno);
    if (result == 0) return Io::kEnd;
    *count = static_cast<size_t>(result);
    return Io::kOk;
  }
  ERR_clear_error();
  errno = 0;
  const int result = SSL_read_ex(ssl_.get(), data, size, count);
  return result == 1 ? Io::kOk : FromSsl(result);
}

Transport::Io Transport::Write(const char* data, size_t size, size_t* count) {
  if (ssl_ == nullptr) {
    const ssize_t result = send(fd_.get(), data, size, MSG_NOSIGNAL);
    if (result < 0) return FromErrno(errno);
    *count = static_cast<size_t>(result);
    return Io::kOk;
  }
  ERR_clear_error();
  errno = 0;
  const int result = SSL_write_ex(ssl_.get(), data, size, count);
  return result == 1 ? Io::kOk : FromSsl(result);
}

void Transport::Close() {
  if (ssl_ != nullptr && !broken_ && SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  ssl_.reset();
  fd_.Reset();
}

}  // namespace headrace::net
