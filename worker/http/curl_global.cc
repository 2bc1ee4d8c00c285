#include "worker/http/curl_global.h"

#include <curl/curl.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::http {
namespace {

// 7.88.0: what Debian 12 has, the oldest version that the engine's tests run against.
constexpr unsigned kOldestCurl = 0x075800;

void IgnoreSigpipe() {
  struct sigaction action{};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

absl::Status Initialise() {
  IgnoreSigpipe();
  if (const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK) {
    return absl::InternalError(absl::StrCat("curl_global_init: ", curl_easy_strerror(code)));
  }
  const curl_version_info_data* info = curl_version_info(CURLVERSION_NOW);
  if (info->version_num < kOldestCurl) {
    return absl::FailedPreconditionError(
        absl::StrCat("libcurl ", info->version, " is too old: headrace needs 7.88 or newer"));
  }
  if ((info->features & CURL_VERSION_SSL) == 0 || (info->features & CURL_VERSION_ASYNCHDNS) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("libcurl ", info->version, " lacks TLS or an asynchronous resolver"));
  }
  HR_LOG(kDebug) << "libcurl " << info->version << " with " << info->ssl_version;
  return absl::OkStatus();
}

absl::Status CheckHoldsCertificates(const std::string& path) {
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                      &X509_STORE_free);
  const bool loaded = X509_STORE_load_file(store.get(), path.c_str()) == 1;
  ERR_clear_error();
  if (loaded) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ca_file ", path, " cannot be read or holds no certificate in PEM"));
}

}  // namespace

absl::Status EnsureCurl() {
  static const absl::Status* const status = new absl::Status(Initialise());
  return *status;
}

absl::StatusOr<std::string> CaBundle(absl::string_view ca_file) {
  if (!ca_file.empty()) {
    std::string path(ca_file);
    if (absl::Status status = CheckHoldsCertificates(path); !status.ok()) return status;
    return path;
  }
  // OpenSSL's own variable first, then where Debian, Fedora, SUSE and Alpine keep theirs.
  if (const char* chosen = std::getenv("SSL_CERT_FILE"); chosen != nullptr && *chosen != '\0') {
    return std::string(chosen);
  }
  for (const char* path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/ssl/cert.pem"}) {
    if (access(path, R_OK) == 0) return std::string(path);
  }
  return std::string();
}

}  // namespace headrace::http
