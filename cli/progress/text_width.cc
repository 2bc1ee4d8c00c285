#include "cli/progress/text_width.h"

#include <cstddef>

#include "common/base/utf8.h"

namespace headrace {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Combining marks, joiners, direction marks and variation selectors, the frequent blocks.
constexpr Range kZeroWidth[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064},
    {0x20D0, 0x20F0}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};

// Wide and fullwidth of UAX 11, and emoji.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
                           {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
                           {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                           {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                           {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <size_t N>
bool In(char32_t c, const Range (&ranges)[N]) {
  for (const Range& range : ranges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

int CodePointWidth(char32_t c) {
  if (c < 0x300) return 1;
  if (In(c, kZeroWidth)) return 0;
  return In(c, kWide) ? 2 : 1;
}

// C0, DEL and C1: what a terminal may act on.
bool IsControl(char32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

}  // namespace

int TextWidth(absl::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    width += CodePointWidth(step.code_point);
    text.remove_prefix(step.bytes);
  }
  return width;
}

std::string FitText(absl::string_view text, int columns) {
  std::string out;
  size_t cut_at = 0;  // the last place in `out` that leaves a column for "~"
  int width = 0;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const bool bad = !step.valid || IsControl(step.code_point);
    const int step_width = bad ? 1 : CodePointWidth(step.code_point);
    if (width + step_width > columns) {
      out.resize(cut_at);
      if (columns > 0) out.push_back('~');
      return out;
    }
    width += step_width;
    if (bad) {
      out.push_back('?');
    } else {
      out.append(text.data(), step.bytes);
    }
    if (width < columns) cut_at = out.size();
    text.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace headrace
