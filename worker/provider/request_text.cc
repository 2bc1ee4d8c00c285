#include "worker/provider/request_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace headrace::provider {
namespace {

// Parts of a message that carry no prompt text.
bool IsMarkup(absl::string_view key) {
  for (absl::string_view name : {"role", "type", "id", "tool_call_id", "tool_use_id", "media_type",
                                 "detail", "cache_control", "call_id", "status", "format"}) {
    if (key == name) return true;
  }
  return false;
}

bool IsBinary(absl::string_view key) {
  return key == "image_url" || key == "source" || key == "input_audio" || key == "file_data";
}

void CountText(absl::string_view body, quota::PromptFeatures* features) {
  if (body.find('\\') == absl::string_view::npos) {
    quota::CountFeatures(body, features);
  } else {
    quota::CountFeatures(Unescape(body), features);
  }
}

void CountValue(JsonReader* json, quota::PromptFeatures* features) {
  absl::string_view key;
  switch (json->Peek()) {
    case JsonType::kString:
      CountText(StringBody(json->Skip()), features);
      return;
    case JsonType::kArray:
      json->EnterArray();
      while (json->NextElement()) CountValue(json, features);
      return;
    case JsonType::kObject:
      json->EnterObject();
      while (json->NextKey(&key)) {
        if (IsBinary(key)) ++features->images;
        if (IsBinary(key) || IsMarkup(key)) {
          json->Skip();
        } else {
          CountValue(json, features);
        }
      }
      return;
    case JsonType::kNumber:
      // A prompt of token ids: each is about one token, and so is one uncommon character.
      ++features->other;
      json->Skip();
      return;
    default:
      json->Skip();
  }
}

// Fields whose text the provider counts as input, apart from messages.
bool IsPromptField(absl::string_view key) {
  return key == "prompt" || key == "input" || key == "instructions" || key == "system";
}

// Schemas go into the prompt as text of about this form.
bool IsSchemaField(absl::string_view key) {
  return key == "tools" || key == "functions" || key == "response_format";
}

// The value of `name` in a raw object; empty when absent.
absl::string_view MemberOf(absl::string_view raw_object, absl::string_view name) {
  JsonReader json(raw_object);
  absl::string_view key;
  absl::string_view value;
  if (!json.EnterObject()) return {};
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (key == name) value = raw;
  }
  return value;
}

// A raw stream_options value that asks for usage.
std::string OptionsWithUsage(absl::string_view raw) {
  if (raw.empty() || raw.front() != '{') return "{\"include_usage\":true}";
  const absl::string_view value = MemberOf(raw, "include_usage");
  if (!value.empty()) {
    const auto at = static_cast<size_t>(value.data() - raw.data());
    return absl::StrCat(raw.substr(0, at), "true", raw.substr(at + value.size()));
  }
  const absl::string_view rest = raw.substr(1);
  const bool empty = rest[rest.find_first_not_of(" \t\r\n")] == '}';
  return absl::StrCat("{\"include_usage\":true", empty ? "" : ",", rest);
}

void ReadLimit(absl::string_view key, absl::string_view raw, std::optional<int64_t>* max_output) {
  if (key != "max_tokens" && key != "max_completion_tokens" && key != "max_output_tokens") return;
  const std::optional<int64_t> value = RawToInt(raw);
  if (value && *value > 0) *max_output = std::max(max_output->value_or(0), *value);
}

void ReadChoices(absl::string_view key, absl::string_view raw, int64_t* choices) {
  constexpr int64_t kMaxChoices = 128;  // OpenAI's limit of n
  if (key == "n") *choices = std::clamp<int64_t>(RawToInt(raw).value_or(1), 1, kMaxChoices);
}

}  // namespace

void CountMessages(JsonReader* json, quota::PromptFeatures* features) {
  if (!json->EnterArray()) {
    CountValue(json, features);
    return;
  }
  while (json->NextElement()) {
    ++features->messages;
    CountValue(json, features);
  }
}

