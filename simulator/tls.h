// The simulator's side of TLS: a context with ALPN, and a certificate made in memory for tests.
#ifndef HEADRACE_SIMULATOR_TLS_H_
#define HEADRACE_SIMULATOR_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace::simulator {

struct SslCtxDeleter {
  void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
};
using SslCtx = std::unique_ptr<SSL_CTX, SslCtxDeleter>;

// A TLS 1.2+ server context that prefers h2 over http/1.1. `cert_file` may hold a chain.
// InvalidArgument when the files are no PEM or do not fit together.
absl::StatusOr<SslCtx> ServerContextFromFiles(const std::string& cert_file,
                                              const std::string& key_file);

// The same with a fresh P-256 key, for localhost, 127.0.0.1 and ::1, signed by a fresh CA whose PEM
// goes to *ca_pem. Valid for 10 days.
absl::StatusOr<SslCtx> ServerContextSelfSigned(std::string* ca_pem);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_TLS_H_
