// TLS of one endpoint: one SSL_CTX whose CA bundle is parsed once, and the sessions to resume.
#ifndef HEADRACE_COMMON_NET_TLS_H_
#define HEADRACE_COMMON_NET_TLS_H_

#include <openssl/ssl.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace::net {

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using SslPtr = std::unique_ptr<SSL, SslFree>;

struct TlsOptions {
  std::string ca_file{};    // a PEM bundle; empty: the system's (SSL_CERT_FILE, SSL_CERT_DIR too)
  std::string cert_file{};  // PEM chain that shows who we are, with key_file; empty: none
  std::string key_file{};
};

// Makes verified client connections to one host. Used on one thread; must outlive its connections.
class TlsContext {
 public:
  // InvalidArgument when a file cannot be read or does not hold what it should.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // A client connection over `fd`, not yet shaken hands: SNI, host name or address check, ALPN (in
  // the given order, e.g. {"h2", "http/1.1"}) and a session to resume are set. Does not own the fd.
  absl::StatusOr<SslPtr> NewConnection(int fd, const std::string& host,
                                       const std::vector<std::string>& alpn);

  size_t session_count() const { return sessions_.size(); }

 private:
  explicit TlsContext(SSL_CTX* context);
  static int OnNewSession(SSL* ssl, SSL_SESSION* session);

  SSL_CTX* const context_;
  std::deque<SSL_SESSION*> sessions_;  // newest last; a TLS 1.3 ticket is used once
};

// The protocol that the peer chose, empty when it chose none.
absl::string_view AlpnOf(const SSL* ssl);

// What OpenSSL's error queue of this thread says, with the verification error of `ssl` if there is
// one; clears the queue.
std::string TlsErrorText(const SSL* ssl);

}  // namespace headrace::net

#endif  // HEADRACE_COMMON_NET_TLS_H_
