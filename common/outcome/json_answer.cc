#include "common/outcome/json_answer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/base/json_reader.h"

namespace headrace {
namespace {

constexpr char kBlanks[] = " \t\r\n";  // RFC 8259 section 2

absl::string_view Trim(absl::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == absl::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool IsJson(absl::string_view text) {
  JsonReader json(text);
  json.Skip();
  return json.AtEnd();
}

// The lines between the first and the last, when these open and close one fence (CommonMark section
// 4.5). Empty when the text is no fence.
absl::string_view InsideOfFence(absl::string_view text) {
  const char mark = text.empty() ? '\0' : text.front();
  if (mark != '`' && mark != '~') return {};
  size_t width = 0;
  while (width < text.size() && text[width] == mark) ++width;
  const size_t first = text.find('\n');
  const size_t last = text.rfind('\n');
  if (width < 3 || first == absl::string_view::npos || first == last) return {};
  const absl::string_view close = text.substr(last + 1);
  if (close.size() < width || close.find_first_not_of(mark) != absl::string_view::npos) return {};
  // An info string with back-ticks would make the line inline code.
  if (mark == '`' && absl::StrContains(text.substr(width, first - width), "`")) return {};
  return text.substr(first + 1, last - first - 1);
}

bool IsNumber(absl::string_view json) {
  return json.front() == '-' || absl::ascii_isdigit(static_cast<unsigned char>(json.front()));
}

}  // namespace

absl::string_view JsonKindName(JsonKind kind) {
  switch (kind) {
    case JsonKind::kWhole:
      return "whole";
    case JsonKind::kFenced:
      return "fenced";
    case JsonKind::kTruncated:
      return "truncated";
    case JsonKind::kRefused:
      return "refused";
    case JsonKind::kNone:
      return "none";
  }
  return "none";
}

bool IsOutputLimit(absl::string_view finish_reason) {
  for (absl::string_view reason :
       {"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"}) {
    if (absl::EqualsIgnoreCase(finish_reason, reason)) return true;
  }
  return false;
}

JsonAnswer FindJson(absl::string_view text, absl::string_view finish_reason) {
  JsonAnswer answer;
  const size_t last = text.find_last_not_of(kBlanks);
  const size_t tail = text.size() - (last == absl::string_view::npos ? 0 : last + 1);
  answer.white_space_tail = tail > kLongWhiteSpaceTail;
  const bool cut = IsOutputLimit(finish_reason);

  const absl::string_view whole = Trim(text);
  if (!whole.empty() && !(cut && IsNumber(whole)) && IsJson(whole)) {
    answer.kind = JsonKind::kWhole;
    answer.json = whole;
    return answer;
  }
  const absl::string_view inside = Trim(InsideOfFence(whole));
  if (!inside.empty() && IsJson(inside)) {
    answer.kind = JsonKind::kFenced;
    answer.json = inside;
    return answer;
  }
  if (cut) answer.kind = JsonKind::kTruncated;
  return answer;
}

}  // namespace headrace
