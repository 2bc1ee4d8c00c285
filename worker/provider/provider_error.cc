#include "worker/provider/provider_error.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/json_reader.h"
#include "common/base/utf8.h"
#include "worker/provider/rate_headers.h"

namespace headrace::provider {
namespace {

constexpr size_t kMaxWords = 16;  // more are ignored
constexpr size_t kMaxWordBytes = 128;
constexpr size_t kMaxMessageBytes = 2000;  // of which people see less
constexpr size_t kMaxQuotaIds = 8;
constexpr size_t kMaxHeaders = 32;

void AddWord(absl::string_view raw, ProviderError* error) {
  const absl::string_view body = StringBody(raw);
  if (body.empty() || error->words.size() >= kMaxWords) return;
  error->words.push_back(ExcerptUtf8(Unescape(body), kMaxWordBytes));
}

void SetMessage(absl::string_view raw, ProviderError* error) {
  const absl::string_view body = StringBody(raw);
  if (body.empty() || !error->message.empty()) return;
  error->message = ExcerptUtf8(Unescape(body.substr(0, 6 * kMaxMessageBytes)), kMaxMessageBytes);
}

// A code is a word or a number; a number between 400 and 599 is an HTTP status.
void ReadCode(JsonReader* json, ProviderError* error) {
  const absl::string_view raw = json->Skip();
  std::optional<int64_t> number = RawToInt(raw);
  if (!number) {
    AddWord(raw, error);
    int64_t from_text = 0;
    if (absl::SimpleAtoi(StringBody(raw), &from_text)) number = from_text;
  }
  if (number && *number >= 400 && *number <= 599) error->status = static_cast<int>(*number);
}

void ReadMetadataHeaders(JsonReader* json, ProviderError* error) {
  absl::string_view key;
  if (!json->EnterObject()) {
    json->Skip();
    return;
  }
  while (json->NextKey(&key)) {
    const absl::string_view raw = json->Skip();
    if (error->headers.size() >= kMaxHeaders) continue;
    const absl::string_view text = raw.empty() || raw.front() != '"' ? raw : StringBody(raw);
    error->headers.emplace_back(absl::AsciiStrToLower(Unescape(key)), Unescape(text));
  }
}

void ReadObject(JsonReader* json, ProviderError* error, int depth);

// google.rpc.Status.details: RetryInfo, QuotaFailure, ErrorInfo; other arrays hold texts of
// problems.
void ReadDetails(JsonReader* json, ProviderError* error, int depth) {
  if (json->EnterArray()) {
    while (json->NextElement()) ReadDetails(json, error, depth + 1);
    return;
  }
  ReadObject(json, error, depth);
}

void ReadObject(JsonReader* json, ProviderError* error, int depth) {
  constexpr int kMaxNesting = 6;  // error.details[].violations[] is 4
  absl::string_view key;
  if (depth > kMaxNesting || !json->EnterObject()) {
    json->Skip();
    return;
  }
  while (json->NextKey(&key)) {
    if (key == "message" || key == "msg" || key == "error_message" || key == "finishMessage") {
      SetMessage(json->Skip(), error);
    } else if (key == "code" || key == "status" || key == "status_code") {
      ReadCode(json, error);
    } else if (key == "type" || key == "reason" || key == "error_code" || key == "limit_source" ||
               key == "error_type" || key == "__type") {
      AddWord(json->Skip(), error);
    } else if (key == "param") {
      error->param = ExcerptUtf8(Unescape(StringBody(json->Skip())), kMaxWordBytes);
    } else if (key == "retryDelay") {
      error->retry_delay = ParseUnitDuration(StringBody(json->Skip()));
    } else if (key == "quotaId" || key == "quotaMetric") {
      const absl::string_view body = StringBody(json->Skip());
      if (error->quota_ids.size() < kMaxQuotaIds) error->quota_ids.push_back(Unescape(body));
    } else if (key == "headers") {
      ReadMetadataHeaders(json, error);
    } else if (key == "details" || key == "violations" || key == "metadata" ||
               key == "innererror" || key == "inner_error") {
      ReadDetails(json, error, depth + 1);
    } else {
      json->Skip();
    }
  }
}

// The member `error` (or `detail`) of a body: an object, a text or a list.
void ReadErrorMember(JsonReader* json, ProviderError* error) {
  const JsonType type = json->Peek();
  if (type != JsonType::kString) {
    ReadDetails(json, error, 1);
    return;
  }
  // Ollama: the whole message; Scaleway: a label beside a message.
  const absl::string_view raw = json->Skip();
  AddWord(raw, error);
  SetMessage(raw, error);
}

// Passes an `error` that is none.
bool SaysNothing(JsonReader* json) {
  JsonReader ahead = *json;
  if (!IsNoError(ahead.Skip())) return false;
  json->Skip();
  return true;
}

struct Seen {
  bool error_member = false;
  bool type_error = false;
  bool flat = false;    // code, message or detail at the top
  bool answer = false;  // choices, content, data, output: an answer after all
};

Seen ReadTop(JsonReader* json, ProviderError* error) {
  Seen seen;
  std::string top_message;
  absl::string_view key;
  while (json->NextKey(&key)) {
    if (key == "error") {
      if (SaysNothing(json)) continue;
      seen.error_member = true;
      ReadErrorMember(json, error);
    } else if (key == "detail" || key == "errors") {
      seen.flat = true;
      ReadErrorMember(json, error);
    } else if (key == "type" || key == "object" || key == "__type") {
      const absl::string_view raw = json->Skip();
      if (StringBody(raw) == "error") seen.type_error = true;
      AddWord(raw, error);
    } else if (key == "message" || key == "msg") {
      const absl::string_view body = StringBody(json->Skip());
      if (!body.empty()) seen.flat = true;
      top_message = ExcerptUtf8(Unescape(body), kMaxMessageBytes);
    } else if (key == "code" || key == "status" || key == "status_code") {
      seen.flat = seen.flat || key == "code";
      ReadCode(json, error);
    } else if (key == "param") {
      error->param = ExcerptUtf8(Unescape(StringBody(json->Skip())), kMaxWordBytes);
    } else if (key == "request_id") {
      error->request_id = ExcerptUtf8(Unescape(StringBody(json->Skip())), kMaxWordBytes);
    } else {
      if (key == "choices" || key == "content" || key == "data" || key == "output") {
        seen.answer = seen.answer || json->Peek() == JsonType::kArray;
      }
      json->Skip();
    }
  }
  // Beside {"error":"LABEL"} the message says more than the label.
  if (!top_message.empty() && (error->message.empty() || error->HasWord(error->message))) {
    error->message = top_message;
  }
  return seen;
}

std::optional<ProviderError> Read(JsonReader json, bool lenient) {
  ProviderError error;
  if (json.EnterArray() && !json.NextElement()) return std::nullopt;
  if (!json.EnterObject()) return std::nullopt;
  const Seen seen = ReadTop(&json, &error);
  if (seen.error_member || seen.type_error) return error;
  if (lenient && seen.flat && !seen.answer) return error;
  return std::nullopt;
}

}  // namespace

bool IsNoError(absl::string_view raw) {
  if (absl::StartsWith(raw, "{") || absl::StartsWith(raw, "[")) {
    return absl::StripAsciiWhitespace(raw.substr(1, raw.size() - 2)).empty();
  }
  return raw == "null" || raw == "false" || raw == "0" || raw == "\"\"";
}

bool ProviderError::HasWord(absl::string_view word) const {
  for (const std::string& have : words) {
    if (absl::EqualsIgnoreCase(have, word)) return true;
  }
  return false;
}

std::optional<ProviderError> ReadProviderError(JsonReader json) {
  return Read(json, /*lenient=*/true);
}

std::optional<ProviderError> ReadStreamError(absl::string_view json, bool named) {
  std::optional<ProviderError> error = Read(JsonReader(json), named);
  if (error || !named) return error;
  ProviderError bare;
  bare.message = ExcerptUtf8(json, kMaxMessageBytes);
  return bare;
}

int StatusOfWords(const ProviderError& error) {
  struct Row {
    absl::string_view word;
    int status;
  };
  // Anthropic errors page; OpenAI error codes page; google.rpc.Code; vLLM's class names.
  static constexpr Row kRows[] = {
      {"invalid_request_error", 400},
      {"invalid_prompt", 400},
      {"BadRequestError", 400},
      {"INVALID_ARGUMENT", 400},
      {"context_length_exceeded", 400},
      {"authentication_error", 401},
      {"UNAUTHENTICATED", 401},
      {"billing_error", 402},
      {"permission_error", 403},
      {"PERMISSION_DENIED", 403},
      {"not_found_error", 404},
      {"NotFoundError", 404},
      {"request_too_large", 413},
      {"rate_limit_error", 429},
      {"rate_limit_exceeded", 429},
      {"RESOURCE_EXHAUSTED", 429},
      {"insufficient_quota", 429},
      {"too_many_requests", 429},
      {"slow_down", 429},
      {"api_error", 500},
      {"server_error", 500},
      {"internal_error", 500},
      {"internal_server_error", 500},
      {"InternalServerError", 500},
      {"INTERNAL", 500},
      {"UNAVAILABLE", 503},
      {"server_is_overloaded", 503},
      {"service_unavailable", 503},
      {"timeout_error", 504},
      {"DEADLINE_EXCEEDED", 504},
      {"overloaded_error", 529},
  };
  // The most specific word is the later one in most bodies (type, then code), but a type such as
  // invalid_request_error also accompanies codes of other statuses; any code row wins over it.
  int status = 0;
  for (const std::string& word : error.words) {
    for (const Row& row : kRows) {
      if (!absl::EqualsIgnoreCase(word, row.word)) continue;
      if (status == 0 || status == 400) status = row.status;
    }
  }
  return status;
}

}  // namespace headrace::provider
