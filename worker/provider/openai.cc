#include "worker/provider/openai.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "common/base/status.h"
#include "worker/provider/endpoint.h"
#include "worker/provider/reply_reader.h"
#include "worker/provider/request_text.h"

namespace headrace::provider {
namespace {

// HTTP limits no header by itself; 255 is what the APIs that document idempotency keys take.
constexpr size_t kMaxIdempotencyKey = 255;

class OpenAiCodec : public Codec {
 public:
  OpenAiCodec(Endpoint endpoint, http::Headers headers, Params params, const ModelConfig& config,
              Secret key)
      : endpoint_(std::move(endpoint)),
        headers_(std::move(headers)),
        params_(std::move(params)),
        stream_(config.stream) {
    context_.vendor = VendorOfHost(endpoint_.host());
    context_.key = std::move(key);
    context_.url = endpoint_.Url(Api::kChat);
    absl::StrAppend(&head_, "{\"model\":");
    AppendJsonString(config.name, &head_);
    tail_ = params_.members;
    if (stream_) tail_ += StreamMembers(params_.stream_options, /*usage=*/true);
    tail_ += '}';
  }

  absl::StatusOr<BuiltRequest> Build(const ItemRequest& item) const override {
    BuiltRequest built;
    absl::Status status = item.body.empty() ? BuildChat(item, &built) : BuildFromBody(item, &built);
    if (!status.ok()) return status;
    built.request.path = endpoint_.Target(built.api);
    built.request.headers.reserve(headers_.size() + 1);
    built.request.headers = headers_;
    if (!item.idempotency_key.empty()) {
      built.request.headers.emplace_back(
          "idempotency-key", std::string(item.idempotency_key.substr(0, kMaxIdempotencyKey)));
    }
    return built;
  }

  std::unique_ptr<ReplyReader> NewReader(const BuiltRequest& request) const override {
    return std::make_unique<BodyReader>(&context_, request.api, request.stream, request.choices);
  }

  std::string url() const override { return context_.url; }

 private:
  absl::Status BuildChat(const ItemRequest& item, BuiltRequest* built) const;
  absl::Status BuildFromBody(const ItemRequest& item, BuiltRequest* built) const;

  const Endpoint endpoint_;
  const http::Headers headers_;
  const Params params_;
  const bool stream_;
  std::string head_;  // `{"model":"..."`
  std::string tail_;  // params and streaming members, and the closing brace
  ReaderContext context_;
};

absl::Status OpenAiCodec::BuildChat(const ItemRequest& item, BuiltRequest* built) const {
  HR_RETURN_IF_ERROR(CheckTexts(item));
  built->features = params_.features;
  std::string& body = built->request.body;
  body.reserve(head_.size() + tail_.size() + item.user.size() + item.system.size() +
               item.messages_json.size() + 128);
  absl::StrAppend(&body, head_, ",\"messages\":[");
  if (!item.system.empty()) {
    body.append("{\"role\":\"system\",\"content\":");
    AppendJsonString(item.system, &body);
    body.push_back('}');
    ++built->features.messages;
    quota::CountFeatures(item.system, &built->features);
  }
  if (item.messages_json.empty()) {
    absl::StrAppend(&body, item.system.empty() ? "" : ",", "{\"role\":\"user\",\"content\":");
    AppendJsonString(item.user, &body);
    body.push_back('}');
    ++built->features.messages;
    quota::CountFeatures(item.user, &built->features);
  } else {
    JsonReader json(item.messages_json);
    if (json.Peek() != JsonType::kArray) {
      return absl::InvalidArgumentError("messages: they are no JSON array");
    }
    const int64_t before = built->features.messages;
    CountMessages(&json, &built->features);
    if (!json.AtEnd()) {
      return absl::InvalidArgumentError(absl::StrCat("messages: ", json.error_text()));
    }
    if (built->features.messages == before) {
      return absl::InvalidArgumentError("messages: the array is empty");
    }
    std::string elements;
    AppendElements(absl::StripAsciiWhitespace(item.messages_json), &elements);
    absl::StrAppend(&body, item.system.empty() ? "" : ",", elements);
  }
  absl::StrAppend(&body, "]", tail_);
  built->api = Api::kChat;
  built->stream = stream_;
  built->choices = params_.choices;
  built->max_output = params_.max_output;
  return absl::OkStatus();
}

absl::Status OpenAiCodec::BuildFromBody(const ItemRequest& item, BuiltRequest* built) const {
  if (!item.url.empty()) {
    absl::StatusOr<Api> api = ApiOfUrl(item.url);
    if (!api.ok()) return api.status();
    if (*api == Api::kMessages) {
      return absl::InvalidArgumentError("url: /v1/messages needs the provider anthropic");
    }
    built->api = *api;
  }
  absl::StatusOr<RequestScan> scan = ScanRequest(item.body);
  if (!scan.ok()) return scan.status();
  built->features = scan->features;
  built->choices = scan->choices;
  built->max_output = scan->max_output;
  // Without streaming the body is not touched, not even a "stream":true of its own.
  built->stream = scan->stream;
  if (stream_ && built->api != Api::kEmbeddings) {
    // A streamed response of the Responses API always ends with its usage.
    built->request.body = WithStreaming(item.body, *scan, /*usage=*/built->api != Api::kResponses);
    built->stream = true;
  } else {
    built->request.body = std::string(item.body);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Codec>> MakeOpenAiCodec(const ModelConfig& config, Secret key) {
  HR_ASSIGN_OR_RETURN(Endpoint endpoint, Endpoint::Make(Dialect::kOpenAi, config.endpoint));
  HR_ASSIGN_OR_RETURN(http::Headers headers, MakeHeaders(Dialect::kOpenAi, config, key));
  HR_ASSIGN_OR_RETURN(Params params, ReadParams(config, /*anthropic=*/false));
  return std::make_unique<OpenAiCodec>(std::move(endpoint), std::move(headers), std::move(params),
                                       config, std::move(key));
}

}  // namespace headrace::provider
