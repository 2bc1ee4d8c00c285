// TLS and tokens of the connections between coordinator, workers and operators.
//
// Certificates, keys and CAs are files. They are read again every `reload`, so a renewed
// certificate serves the connections made from then on, and nothing has to be restarted. Renew a
// certificate and its key together, by renaming or by a symbolic link, as Kubernetes does.
#ifndef HEADRACE_COMMON_RPC_CREDENTIALS_H_
#define HEADRACE_COMMON_RPC_CREDENTIALS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/secret.h"
#include "common/rpc/address.h"
#include "common/rpc/peer.h"
#include "common/rpc/token.h"

namespace headrace::rpc {

// Chosen, not measured: soon enough for certificates that live for hours.
inline constexpr absl::Duration kReloadInterval = absl::Seconds(10);

// What a server shows and asks for. Without a certificate it speaks plaintext.
struct ServerTls {
  std::string cert_file;       // PEM, the chain from the server's own certificate on
  std::string key_file;        // PEM
  std::string client_ca_file;  // PEM; with it each client must show a certificate (mTLS)
  absl::Duration reload = kReloadInterval;  // at least 1 s

  bool enabled() const { return !cert_file.empty(); }
};

// What a client asks for and shows. Plaintext unless `enabled`.
struct ClientTls {
  bool enabled = false;
  std::string ca_file;    // PEM; empty: the system's CAs
  std::string cert_file;  // PEM, for mTLS
  std::string key_file;
  absl::Duration reload = kReloadInterval;  // at least 1 s
};

// The errors of MakeServerCredentials(), without starting gRPC and its threads.
absl::Status CheckServerTls(const ServerTls& tls);

// InvalidArgument or NotFound, with the file in words, when a file cannot be read, holds no PEM, or
// when a key does not fit its certificate: gRPC would only fail each handshake. Warns of a
// certificate that has run out.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const ServerTls& tls);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const ClientTls& tls);

// Whether a server may listen at `address`: beyond loopback only with TLS, unless `insecure` was
// said in so many words. InvalidArgument says what to do.
absl::Status CheckExposure(const Address& address, const ServerTls& tls, bool insecure);
// Logs what a server at `address` leaves open to others.
void WarnOfExposure(const Address& address, const ServerTls& tls, bool has_token);

// Whether a client may send a token to `address`: in plaintext only over loopback, unless
// `insecure`. InvalidArgument says what to do.
absl::Status CheckTokenExposure(const Address& address, const ClientTls& tls, bool has_token,
                                bool insecure);

// Adds the token to a call; nothing when it is empty. gRPC's own call credentials refuse every
// channel without TLS, loopback too.
void AddToken(const Secret& token, grpc::ClientContext* context);

// Checks the token of each call. Thread-safe.
class TokenCheck {
 public:
  // None, or an empty token, lets everyone in.
  explicit TokenCheck(std::shared_ptr<LiveToken> token) : token_(std::move(token)) {}

  // UNAUTHENTICATED, with words, without the token. The refusal is logged with the peer's address,
  // at most once in 10 s.
  grpc::Status Check(const grpc::ServerContextBase& context) const;

 private:
  const std::shared_ptr<LiveToken> token_;
  mutable std::atomic<int64_t> next_log_s_{0};
};

Peer PeerOf(const grpc::ServerContextBase& context);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_CREDENTIALS_H_
