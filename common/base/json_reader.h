// A strict pull reader for JSON texts of providers (RFC 8259).
//
// Why not simdjson's on-demand parser: it does not look into what is skipped, so NaN or a bad
// escape in a kept log-prob would reach the result file; it refuses lone surrogate escapes, which a
// stream may split over two deltas; and it needs padded copies. This reader checks every byte in
// one pass, hands out raw text, and tells a cut text from a wrong one. A test compares it with
// simdjson.
#ifndef HEADRACE_COMMON_BASE_JSON_READER_H_
#define HEADRACE_COMMON_BASE_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

enum class JsonType { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull, kNone };

// Reads one JSON value from front to back. Every value must be consumed exactly once: by Enter and
// a loop to its end, or by Skip.
//
//   JsonReader json(text);
//   absl::string_view key;
//   if (json.EnterObject()) {
//     while (json.NextKey(&key)) {
//       if (key == "id") id = json.Skip(); else json.Skip();
//     }
//   }
//   if (!json.AtEnd()) return Error(json.error_text());
//
// After an error every call returns false, or an empty view. Keys are raw: an escaped key matches
// no name. Not thread-safe; `text` must outlive the reader and all views it gave.
class JsonReader {
 public:
  static constexpr int kMaxDepth = 256;  // chosen, not measured: providers stay below 20

  explicit JsonReader(absl::string_view text) : text_(text) {}
  // For a text that is known to be one JSON value, because MinifyJson() or another reader has gone
  // through all of it: what is skipped is not checked again, which is several times as fast.
  static JsonReader OfValid(absl::string_view text);

  // The type of the next value; kNone at an error.
  JsonType Peek();
  // False, consuming nothing, when the next value is of another type.
  bool EnterObject();
  bool EnterArray();
  // Within an object: moves to the next member. False at the object's end.
  bool NextKey(absl::string_view* raw_key);
  // Within an array: true when an element follows. False at the array's end.
  bool NextElement();
  // Consumes the next value and gives its text: strings with their quotes.
  absl::string_view Skip();

  // True when the one value was whole and only white space follows.
  bool AtEnd();
  bool ok() const { return !failed_; }
  // With !ok(): the text is right as far as it goes, but it ends too early.
  bool truncated() const { return failed_ && truncated_; }
  std::string error_text() const;
  // White space between tokens so far.
  size_t white_space() const { return white_space_; }

 private:
  void SkipWhiteSpace();
  bool Fail(bool truncated = false);
  bool Expect(char c);
  bool String();
  bool CheckedString();
  void ValidContainer();
  bool Escape();
  bool Number();
  bool Literal(absl::string_view word);
  bool Value(int depth);
  bool Digits();

  const absl::string_view text_;
  size_t pos_ = 0;
  size_t white_space_ = 0;
  int depth_ = 0;
  bool first_ = false;  // no member of the innermost container was read yet
  bool valid_ = false;  // by OfValid()
  bool failed_ = false;
  bool truncated_ = false;
};

// The text between the quotes of a raw JSON string, still escaped; empty when `raw` is no string.
absl::string_view StringBody(absl::string_view raw);
// Appends the characters that an escaped JSON string body stands for; a lone surrogate becomes
// U+FFFD. `body` must have passed JsonReader.
void AppendUnescaped(absl::string_view body, std::string* out);
std::string Unescape(absl::string_view body);
// The integer of a raw JSON number, also of "3.0"; absent for anything else.
std::optional<int64_t> RawToInt(absl::string_view raw);
// True for white space only, raw or as \n, \r, \t escapes, and for the empty text.
bool IsEscapedWhiteSpace(absl::string_view body);

// Checks *text and removes the white space between its tokens, in place. False when it is no JSON;
// *text is unchanged then, *error says why, and *truncated whether only the end is missing.
bool MinifyJson(std::string* text, std::string* error, bool* truncated);

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_JSON_READER_H_
