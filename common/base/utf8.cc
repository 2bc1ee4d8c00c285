#include "common/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace headrace {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr absl::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// What may follow a lead byte (Unicode 15, table 3-7). Only the second byte has a range of its own.
struct Lead {
  uint8_t length = 0;  // 0: cannot start a code point
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many bytes at the start of `text` are ASCII.
size_t AsciiPrefix(absl::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof(word));
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Step NextUtf8(absl::string_view text) {
  const auto byte_at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte_at(0);
  const Lead lead = LeadOf(first);
  if (lead.length == 1) return {1, first, true};
  if (lead.length == 0) return {1, kReplacement, false};
  char32_t code_point = first & (0xFF >> (lead.length + 1));
  for (size_t i = 1; i < lead.length; ++i) {
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (i >= text.size() || byte_at(i) < low || byte_at(i) > high) return {i, kReplacement, false};
    code_point = code_point << 6 | (byte_at(i) & 0x3F);
  }
  return {lead.length, code_point, true};
}

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t pos = 0;
  while (true) {
    pos += AsciiPrefix(text.substr(pos));
    if (pos == text.size()) return pos;
    const Utf8Step step = NextUtf8(text.substr(pos));
    if (!step.valid) return pos;
    pos += step.bytes;
  }
}

bool IsValidUtf8(absl::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.data(), valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append(kReplacementUtf8.data(), kReplacementUtf8.size());
    text.remove_prefix(NextUtf8(text).bytes);
  }
}

std::string PlainLine(absl::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const char32_t c = step.code_point;
    if (!step.valid) {
      line.append(kReplacementUtf8.data(), kReplacementUtf8.size());
    } else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) {
      line.push_back(' ');
    } else {
      line.append(text.data(), step.bytes);
    }
    text.remove_prefix(step.bytes);
  }
  return line;
}

std::string ExcerptUtf8(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes && IsValidUtf8(text)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const absl::string_view piece = step.valid ? text.substr(0, step.bytes) : kReplacementUtf8;
    if (out.size() + piece.size() > max_bytes) {
      out.append("...");
      break;
    }
    out.append(piece.data(), piece.size());
    text.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace headrace
