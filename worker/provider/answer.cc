#include "worker/provider/answer.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json_reader.h"
#include "common/base/utf8.h"

namespace headrace::provider {
namespace {

constexpr size_t kMaxReasonBytes = 128;
constexpr size_t kMaxTextBytes = 300;  // of a refusal or an explanation in a message
// A tail of white space longer than this is reported (case H7). Chosen: code may end in blank
// lines.
constexpr size_t kLongTail = 64;

std::string Text(absl::string_view raw, size_t max_bytes) {
  return ExcerptUtf8(Unescape(StringBody(raw).substr(0, 6 * max_bytes)), max_bytes);
}

bool IsNonEmptyString(absl::string_view raw) { return !StringBody(raw).empty(); }

bool IsNonEmptyArray(absl::string_view raw) {
  JsonReader json = JsonReader::OfValid(raw);
  return json.EnterArray() && json.NextElement();
}

bool IsObject(absl::string_view raw) { return absl::StartsWith(raw, "{"); }

// What one choice or message holds.
struct Content {
  bool message = false;  // there is a message, or text, at all
  bool text = false;
  bool reasoning = false;
  bool other = false;  // tool calls, audio
  bool long_tail = false;
  std::string refusal;
  std::string finish_reason;
  std::string explanation;  // finishMessage and the like
};

bool EndsInLongTail(absl::string_view body) {
  size_t start = body.size();
  while (start > 0) {
    const char c = body[start - 1];
    if (c == ' ') {
      --start;
    } else if (start > 1 && body[start - 2] == '\\' && (c == 'n' || c == 't' || c == 'r')) {
      start -= 2;
    } else {
      break;
    }
  }
  return body.size() - start > kLongTail;
}

// Parts of a content list: {"type":"text","text":...}, refusals, anything else is content, too.
void ReadParts(absl::string_view raw, Content* content) {
  JsonReader json = JsonReader::OfValid(raw);
  absl::string_view key;
  if (!json.EnterArray()) return;
  while (json.NextElement()) {
    if (!json.EnterObject()) {
      json.Skip();
      continue;
    }
    absl::string_view type;
    bool text = false;
    absl::string_view refusal;
    while (json.NextKey(&key)) {
      const absl::string_view value = json.Skip();
      if (key == "type") type = StringBody(value);
      if (key == "text") text = IsNonEmptyString(value);
      if (key == "refusal") refusal = value;
    }
    if (type == "thinking" || type == "redacted_thinking" || type == "reasoning") {
      content->reasoning = true;
    } else if (type == "refusal") {
      content->refusal = Text(refusal, kMaxTextBytes);
    } else if (type == "text" || type == "output_text") {
      content->text = content->text || text;
    } else {
      content->other = true;
    }
  }
}

void ReadContent(absl::string_view raw, Content* content) {
  if (absl::StartsWith(raw, "[")) {
    ReadParts(raw, content);
    return;
  }
  content->text = IsNonEmptyString(raw);
  content->long_tail = EndsInLongTail(StringBody(raw));
}

void ReadMessage(JsonReader* json, Content* content) {
  absl::string_view key;
  if (!json->EnterObject()) {
    json->Skip();
    return;
  }
  content->message = true;
  while (json->NextKey(&key)) {
    const absl::string_view raw = json->Skip();
    if (key == "content") {
      ReadContent(raw, content);
    } else if (key == "refusal") {
      if (IsNonEmptyString(raw)) content->refusal = Text(raw, kMaxTextBytes);
    } else if (key == "tool_calls") {
      content->other = content->other || IsNonEmptyArray(raw);
    } else if (key == "function_call" || key == "audio") {
      content->other = content->other || IsObject(raw);
    } else if (key == "reasoning_content" || key == "reasoning") {
      content->reasoning = content->reasoning || IsNonEmptyString(raw);
    }
  }
}

void ReadChoice(JsonReader* json, Content* content) {
  absl::string_view key;
  if (!json->EnterObject()) {
    json->Skip();
    return;
  }
  while (json->NextKey(&key)) {
    if (key == "message") {
      ReadMessage(json, content);
    } else if (key == "text") {
      content->message = true;
      ReadContent(json->Skip(), content);
    } else if (key == "finish_reason") {
      content->finish_reason = Text(json->Skip(), kMaxReasonBytes);
    } else if (key == "finishReason") {
      const std::string reason = Text(json->Skip(), kMaxReasonBytes);
      if (content->finish_reason.empty()) content->finish_reason = reason;
    } else if (key == "finishMessage" || key == "finish_message") {
      content->explanation = Text(json->Skip(), kMaxTextBytes);
    } else {
      json->Skip();
    }
  }
}

bool IsFilterReason(absl::string_view reason) {
  return reason == "content_filter" || reason == "SAFETY" || reason == "sensitive";
}

void Fail(ErrorClass error_class, std::string message, Judgement* judgement) {
  judgement->error_class = error_class;
  judgement->message = std::move(message);
}

// Sets the class of an answer whose first choice or message is `content`.
void JudgeContent(const Content& content, Judgement* judgement) {
  const std::string& reason = content.finish_reason;
  const auto because = [&content, &reason] {
    return absl::StrCat(reason.empty() ? "no finish reason" : "finish reason ", reason,
                        content.explanation.empty() ? "" : ": ", content.explanation);
  };
  if (!content.refusal.empty() || reason == "refusal") {
    Fail(ErrorClass::kRefusal,
         absl::StrCat("the model refused", content.refusal.empty() ? "" : ": ", content.refusal,
                      content.explanation.empty() ? "" : ": ", content.explanation),
         judgement);
  } else if (IsFilterReason(reason)) {
    Fail(ErrorClass::kContentFilter, absl::StrCat("a content filter cut the answer: ", because()),
         judgement);
  } else if (reason == "error") {
    Fail(ErrorClass::kServerError, absl::StrCat("the provider failed: ", because()), judgement);
  } else if (!content.message ||
             absl::StrContains(absl::AsciiStrToLower(reason), "malformed_function_call")) {
    Fail(ErrorClass::kInvalidResponse, absl::StrCat("a choice without a message: ", because()),
         judgement);
  } else if (!content.text && !content.other) {
    Fail(ErrorClass::kEmptyAnswer,
         absl::StrCat(content.reasoning ? "reasoning only, no answer: " : "an empty answer: ",
                      because()),
         judgement);
  }
  if (content.long_tail) judgement->flags.push_back("white_space_tail");
}

void JudgeChoices(JsonReader* json, int64_t wanted, Judgement* judgement) {
  if (!json->EnterArray()) {
    json->Skip();
    return;
  }
  int64_t count = 0;
  int64_t bad = 0;
  int64_t unfinished = 0;
  while (json->NextElement()) {
    Content content;
    ReadChoice(json, &content);
    unfinished += content.finish_reason.empty();
    judgement->has_end = judgement->has_end || !content.finish_reason.empty();
    Judgement one;
    JudgeContent(content, count == 0 ? judgement : &one);
    if (count == 0) {
      judgement->finish_reason = content.finish_reason;
    } else {
      bad += one.error_class != ErrorClass::kNone;
    }
    ++count;
  }
  if (count == 0) return;
  if (unfinished > 0) judgement->flags.push_back("no_finish_reason");
  if (bad > 0) judgement->flags.push_back("some_choices_failed");
  if (count < wanted) judgement->flags.push_back("fewer_choices");
}

// chat and completions.
void JudgeChat(absl::string_view body, int64_t wanted, Judgement* judgement) {
  JsonReader json = JsonReader::OfValid(body);
  absl::string_view key;
  bool choices = false;
  if (!json.EnterObject()) {
    Fail(ErrorClass::kInvalidResponse, "the answer is no JSON object", judgement);
    return;
  }
  while (json.NextKey(&key)) {
    if (key == "choices") {
      JsonReader peek = json;
      choices = choices || (peek.EnterArray() && peek.NextElement());
      JudgeChoices(&json, wanted, judgement);
    } else if (key == "usage") {
      ReadUsage(json.Skip(), &judgement->usage);
    } else {
      json.Skip();
    }
  }
  if (!choices) Fail(ErrorClass::kInvalidResponse, "the answer has no choices", judgement);
}

void JudgeEmbeddings(absl::string_view body, Judgement* judgement) {
  JsonReader json = JsonReader::OfValid(body);
  absl::string_view key;
  bool data = false;
  if (json.EnterObject()) {
    while (json.NextKey(&key)) {
      const absl::string_view raw = json.Skip();
      if (key == "data") data = IsNonEmptyArray(raw);
      if (key == "usage") ReadUsage(raw, &judgement->usage);
    }
  }
  judgement->has_end = data;
  if (!data) Fail(ErrorClass::kInvalidResponse, "the answer has no embeddings", judgement);
}

// The items of a Responses output: messages hold parts, the rest is calls and reasoning.
void ReadOutput(JsonReader* json, Content* content) {
  absl::string_view key;
  if (!json->EnterArray()) {
    json->Skip();
    return;
  }
  content->message = true;
  while (json->NextElement()) {
    absl::string_view type;
    absl::string_view parts;
    if (!json->EnterObject()) {
      json->Skip();
      continue;
    }
    while (json->NextKey(&key)) {
      const absl::string_view raw = json->Skip();
      if (key == "type") type = StringBody(raw);
      if (key == "content") parts = raw;
    }
    if (type == "reasoning") {
      content->reasoning = true;
    } else if (type == "message" || type.empty()) {
      ReadContent(parts, content);
    } else {
      content->other = true;
    }
  }
}

void JudgeResponses(absl::string_view body, Judgement* judgement) {
  JsonReader json = JsonReader::OfValid(body);
  absl::string_view key;
  Content content;
  std::string status;
  std::string reason;
  if (!json.EnterObject()) {
    Fail(ErrorClass::kInvalidResponse, "the answer is no JSON object", judgement);
    return;
  }
  while (json.NextKey(&key)) {
    if (key == "output") {
      ReadOutput(&json, &content);
    } else if (key == "status") {
      status = Text(json.Skip(), kMaxReasonBytes);
    } else if (key == "usage") {
      ReadUsage(json.Skip(), &judgement->usage);
    } else if (key == "incomplete_details" && json.EnterObject()) {
      while (json.NextKey(&key)) {
        const absl::string_view raw = json.Skip();
        if (key == "reason") reason = Text(raw, kMaxReasonBytes);
      }
    } else {
      json.Skip();
    }
  }
  judgement->has_end = status == "completed" || status == "incomplete" || status == "failed";
  content.finish_reason = reason.empty() ? status : reason;
  judgement->finish_reason = content.finish_reason;
  if (status == "failed" || status == "cancelled") {
    Fail(ErrorClass::kServerError, absl::StrCat("the response has the status ", status), judgement);
    return;
  }
  if (status == "in_progress" || status == "queued") {
    Fail(ErrorClass::kIncomplete, absl::StrCat("the response is still ", status), judgement);
    return;
  }
  if (!content.message) {
    Fail(ErrorClass::kInvalidResponse, "the answer has no output", judgement);
    return;
  }
  JudgeContent(content, judgement);
}

void JudgeMessages(absl::string_view body, Judgement* judgement) {
  JsonReader json = JsonReader::OfValid(body);
  absl::string_view key;
  Content content;
  if (!json.EnterObject()) {
    Fail(ErrorClass::kInvalidResponse, "the answer is no JSON object", judgement);
    return;
  }
  while (json.NextKey(&key)) {
    if (key == "content") {
      content.message = json.Peek() == JsonType::kArray;
      ReadContent(json.Skip(), &content);
    } else if (key == "stop_reason") {
      content.finish_reason = Text(json.Skip(), kMaxReasonBytes);
    } else if (key == "usage") {
      ReadUsage(json.Skip(), &judgement->usage);
    } else if (key == "stop_details" && json.EnterObject()) {
      while (json.NextKey(&key)) {
        const absl::string_view raw = json.Skip();
        if (key == "category" || key == "explanation") {
          absl::StrAppend(&content.explanation, content.explanation.empty() ? "" : ", ",
                          Text(raw, kMaxTextBytes));
        }
      }
    } else {
      json.Skip();
    }
  }
  judgement->has_end = !content.finish_reason.empty();
  judgement->finish_reason = content.finish_reason;
  if (content.finish_reason.empty()) judgement->flags.push_back("no_finish_reason");
  if (!content.message && content.finish_reason != "refusal") {
    Fail(ErrorClass::kInvalidResponse, "the answer has no content", judgement);
    return;
  }
  JudgeContent(content, judgement);
}

// More tokens than any call can have are an invention of the server; the sums of a job stay far
// from the end of their type. Chosen, not measured.
constexpr int64_t kMaxTokens = 1'000'000'000;

std::optional<int64_t> ReadTokens(JsonReader* json) {
  const std::optional<int64_t> value = RawToInt(json->Skip());
  if (!value || *value < 0 || *value > kMaxTokens) return std::nullopt;
  return value;
}

void ReadUsageDetails(JsonReader* json, Usage* usage) {
  absl::string_view key;
  if (!json->EnterObject()) {
    json->Skip();
    return;
  }
  while (json->NextKey(&key)) {
    const std::optional<int64_t> value = ReadTokens(json);
    if (!value) continue;
    if (key == "cached_tokens") usage->cached_tokens = value;
    if (key == "reasoning_tokens") usage->reasoning_tokens = value;
  }
}

}  // namespace

void ReadUsage(absl::string_view raw, Usage* usage) {
  JsonReader json(raw);
  absl::string_view key;
  std::optional<int64_t> anthropic_cache_read;
  bool anthropic = false;
  if (!json.EnterObject()) return;
  while (json.NextKey(&key)) {
    if (absl::EndsWith(key, "_details")) {
      ReadUsageDetails(&json, usage);
      continue;
    }
    const std::optional<int64_t> value = ReadTokens(&json);
    if (!value) continue;
    if (key == "prompt_tokens" || key == "input_tokens") {
      usage->prompt_tokens = value;
    } else if (key == "completion_tokens" || key == "output_tokens") {
      usage->completion_tokens = value;
    } else if (key == "prompt_cache_hit_tokens") {  // DeepSeek
      usage->cached_tokens = value;
    } else if (key == "cache_read_input_tokens") {
      anthropic = true;
      anthropic_cache_read = value;
    } else if (key == "cache_creation_input_tokens") {
      anthropic = true;
      usage->cache_write_tokens = value;
    } else if (key == "reasoning_tokens") {
      usage->reasoning_tokens = value;
    }
  }
  if (!anthropic) return;
  // Anthropic's input_tokens leave out what the cache read and wrote; Usage::prompt_tokens has all.
  usage->cached_tokens = anthropic_cache_read;
  if (usage->prompt_tokens) {
    *usage->prompt_tokens +=
        anthropic_cache_read.value_or(0) + usage->cache_write_tokens.value_or(0);
  }
}

Judgement JudgeAnswer(Api api, absl::string_view body, int64_t choices) {
  Judgement judgement;
  judgement.error = ReadProviderError(JsonReader::OfValid(body));
  if (judgement.error) return judgement;
  switch (api) {
    case Api::kChat:
    case Api::kCompletions:
      JudgeChat(body, choices, &judgement);
      break;
    case Api::kEmbeddings:
      JudgeEmbeddings(body, &judgement);
      break;
    case Api::kResponses:
      JudgeResponses(body, &judgement);
      break;
    case Api::kMessages:
      JudgeMessages(body, &judgement);
      break;
  }
  return judgement;
}

}  // namespace headrace::provider
