// A codec speaks one API dialect: it turns an item into a request and an answer into a reply. The
// item loop knows nothing else about providers.
#ifndef HEADRACE_WORKER_PROVIDER_CODEC_H_
#define HEADRACE_WORKER_PROVIDER_CODEC_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/secret.h"
#include "common/outcome/error_class.h"
#include "common/outcome/result_line.h"
#include "common/quota/estimator.h"
#include "common/quota/pool_store.h"
#include "worker/http/http.h"

namespace headrace::provider {

// What a codec needs to know about a model; made from the job.
struct ModelConfig {
  std::string provider;  // "openai" or "anthropic"
  std::string name;
  std::string endpoint;            // base URL as the user wrote it
  std::string params_json = "{}";  // a JSON object
  bool stream = false;
  std::map<std::string, std::string> headers;
};

// The request of one item, before the dialect. Exactly one of `body`, `messages_json` and `user`.
struct ItemRequest {
  absl::string_view user;
  absl::string_view system;
  absl::string_view messages_json;
  absl::string_view body;  // sent byte for byte, apart from streaming fields
  absl::string_view url;   // with body: path of the API, e.g. "/v1/embeddings"; empty: the default
  // Sent as `idempotency-key` by the openai dialect when set: the same for all attempts of an item.
  absl::string_view idempotency_key;
};

// The APIs that the dialects speak.
enum class Api : uint8_t { kChat, kCompletions, kEmbeddings, kResponses, kMessages };

struct BuiltRequest {
  http::Request request;              // timeouts are the caller's
  quota::PromptFeatures features;     // of all text that the provider counts
  std::optional<int64_t> max_output;  // the request's own cap on output tokens
  bool stream = false;                // what was asked for
  Api api = Api::kChat;
  int64_t choices = 1;  // how many the request asks for (`n`)
};

// Rate-limit headers of an answer; absent when the provider did not send them.
struct RateHeaders {
  struct Limit {
    std::optional<int64_t> limit;
    std::optional<int64_t> remaining;
    std::optional<absl::Duration> reset;
  };
  Limit requests, tokens, input_tokens, output_tokens;
};

// The meaning of one finished call.
struct Reply {
  ErrorClass error_class = ErrorClass::kNone;  // kNone: `body` is the answer
  std::string message;                         // of an error, for people; bounded, never with a key
  int http_status = 0;
  std::string request_id;
  std::string body;  // one JSON value on one line: the answer, or the provider's error body;
                     // empty when there is none
  std::string finish_reason;
  std::string flags;  // remarks on an accepted answer, comma-separated: docs/retries.md
  Usage usage;
  bool possibly_billed = false;                 // failed, yet the provider may charge it
  std::optional<absl::Duration> retry_after;    // the provider's hint
  std::optional<quota::Penalty::Kind> penalty;  // what the pool has to hear
  std::optional<quota::Dimension> penalty_dimension;
  RateHeaders rate;
  absl::string_view rule;  // the row of classify.h that decided, for debug logs; may be empty
  quota::Settlement settlement = quota::Settlement::kCharged;
};

// Takes the response of one call and gives its meaning.
class ReplyReader : public http::Receiver {
 public:
  // After the call has ended; once.
  virtual Reply Finish(const http::CallResult& result) = 0;
};

class Codec {
 public:
  virtual ~Codec() = default;

  // InvalidArgument, naming the field, when the item cannot be made into a request of this dialect.
  virtual absl::StatusOr<BuiltRequest> Build(const ItemRequest& item) const = 0;
  // The reader needs `request` during this call only, and nothing of request.request. It must not
  // outlive the codec.
  virtual std::unique_ptr<ReplyReader> NewReader(const BuiltRequest& request) const = 0;
  // The final URL of the default API, for people.
  virtual std::string url() const = 0;
};

// `key` may be empty: no authorization header then. ASCII white space around it is dropped. A
// header of the same name in `headers` takes its place (Azure: "api-key"). InvalidArgument, naming
// the field and never a value of the key: an unknown provider, a bad endpoint or one with a key in
// its query, params that are no JSON object or set what headrace sets itself, header names or
// values that HTTP does not allow, a key with control characters or beyond ASCII.
absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(ModelConfig config, Secret key);

// The text of an answer body, for results.csv and scoring: content of the first choice, or the
// joined text blocks. Empty when there is none.
std::string AnswerText(absl::string_view body);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_CODEC_H_
