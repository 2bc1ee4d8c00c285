#include "worker/provider/anthropic.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "common/base/status.h"
#include "worker/provider/endpoint.h"
#include "worker/provider/reply_reader.h"
#include "worker/provider/request_text.h"

namespace headrace::provider {
namespace {

// Messages in OpenAI's form, taken apart for this API, which has no system role.
struct SplitMessages {
  std::string system;    // texts of the system messages
  std::string messages;  // the elements that are left
};

absl::StatusOr<SplitMessages> SplitSystem(absl::string_view messages_json) {
  SplitMessages split;
  JsonReader json(messages_json);
  absl::string_view key;
  if (!json.EnterArray()) return absl::InvalidArgumentError("messages: they are no JSON array");
  while (json.NextElement()) {
    const absl::string_view raw = json.Skip();
    JsonReader message(raw);
    absl::string_view role, content;
    if (!message.EnterObject()) {
      return absl::InvalidArgumentError(json.ok() ? "messages: one is no JSON object"
                                                  : absl::StrCat("messages: ", json.error_text()));
    }
    while (message.NextKey(&key)) {
      const absl::string_view value = message.Skip();
      if (key == "role") role = StringBody(value);
      if (key == "content") content = value;
    }
    if (role != "system" && role != "developer") {
      absl::StrAppend(&split.messages, split.messages.empty() ? "" : ",", raw);
      continue;
    }
    if (content.empty() || content.front() != '"') {
      return absl::InvalidArgumentError("messages: the content of a system message is no text");
    }
    if (!split.system.empty()) split.system += "\n\n";
    AppendUnescaped(StringBody(content), &split.system);
  }
  if (!json.AtEnd()) {
    return absl::InvalidArgumentError(absl::StrCat("messages: ", json.error_text()));
  }
  if (split.messages.empty()) return absl::InvalidArgumentError("messages: none is left to send");
  return split;
}

class AnthropicCodec : public Codec {
 public:
  AnthropicCodec(Endpoint endpoint, http::Headers headers, Params params, const ModelConfig& config,
                 Secret key)
      : endpoint_(std::move(endpoint)),
        headers_(std::move(headers)),
        params_(std::move(params)),
        stream_(config.stream) {
    context_.vendor = VendorOfHost(endpoint_.host());
    context_.key = std::move(key);
    context_.url = endpoint_.Url(Api::kMessages);
    head_ = "{\"model\":";
    AppendJsonString(config.name, &head_);
    if (!params_.max_output) absl::StrAppend(&head_, ",\"max_tokens\":", kDefaultMaxTokens);
    tail_ = params_.members;
    if (stream_) tail_ += StreamMembers("", /*usage=*/false);
    tail_ += '}';
  }

  absl::StatusOr<BuiltRequest> Build(const ItemRequest& item) const override {
    BuiltRequest built;
    absl::Status status =
        item.body.empty() ? BuildMessage(item, &built) : BuildFromBody(item, &built);
    if (!status.ok()) return status;
    built.api = Api::kMessages;
    built.request.path = endpoint_.Target(Api::kMessages);
    built.request.headers = headers_;
    return built;
  }

  std::unique_ptr<ReplyReader> NewReader(const BuiltRequest& request) const override {
    return std::make_unique<BodyReader>(&context_, Api::kMessages, request.stream, 1);
  }

  std::string url() const override { return context_.url; }

 private:
  absl::Status BuildMessage(const ItemRequest& item, BuiltRequest* built) const;
  absl::Status BuildFromBody(const ItemRequest& item, BuiltRequest* built) const;

  const Endpoint endpoint_;
  const http::Headers headers_;
  const Params params_;
  const bool stream_;
  std::string head_;
  std::string tail_;
  ReaderContext context_;
};

absl::Status AnthropicCodec::BuildMessage(const ItemRequest& item, BuiltRequest* built) const {
  HR_RETURN_IF_ERROR(CheckTexts(item));
  std::string system(item.system);
  std::string messages;
  built->features = params_.features;
  if (item.messages_json.empty()) {
    messages = "{\"role\":\"user\",\"content\":";
    AppendJsonString(item.user, &messages);
    messages += '}';
    ++built->features.messages;
    quota::CountFeatures(item.user, &built->features);
  } else {
    absl::StatusOr<SplitMessages> split = SplitSystem(item.messages_json);
    if (!split.ok()) return split.status();
    messages = std::move(split->messages);
    if (!split->system.empty()) {
      absl::StrAppend(&system, system.empty() ? "" : "\n\n", split->system);
    }
    const std::string list = absl::StrCat("[", messages, "]");
    JsonReader json(list);
    CountMessages(&json, &built->features);
  }
  if (!system.empty() && !params_.system.empty()) {
    return absl::InvalidArgumentError("system: params.system is set, too");
  }
  std::string& body = built->request.body;
  body = head_;
  if (!system.empty()) {
    body += ",\"system\":";
    AppendJsonString(system, &body);
    quota::CountFeatures(system, &built->features);
  } else if (!params_.system.empty()) {
    absl::StrAppend(&body, ",\"system\":", params_.system);
  }
  absl::StrAppend(&body, ",\"messages\":[", messages, "]", tail_);
  built->stream = stream_;
  built->max_output = params_.max_output.value_or(kDefaultMaxTokens);
  return absl::OkStatus();
}

absl::Status AnthropicCodec::BuildFromBody(const ItemRequest& item, BuiltRequest* built) const {
  if (!item.url.empty()) {
    absl::StatusOr<Api> api = ApiOfUrl(item.url);
    if (!api.ok()) return api.status();
    if (*api != Api::kMessages) {
      return absl::InvalidArgumentError(
          absl::StrCat("url: ", item.url, " needs the provider openai"));
    }
  }
  absl::StatusOr<RequestScan> scan = ScanRequest(item.body);
  if (!scan.ok()) return scan.status();
  built->features = scan->features;
  built->max_output = scan->max_output;
  built->stream = stream_ || scan->stream;
  built->request.body =
      stream_ ? WithStreaming(item.body, *scan, /*usage=*/false) : std::string(item.body);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Codec>> MakeAnthropicCodec(const ModelConfig& config, Secret key) {
  HR_ASSIGN_OR_RETURN(Endpoint endpoint, Endpoint::Make(Dialect::kAnthropic, config.endpoint));
  HR_ASSIGN_OR_RETURN(http::Headers headers, MakeHeaders(Dialect::kAnthropic, config, key));
  HR_ASSIGN_OR_RETURN(Params params, ReadParams(config, /*anthropic=*/true));
  return std::make_unique<AnthropicCodec>(std::move(endpoint), std::move(headers),
                                          std::move(params), config, std::move(key));
}

}  // namespace headrace::provider
