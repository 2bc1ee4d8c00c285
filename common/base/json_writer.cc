#include "common/base/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"
#include "common/base/utf8.h"

namespace headrace {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighBits = 0x8080808080808080;

// Not zero if a byte of `word` is below 0x20, a quote, a backslash or no ASCII. May also be so when
// no byte is (a borrow between bytes), which costs only time.
uint64_t NeedsCare(uint64_t word) {
  const uint64_t quote = word ^ (kOnes * '"');
  const uint64_t backslash = word ^ (kOnes * '\\');
  return (word | (word - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & kHighBits;
}

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

// How many bytes from `pos` on need no escape and are ASCII.
size_t PlainRun(absl::string_view text, size_t pos) {
  size_t i = pos;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof(word));
    if (NeedsCare(word) != 0) break;
  }
  while (i < text.size() && IsPlain(text[i])) ++i;
  return i - pos;
}

void AppendEscape(char32_t code_point, std::string* out) {
  switch (code_point) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\b':
      out->append("\\b");
      return;
    case '\f':
      out->append("\\f");
      return;
    default:
      break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  const char escape[] = {'\\',
                         'u',
                         kHex[(code_point >> 12) & 15],
                         kHex[(code_point >> 8) & 15],
                         kHex[(code_point >> 4) & 15],
                         kHex[code_point & 15]};
  out->append(escape, sizeof(escape));
}

}  // namespace

void AppendJsonString(absl::string_view value, std::string* out) {
  out->push_back('"');
  size_t copied = 0;  // value[copied, pos) waits to be copied as it is
  size_t pos = 0;
  while (true) {
    pos += PlainRun(value, pos);
    if (pos == value.size()) break;
    const Utf8Step step = NextUtf8(value.substr(pos));
    const bool ends_lines = step.code_point == 0x2028 || step.code_point == 0x2029;
    if (step.valid && step.code_point >= 0x80 && !ends_lines) {
      pos += step.bytes;
      continue;
    }
    out->append(value.data() + copied, pos - copied);
    if (step.valid) {
      AppendEscape(step.code_point, out);
    } else {
      out->append("\xEF\xBF\xBD");
    }
    pos += step.bytes;
    copied = pos;
  }
  out->append(value.data() + copied, pos - copied);
  out->push_back('"');
}

void JsonWriter::Separate() {
  if (need_comma_) out_->push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_->push_back('{');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_->push_back('}');
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_->push_back('[');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_->push_back(']');
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  Separate();
  AppendJsonString(key, out_);
  out_->push_back(':');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) {
  Separate();
  AppendJsonString(value, out_);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  absl::StrAppend(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  Separate();
  absl::StrAppend(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }

JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  char buffer[32];  // the shortest form has at most 24 characters
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  HR_CHECK(error == std::errc());
  return Raw(absl::string_view(buffer, end - buffer));
}

JsonWriter& JsonWriter::Fixed(double value, int digits) {
  HR_CHECK(digits >= 0 && digits <= 17) << digits;
  if (!std::isfinite(value)) return Null();
  char buffer[352];  // 309 digits before the point, a sign, the point, 17 after it
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, digits);
  HR_CHECK(error == std::errc());
  return Raw(absl::string_view(buffer, end - buffer));
}

JsonWriter& JsonWriter::Raw(absl::string_view json) {
  Separate();
  out_->append(json.data(), json.size());
  return *this;
}

}  // namespace headrace
