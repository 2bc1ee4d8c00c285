// Where and as whom requests are sent: base URL, API paths, keys and headers of a model.
#ifndef HEADRACE_WORKER_PROVIDER_ENDPOINT_H_
#define HEADRACE_WORKER_PROVIDER_ENDPOINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/secret.h"
#include "worker/http/http.h"
#include "worker/http/url.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

enum class Dialect : uint8_t { kOpenAi, kAnthropic };

// "/chat/completions" and so on: what follows the base URL.
absl::string_view ApiPath(Api api);
// The API of an OpenAI Batch `url` ("/v1/embeddings", or the same without /v1). InvalidArgument
// when there is none.
absl::StatusOr<Api> ApiOfUrl(absl::string_view url);

// The one rule for base URLs (cases I3, I4):
//  1. slashes at the end of the path do not matter;
//  2. a path that ends in an API's path is a full endpoint: that part is taken off again;
//  3. openai: an empty path means /v1; any other path is taken as it is, as the OpenAI SDKs do.
//     anthropic: /v1 is added unless the last segment is a version such as v1, as its SDK does;
//  4. the API's path is appended; the query string stays (?api-version=...).
class Endpoint {
 public:
  // InvalidArgument, beginning with "endpoint: ".
  static absl::StatusOr<Endpoint> Make(Dialect dialect, absl::string_view text);

  // Path and query for a request.
  std::string Target(Api api) const;
  // The whole URL, for people.
  std::string Url(Api api) const;
  const std::string& host() const { return url_.host; }

 private:
  explicit Endpoint(http::Url url) : url_(std::move(url)) {}

  http::Url url_;  // its path is the base, without a slash at its end
};

// `key` without ASCII white space around it. InvalidArgument, naming no value, when it holds
// control characters or bytes beyond ASCII, or is wrapped in quotes (case I1).
absl::StatusOr<Secret> CleanKey(const Secret& key);

// The headers of every request of a model: ours, then the user's in their place or after them.
// InvalidArgument, naming the header, on what HTTP does not allow or the engine sets itself.
absl::StatusOr<http::Headers> MakeHeaders(Dialect dialect, const ModelConfig& config,
                                          const Secret& key);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_ENDPOINT_H_
