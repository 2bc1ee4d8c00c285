#include "common/net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::net {
namespace {

// Sessions kept for resumption; servers send two TLS 1.3 tickets per connection by default. Chosen.
constexpr size_t kMaxSessions = 16;
// What one read from the socket may take in: several records of a busy connection per system call.
constexpr size_t kReadAheadBytes = 32 * 1024;

bool IsAddress(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 ||
         inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

// ALPN wire format: each name after its length (RFC 7301 section 3.1).
std::string AlpnWire(const std::vector<std::string>& names) {
  std::string wire;
  for (const std::string& name : names) {
    wire.push_back(static_cast<char>(name.size()));
    absl::StrAppend(&wire, name);
  }
  return wire;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Make(const TlsOptions& options) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return absl::InternalError(absl::StrCat("TLS: ", TlsErrorText(nullptr)));
  std::unique_ptr<TlsContext> result(new TlsContext(context));
  const std::string& file = options.ca_file;
  const int loaded = file.empty() ? SSL_CTX_set_default_verify_paths(context)
                                  : SSL_CTX_load_verify_file(context, file.c_str());
  if (loaded != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CA bundle ", file.empty() ? "of the system" : file, ": ", TlsErrorText(nullptr)));
  }
  if (!options.cert_file.empty() &&
      SSL_CTX_use_certificate_chain_file(context, options.cert_file.c_str()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate ", options.cert_file, ": ", TlsErrorText(nullptr)));
  }
  if (!options.key_file.empty() &&
      SSL_CTX_use_PrivateKey_file(context, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("private key ", options.key_file, ": ", TlsErrorText(nullptr)));
  }
  return result;
}

TlsContext::TlsContext(SSL_CTX* context) : context_(context) {
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  // A FIN without close_notify reads as the end; whether the answer was whole is not TLS's to say.
  // RFC 9113 section 9.2.1 forbids renegotiation and compression.
  SSL_CTX_set_options(
      context_, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context_, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context_, 1);
  SSL_CTX_set_default_read_buffer_len(context_, kReadAheadBytes);
  SSL_CTX_set_session_cache_mode(context_,
                                 SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_sess_set_new_cb(context_, &TlsContext::OnNewSession);
  SSL_CTX_set_app_data(context_, this);
}

TlsContext::~TlsContext() {
  for (SSL_SESSION* session : sessions_) SSL_SESSION_free(session);
  // A connection that outlives us holds the context but must not find us in it.
  SSL_CTX_sess_set_new_cb(context_, nullptr);
  SSL_CTX_free(context_);
}

int TlsContext::OnNewSession(SSL* ssl, SSL_SESSION* session) {
  auto* self = static_cast<TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  self->sessions_.push_back(session);
  if (self->sessions_.size() > kMaxSessions) {
    SSL_SESSION_free(self->sessions_.front());
    self->sessions_.pop_front();
  }
  return 1;  // the reference is ours now
}

absl::StatusOr<SslPtr> TlsContext::NewConnection(int fd, const std::string& host,
                                                 const std::vector<std::string>& alpn) {
  ERR_clear_error();
  SslPtr ssl(SSL_new(context_));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) {
    return absl::ResourceExhaustedError(absl::StrCat("TLS: ", TlsErrorText(nullptr)));
  }
  bool ok = true;
  if (IsAddress(host)) {
    // No SNI for an address (RFC 6066 section 3).
    ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) == 1;
  } else {
    ok = SSL_set1_host(ssl.get(), host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(ssl.get(), host.c_str()) == 1;
  }
  const std::string wire = AlpnWire(alpn);
  // Returns 0 on success, unlike its neighbours.
  ok = ok && (wire.empty() ||
              SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(wire.data()),
                                  static_cast<unsigned int>(wire.size())) == 0);
  if (!ok) return absl::InvalidArgumentError(absl::StrCat("TLS: ", TlsErrorText(nullptr)));
  if (!sessions_.empty()) {
    SSL_SESSION* session = sessions_.back();
    SSL_set_session(ssl.get(), session);
    // TLS 1.3 tickets are for one use (RFC 8446 appendix C.4); a TLS 1.2 session serves many.
    if (SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION) {
      sessions_.pop_back();
      SSL_SESSION_free(session);
    }
  }
  SSL_set_connect_state(ssl.get());
  return ssl;
}

absl::string_view AlpnOf(const SSL* ssl) {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl, &name, &size);
  return absl::string_view(reinterpret_cast<const char*>(name), size);
}

std::string TlsErrorText(const SSL* ssl) {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {  // NOLINT: OpenSSL's type
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof(buffer));
    const char* reason = ERR_reason_error_string(code);
    if (!text.empty()) absl::StrAppend(&text, "; ");
    absl::StrAppend(&text, reason == nullptr ? buffer : reason);
  }
  if (ssl != nullptr) {
    const long result = SSL_get_verify_result(ssl);  // NOLINT: OpenSSL's type
    if (result != X509_V_OK) {
      absl::StrAppend(&text, text.empty() ? "" : ": ", X509_verify_cert_error_string(result));
    }
  }
  if (text.empty()) text = errno == 0 ? "unknown error" : strerror(errno);
  return text;
}

}  // namespace headrace::net