absl::StatusOr<RequestScan> ScanRequest(absl::string_view body) {
  RequestScan scan;
  JsonReader json(body);
  absl::string_view key;
  if (!json.EnterObject()) {
    return absl::InvalidArgumentError(json.ok() ? "body: it is no JSON object"
                                                : absl::StrCat("body: ", json.error_text()));
  }
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (!json.ok()) break;
    scan.members.emplace_back(key, raw);
    JsonReader value(raw);
    if (key == "messages") {
      CountMessages(&value, &scan.features);
    } else if (IsPromptField(key)) {
      CountValue(&value, &scan.features);
    } else if (IsSchemaField(key)) {
      quota::CountFeatures(raw, &scan.features);
    } else if (key == "stream") {
      scan.stream_values.push_back(raw);
      scan.stream = raw == "true";
    } else if (key == "stream_options") {
      scan.stream_options = raw;
    }
    ReadLimit(key, raw, &scan.max_output);
    ReadChoices(key, raw, &scan.choices);
  }
  if (!json.AtEnd()) return absl::InvalidArgumentError(absl::StrCat("body: ", json.error_text()));
  return scan;
}

std::string StreamMembers(absl::string_view stream_options, bool usage) {
  if (!usage) return ",\"stream\":true";
  return absl::StrCat(",\"stream\":true,\"stream_options\":", OptionsWithUsage(stream_options));
}

std::string WithStreaming(absl::string_view body, const RequestScan& scan, bool usage) {
  struct Edit {
    size_t at, length;
    std::string text;
  };
  std::vector<Edit> edits;
  const auto replace = [&](absl::string_view value, std::string text) {
    if (value == text) return;
    edits.push_back(
        {static_cast<size_t>(value.data() - body.data()), value.size(), std::move(text)});
  };
  for (absl::string_view value : scan.stream_values) replace(value, "true");
  if (usage && !scan.stream_options.empty()) {
    replace(scan.stream_options, OptionsWithUsage(scan.stream_options));
  }
  std::string added;
  if (scan.stream_values.empty()) added = "\"stream\":true";
  if (usage && scan.stream_options.empty()) {
    absl::StrAppend(&added, added.empty() ? "" : ",",
                    "\"stream_options\":{\"include_usage\":true}");
  }
  if (!added.empty()) {
    if (!scan.members.empty()) added += ',';
    edits.push_back({body.find('{') + 1, 0, std::move(added)});
  }
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.at < b.at; });
  std::string out;
  size_t pos = 0;
  for (const Edit& edit : edits) {
    absl::StrAppend(&out, body.substr(pos, edit.at - pos), edit.text);
    pos = edit.at + edit.length;
  }
  absl::StrAppend(&out, body.substr(pos));
  return out;
}

absl::StatusOr<Params> ReadParams(const ModelConfig& config, bool anthropic) {
  Params params;
  JsonReader json(config.params_json);
  absl::string_view key;
  if (!json.EnterObject()) return absl::InvalidArgumentError("params: it is no JSON object");
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (!json.ok()) break;
    for (absl::string_view own : {"model", "messages", "prompt", "input"}) {
      if (key != own) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("params.", key, ": headrace sets it from the model and the dataset"));
    }
    if (key == "stream") {
      return absl::InvalidArgumentError(
          "params.stream: use the model's `stream`, or --stream and --no-stream");
    }
    if (key == "stream_options") {
      if (!config.stream) {
        return absl::InvalidArgumentError("params.stream_options: the model's `stream` is off");
      }
      if (raw.front() != '{') {
        return absl::InvalidArgumentError("params.stream_options: it is no JSON object");
      }
      params.stream_options = std::string(raw);
      continue;
    }
    if (key == "system" && anthropic) {
      params.system = std::string(raw);
      JsonReader value(raw);
      CountValue(&value, &params.features);
      continue;
    }
    ReadLimit(key, raw, &params.max_output);
    ReadChoices(key, raw, &params.choices);
    if (IsSchemaField(key)) quota::CountFeatures(raw, &params.features);
    absl::StrAppend(&params.members, ",\"", key, "\":", raw);
  }
  if (!json.AtEnd()) {
    return absl::InvalidArgumentError(absl::StrCat("params: ", json.error_text()));
  }
  return params;
}

absl::Status CheckTexts(const ItemRequest& item) {
  if (item.user.empty() && item.messages_json.empty()) {
    return absl::InvalidArgumentError("prompt: it is empty");
  }
  if (!IsValidUtf8(item.user)) return absl::InvalidArgumentError("prompt: it is not UTF-8");
  if (!IsValidUtf8(item.system)) return absl::InvalidArgumentError("system: it is not UTF-8");
  return absl::OkStatus();
}

}  // namespace headrace::provider
