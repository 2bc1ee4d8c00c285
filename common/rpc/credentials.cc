#include "common/rpc/credentials.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/pem.h"
#include "common/rpc/token.h"

namespace headrace::rpc {
namespace {

namespace tls_api = grpc::experimental;

constexpr char kTokenHeader[] = "authorization";
constexpr absl::string_view kBearer = "Bearer ";
constexpr int64_t kRefusalLogSeconds = 10;

std::shared_ptr<tls_api::CertificateProviderInterface> Watch(const std::string& key_file,
                                                             const std::string& cert_file,
                                                             const std::string& ca_file,
                                                             absl::Duration reload) {
  const auto seconds = static_cast<unsigned>(std::max<int64_t>(absl::ToInt64Seconds(reload), 1));
  return std::make_shared<tls_api::FileWatcherCertificateProvider>(key_file, cert_file, ca_file,
                                                                   seconds);
}

// gRPC writes "ipv4:10.0.0.7:40112" and "ipv6:%5Bfd00::7%5D:40112".
std::string ReadableAddress(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:")) absl::ConsumePrefix(&peer, "ipv6:");
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
}

std::string Text(grpc::string_ref text) { return std::string(text.data(), text.size()); }

}  // namespace

absl::Status CheckServerTls(const ServerTls& tls) {
  const bool mutual = !tls.client_ca_file.empty();
  if (!tls.enabled()) {
    if (tls.key_file.empty() && !mutual) return absl::OkStatus();
    return absl::InvalidArgumentError("a key or a client CA needs a certificate too");
  }
  HR_RETURN_IF_ERROR(CheckKeyPair(tls.cert_file, tls.key_file));
  return mutual ? CheckCertificates(tls.client_ca_file) : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const ServerTls& tls) {
  HR_RETURN_IF_ERROR(CheckServerTls(tls));
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  const bool mutual = !tls.client_ca_file.empty();
  tls_api::TlsServerCredentialsOptions options(
      Watch(tls.key_file, tls.cert_file, tls.client_ca_file, tls.reload));
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls_api::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeClientCredentials(
    const ClientTls& tls) {
  const bool has_cert = !tls.cert_file.empty();
  if (!tls.enabled) {
    if (has_cert || !tls.key_file.empty() || !tls.ca_file.empty()) {
      return absl::InvalidArgumentError("a certificate, key or CA is of no use without TLS");
    }
    return grpc::InsecureChannelCredentials();
  }
  if (has_cert != !tls.key_file.empty()) {
    return absl::InvalidArgumentError("a certificate and its key belong together");
  }
  if (has_cert) HR_RETURN_IF_ERROR(CheckKeyPair(tls.cert_file, tls.key_file));
  if (!tls.ca_file.empty()) HR_RETURN_IF_ERROR(CheckCertificates(tls.ca_file));
  tls_api::TlsChannelCredentialsOptions options;
  if (has_cert || !tls.ca_file.empty()) {
    options.set_certificate_provider(Watch(tls.key_file, tls.cert_file, tls.ca_file, tls.reload));
  }
  if (!tls.ca_file.empty()) options.watch_root_certs();
  if (has_cert) options.watch_identity_key_cert_pairs();
  return tls_api::TlsCredentials(options);
}

absl::Status CheckExposure(const Address& address, const ServerTls& tls, bool insecure) {
  if (address.IsLoopback() || tls.enabled() || insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("refusing to listen at ", address.ToString(),
                   " without TLS, where others can reach it: give --tls-cert and --tls-key, or say "
                   "--insecure if the network keeps strangers out"));
}

void WarnOfExposure(const Address& address, const ServerTls& tls, bool has_token) {
  if (address.IsLoopback()) return;
  const std::string where = address.ToString();
  if (!tls.enabled()) {
    HR_LOG(kWarning) << "listening at " << where
                     << " without TLS: prompts, answers and tokens can be read on the network";
  }
  if (!has_token && tls.client_ca_file.empty()) {
    HR_LOG(kWarning) << "listening at " << where
                     << " without a token or a client CA: whoever reaches it can submit jobs, "
                        "which spend the workers' API keys";
  }
}

absl::Status CheckTokenExposure(const Address& address, const ClientTls& tls, bool has_token,
                                bool insecure) {
  if (!has_token || tls.enabled || insecure || address.IsLoopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("refusing to send the token to ", address.ToString(),
                   " without TLS: give --ca-file or --tls, or say --insecure if the network keeps "
                   "strangers out"));
}

void AddToken(const Secret& token, grpc::ClientContext* context) {
  if (token.empty()) return;
  context->AddMetadata(kTokenHeader, absl::StrCat(kBearer, token.Reveal()));
}

grpc::Status TokenCheck::Check(const grpc::ServerContextBase& context) const {
  if (token_ == nullptr || token_->empty()) return grpc::Status::OK;
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range(kTokenHeader);
  std::string why = "this coordinator asks for a token: give it with --token-env or --token-file";
  if (first != last) {
    absl::string_view got(first->second.data(), first->second.size());
    const bool bearer = absl::ConsumePrefix(&got, kBearer);
    if (bearer && token_->Accepts(got) && std::next(first) == last) return grpc::Status::OK;
    why = "the token is not the coordinator's";
  }
  const int64_t now_s = absl::ToUnixSeconds(absl::Now());
  int64_t next_s = next_log_s_.load(std::memory_order_relaxed);
  if (now_s >= next_s && next_log_s_.compare_exchange_strong(next_s, now_s + kRefusalLogSeconds)) {
    HR_LOG(kWarning) << "refused a call from " << ReadableAddress(context.peer()) << ": "
                     << (first == last ? "no token" : "a wrong token");
  }
  return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why);
}

Peer PeerOf(const grpc::ServerContextBase& context) {
  Peer peer;
  peer.address = ReadableAddress(context.peer());
  const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return peer;
  peer.verified = true;
  for (const grpc::string_ref& name : auth->GetPeerIdentity()) peer.names.push_back(Text(name));
  return peer;
}

}  // namespace headrace::rpc
