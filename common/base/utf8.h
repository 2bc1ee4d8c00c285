// UTF-8 checks by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef HEADRACE_COMMON_BASE_UTF8_H_
#define HEADRACE_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

// The first code point of a text, or what stands in its place.
struct Utf8Step {
  size_t bytes = 0;         // of the code point, or of the maximal subpart that is invalid; >= 1
  char32_t code_point = 0;  // U+FFFD when invalid
  bool valid = false;
};

// Reads the start of `text`, which must not be empty.
Utf8Step NextUtf8(absl::string_view text);

bool IsValidUtf8(absl::string_view text);

// The length of the longest prefix of `text` that is valid UTF-8.
size_t ValidUtf8Prefix(absl::string_view text);

// `text` with each invalid byte sequence replaced by U+FFFD (one per maximal subpart, Unicode 15
// section 3.9).
std::string ReplaceInvalidUtf8(absl::string_view text);

// `text` for a line on a terminal: a space for each control character (C0, DEL, C1), and invalid
// sequences replaced.
std::string PlainLine(absl::string_view text);

// At most `max_bytes` bytes of `text`, cut between code points; invalid sequences are replaced.
// When something was cut, "..." is appended beyond max_bytes.
std::string ExcerptUtf8(absl::string_view text, size_t max_bytes);

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_UTF8_H_
