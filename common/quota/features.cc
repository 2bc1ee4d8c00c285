#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"
#include "common/quota/estimator.h"

namespace headrace::quota {
namespace {

// The length of the run of ASCII at the start of `text`.
size_t AsciiRun(absl::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

int64_t CountLetters(absl::string_view ascii) {
  int64_t letters = 0;
  for (const char c : ascii) {
    const unsigned char lower = static_cast<unsigned char>(c | 0x20) - 'a';
    letters += (lower < 26) | (c == ' ');
  }
  return letters;
}

// Decodes the code point at the start of `text`; returns its length, 1 and U+FFFD where the bytes
// are not UTF-8. Overlong forms and surrogates are not told apart: the counts do not need it.
size_t Decode(absl::string_view text, uint32_t* code_point) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  size_t length = 0;
  uint32_t value = 0;
  if (first >= 0xC2 && first < 0xE0) {
    length = 2;
    value = first & 0x1F;
  } else if (first >= 0xE0 && first < 0xF0) {
    length = 3;
    value = first & 0x0F;
  } else if (first >= 0xF0 && first < 0xF5) {
    length = 4;
    value = first & 0x07;
  }
  *code_point = 0xFFFD;
  if (length == 0 || length > text.size()) return 1;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 1;
    value = value << 6 | (byte(i) & 0x3F);
  }
  *code_point = value;
  return length;
}

// Han, kana, hangul and their punctuation: the blocks of Unicode 15 that CJK text is written in.
bool IsCjk(uint32_t c) {
  return (c >= 0x1100 && c < 0x1200) || (c >= 0x2E80 && c < 0xA4D0) ||
         (c >= 0xA960 && c < 0xA980) || (c >= 0xAC00 && c < 0xD800) ||
         (c >= 0xF900 && c < 0xFB00) || (c >= 0xFE30 && c < 0xFE50) ||
         (c >= 0xFF00 && c < 0xFFF0) || (c >= 0x20000 && c < 0x32000);
}

}  // namespace

void CountFeatures(absl::string_view text, PromptFeatures* features) {
  while (!text.empty()) {
    const size_t run = AsciiRun(text);
    if (run > 0) {
      const int64_t letters = CountLetters(text.substr(0, run));
      features->letters += letters;
      features->symbols += static_cast<int64_t>(run) - letters;
      text.remove_prefix(run);
      continue;
    }
    uint32_t code_point = 0;
    text.remove_prefix(Decode(text, &code_point));
    if (IsCjk(code_point)) {
      ++features->cjk;
    } else if (code_point < 0x250) {
      ++features->latin;
    } else {
      ++features->other;
    }
  }
}

}  // namespace headrace::quota
