// Reads and edits the JSON text of requests without reformatting it.
#ifndef HEADRACE_WORKER_PROVIDER_REQUEST_TEXT_H_
#define HEADRACE_WORKER_PROVIDER_REQUEST_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/json_reader.h"
#include "common/quota/estimator.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

// What a request body says about itself. Views point into the body.
struct RequestScan {
  quota::PromptFeatures features;
  std::optional<int64_t> max_output;  // max_completion_tokens, max_tokens or max_output_tokens
  int64_t choices = 1;                // n
  bool stream = false;
  std::vector<absl::string_view> stream_values;  // of every member "stream"
  absl::string_view stream_options;              // the last one
  // Every member in order, raw key and raw value.
  std::vector<std::pair<absl::string_view, absl::string_view>> members;
};

// InvalidArgument when `body` is no JSON object.
absl::StatusOr<RequestScan> ScanRequest(absl::string_view body);

// Adds the text in a JSON value of messages (strings at any depth; image data counts as one image).
// Consumes the value.
void CountMessages(JsonReader* json, quota::PromptFeatures* features);

// `body` with streaming asked for, and not a byte changed elsewhere: a "stream" member is set to
// true where it stands, else put in front. With `usage`, stream_options.include_usage is made true,
// too: without it a streamed call would have no token counts.
std::string WithStreaming(absl::string_view body, const RequestScan& scan, bool usage);

// The members that streaming needs, as text to append to an object: `,"stream":true,...`.
std::string StreamMembers(absl::string_view stream_options, bool usage);

// `params_json` of a model, ready to be appended to a request: `,"temperature":0`. Streaming
// members are not in it.
struct Params {
  std::string members;
  std::string system;          // raw value of "system" (anthropic); empty when absent
  std::string stream_options;  // raw
  std::optional<int64_t> max_output;
  int64_t choices = 1;
  quota::PromptFeatures features;  // of tools and the like
};
// InvalidArgument, naming the parameter, when it is no JSON object or sets what headrace sets.
absl::StatusOr<Params> ReadParams(const ModelConfig& config, bool anthropic);

// InvalidArgument when an item has neither a prompt nor messages, or its texts are not UTF-8.
absl::Status CheckTexts(const ItemRequest& item);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_REQUEST_TEXT_H_
