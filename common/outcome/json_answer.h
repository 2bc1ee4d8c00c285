// Whether the text of an answer is JSON, and which part of it (cases H1, H3, H6, H7). Pure.
#ifndef HEADRACE_COMMON_OUTCOME_JSON_ANSWER_H_
#define HEADRACE_COMMON_OUTCOME_JSON_ANSWER_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace headrace {

enum class JsonKind : uint8_t {
  kWhole,      // the text is one JSON value
  kFenced,     // the text is one code fence, and all that is in it is one JSON value
  kTruncated,  // neither, and the output limit cut the answer
  kRefused,    // the model refused: nobody looked for JSON
  kNone,       // neither
};
inline constexpr int kJsonKinds = 5;

// In results.csv and summary.json: "whole", "fenced", "truncated", "refused", "none".
absl::string_view JsonKindName(JsonKind kind);

struct JsonAnswer {
  JsonKind kind = JsonKind::kNone;
  absl::string_view json;  // a part of the text, as it is; empty unless whole or fenced
  // More than kLongWhiteSpaceTail blanks at the end: a server that does not stop (case H7).
  bool white_space_tail = false;
};
inline constexpr size_t kLongWhiteSpaceTail = 64;  // bytes; as the flag of results.jsonl. Chosen

// A part of a longer text is never picked, and nothing is repaired: JSON between prose, one of
// several fences, and a value without its end are none. Of an answer that the limit cut, a bare
// number is none either, since more digits may have followed. JSON by RFC 8259, nested at most
// JsonReader::kMaxDepth deep.
JsonAnswer FindJson(absl::string_view text, absl::string_view finish_reason);

// True for the reasons that mean an output limit: length, max_tokens, max_output_tokens,
// model_context_window_exceeded.
bool IsOutputLimit(absl::string_view finish_reason);

}  // namespace headrace

#endif  // HEADRACE_COMMON_OUTCOME_JSON_ANSWER_H_
