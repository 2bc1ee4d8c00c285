// The settings of an easy handle (http.md section 6, as far as it concerns HTTP/1.1), each with its
// reason.
#include <curl/curl.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "worker/http/curl_transfer.h"

namespace headrace::http {
namespace {

// libcurl's own timers are backstops: this much later than ours. Chosen, not measured.
constexpr absl::Duration kBackstop = absl::Seconds(30);

template <typename T>
void Set(CURL* easy, CURLoption option, T value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  HR_CHECK(code == CURLE_OK || code == CURLE_NOT_BUILT_IN)
      << "curl_easy_setopt(" << static_cast<int>(option) << "): " << curl_easy_strerror(code);
}

long Milliseconds(absl::Duration duration) {
  constexpr int64_t kMost = INT32_MAX;  // libcurl's limit
  return static_cast<long>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1, kMost));
}

long Seconds(absl::Duration duration) {
  return static_cast<long>(
      std::clamp<int64_t>(absl::ToInt64Seconds(duration), 1, INT32_MAX / 1000));
}

bool Has(const Headers& headers, absl::string_view name) {
  return std::any_of(headers.begin(), headers.end(), [name](const auto& header) {
    return absl::EqualsIgnoreCase(header.first, name);
  });
}

void SetTls(CURL* easy, const CurlSettings& settings) {
  // A CA path, even the built-in one, would keep libcurl from caching the parsed bundle.
  Set(easy, CURLOPT_CAPATH, nullptr);
  Set(easy, CURLOPT_PROXY_CAPATH, nullptr);
  if (settings.ca_bundle.empty()) return;
  Set(easy, CURLOPT_CAINFO, settings.ca_bundle.c_str());
  Set(easy, CURLOPT_PROXY_CAINFO, settings.ca_bundle.c_str());
}

void SetConnection(CURL* easy, const CurlSettings& settings, CurlConnections* connections) {
  Set(easy, CURLOPT_NOSIGNAL, 1L);
  // Without it, removing a transfer whose name is being looked up joins the resolver's thread.
  Set(easy, CURLOPT_QUICK_EXIT, 1L);
  Set(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);  // 64 KB per call in flight otherwise
  Set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  Set(easy, CURLOPT_TCP_KEEPIDLE, 30L);
  Set(easy, CURLOPT_TCP_KEEPINTVL, 10L);
  Set(easy, CURLOPT_SOCKOPTFUNCTION, &CurlConnections::OnSocket);
  Set(easy, CURLOPT_SOCKOPTDATA, connections);
  Set(easy, CURLOPT_CLOSESOCKETFUNCTION, &CurlConnections::OnClose);
  Set(easy, CURLOPT_CLOSESOCKETDATA, connections);
  Set(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
  Set(easy, CURLOPT_MAXAGE_CONN, Seconds(settings.idle_timeout));
  Set(easy, CURLOPT_MAXLIFETIME_CONN, Seconds(settings.max_connection_age));
  // The proxy was chosen by the engine: "" keeps libcurl from asking the environment again.
  Set(easy, CURLOPT_PROXY, settings.proxy.c_str());
  Set(easy, CURLOPT_NOPROXY, "");
  Set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
}

}  // namespace

void CurlTransfer::SetOptions() {
  Set(easy_, CURLOPT_PRIVATE, static_cast<void*>(this));
  Set(easy_, CURLOPT_ERRORBUFFER, error_);
  Set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  Set(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  Set(easy_, CURLOPT_PREREQFUNCTION, &CurlTransfer::OnPrereq);
  Set(easy_, CURLOPT_PREREQDATA, static_cast<void*>(this));
  Set(easy_, CURLOPT_HEADERFUNCTION, &CurlTransfer::OnHeader);
  Set(easy_, CURLOPT_HEADERDATA, static_cast<void*>(this));
  Set(easy_, CURLOPT_WRITEFUNCTION, &CurlTransfer::OnBody);
  Set(easy_, CURLOPT_WRITEDATA, static_cast<void*>(this));
  if (addresses_ != nullptr) Set(easy_, CURLOPT_RESOLVE, addresses_);
  SetConnection(easy_, *settings_, connections_);
  SetTls(easy_, *settings_);
  SetTimeouts();
  SetRequest();
  BuildHeaders();
  Set(easy_, CURLOPT_HTTPHEADER, headers_);
}

void CurlTransfer::SetTimeouts() {
  Set(easy_, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(request_->timeouts.connect + kBackstop));
  if (request_->timeouts.total != absl::InfiniteDuration()) {
    Set(easy_, CURLOPT_TIMEOUT_MS, Milliseconds(request_->timeouts.total + kBackstop));
  }
}

void CurlTransfer::SetRequest() {
  Set(easy_, CURLOPT_URL, absl::StrCat(settings_->base_url, request_->path).c_str());
  Set(easy_, CURLOPT_PATH_AS_IS, 1L);
  const std::string& method = request_->method;
  if (method == "HEAD") {
    Set(easy_, CURLOPT_NOBODY, 1L);
    return;
  }
  const bool has_body =
      !request_->body.empty() || method == "POST" || method == "PUT" || method == "PATCH";
  if (has_body) {
    Set(easy_, CURLOPT_POST, 1L);
    Set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_->body.size()));
    Set(easy_, CURLOPT_POSTFIELDS,
        request_->body.data());  // not copied: request_ outlives the call
  }
  if (method != (has_body ? "POST" : "GET")) Set(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
}

void CurlTransfer::BuildHeaders() {
  const auto append = [this](const std::string& line) {
    headers_ = curl_slist_append(headers_, line.c_str());
  };
  for (const auto& [name, value] : request_->headers) {
    // "Name;" is libcurl's way to say a header with an empty value.
    append(value.empty() ? absl::StrCat(name, ";") : absl::StrCat(name, ": ", value));
  }
  // A name alone removes what libcurl would add by itself.
  append("Expect:");
  for (const char* name : {"Accept", "Content-Type"}) {
    if (!Has(request_->headers, name)) append(absl::StrCat(name, ":"));
  }
}

}  // namespace headrace::http
