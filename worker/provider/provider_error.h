// What a provider says went wrong, taken out of the many shapes of error bodies.
#ifndef HEADRACE_WORKER_PROVIDER_PROVIDER_ERROR_H_
#define HEADRACE_WORKER_PROVIDER_PROVIDER_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/json_reader.h"
#include "worker/http/http.h"

namespace headrace::provider {

struct ProviderError {
  // Identifiers: type, code, status, reason, details.error_code and the like, as the provider wrote
  // them. Rules compare them without case.
  std::vector<std::string> words;
  std::string message;
  std::string param;                          // the request field that the error is about
  int status = 0;                             // an HTTP status named in the body, else 0
  std::vector<std::string> quota_ids;         // google.rpc.QuotaFailure
  std::optional<absl::Duration> retry_delay;  // google.rpc.RetryInfo
  http::Headers headers;  // OpenRouter's error.metadata.headers, names in lower case
  std::string request_id;

  bool HasWord(absl::string_view word) const;
};

// What gateways write as the `error` of a good answer: null, false, 0, "", {} or [].
bool IsNoError(absl::string_view raw);

// Reads the error out of what `json` is about to read: {"error":{...}}, {"error":"text"},
// {"type":"error","error":{...}}, a flat {"code","message"}, {"detail":...}, or one of these in an
// array. Takes what is there when the text is cut. Absent when nothing in it speaks of an error: an
// object with choices is none, nor is an `error` that IsNoError().
std::optional<ProviderError> ReadProviderError(JsonReader json);
inline std::optional<ProviderError> ReadProviderError(absl::string_view text) {
  return ReadProviderError(JsonReader(text));
}

// The error in one stream event. Only an `error` member, or "type":"error", makes an event an
// error, unless the event's own name says so (`named`): then any object or text does.
std::optional<ProviderError> ReadStreamError(absl::string_view json, bool named);

// The HTTP status that a word stands for when there is no status line of its own: overloaded_error
// is 529 (Anthropic, errors page), rate_limit_exceeded 429, and so on; 0 when unknown.
int StatusOfWords(const ProviderError& error);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_PROVIDER_ERROR_H_
