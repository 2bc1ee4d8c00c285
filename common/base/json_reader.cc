#include "common/base/json_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace headrace {
namespace {

bool IsWhiteSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The high bits of the bytes of `word` that end a run of plain characters: quotes, backslashes and
// control characters. By the zero-byte trick of Hacker's Delight, section 6-1, so only the lowest
// of them is sure.
uint64_t SpecialBytes(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighs = 0x8080808080808080;
  const uint64_t quote = word ^ (kOnes * '"');
  const uint64_t backslash = word ^ (kOnes * '\\');
  return (((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) |
          ((word - kOnes * 0x20) & ~word)) &
         kHighs;
}

// The number of plain bytes at the start of `text`; *high becomes true when one is not ASCII.
size_t PlainRun(absl::string_view text, bool* high) {
  static_assert(std::endian::native == std::endian::little, "the lowest bits are the first byte");
  constexpr uint64_t kHighs = 0x8080808080808080;
  uint64_t all = 0;
  size_t pos = 0;
  for (uint64_t word; pos + sizeof(word) <= text.size(); pos += sizeof(word)) {
    std::memcpy(&word, text.data() + pos, sizeof(word));
    const uint64_t special = SpecialBytes(word);
    if (special != 0) {
      const int plain = std::countr_zero(special) / 8;
      all |= word & ((uint64_t{1} << (8 * plain)) - 1);
      *high = *high || (all & kHighs) != 0;
      return pos + static_cast<size_t>(plain);
    }
    all |= word;
  }
  for (; pos < text.size(); ++pos) {
    const auto c = static_cast<uint8_t>(text[pos]);
    if (c == '"' || c == '\\' || c < 0x20) break;
    all |= c;
  }
  *high = *high || (all & kHighs) != 0;
  return pos;
}

// The place behind the string that begins at `open`, in a valid text.
size_t StringEnd(absl::string_view text, size_t open) {
  size_t quote = text.find('"', open + 1);
  while (quote != absl::string_view::npos) {
    size_t slashes = 0;  // before the quote; the opening quote ends them at the latest
    while (text[quote - 1 - slashes] == '\\') ++slashes;
    if (slashes % 2 == 0) return quote + 1;
    quote = text.find('"', quote + 1);
  }
  return text.size();
}

void AppendCodePoint(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

// The value of the four hex digits at `pos`.
uint32_t HexAt(absl::string_view text, size_t pos) {
  uint32_t value = 0;
  for (size_t i = pos; i < pos + 4 && i < text.size(); ++i) {
    value = value * 16 + static_cast<uint32_t>(HexValue(text[i]) & 15);
  }
  return value;
}

}  // namespace

JsonReader JsonReader::OfValid(absl::string_view text) {
  JsonReader reader(text);
  reader.valid_ = true;
  return reader;
}

bool JsonReader::Fail(bool truncated) {
  if (!failed_) truncated_ = truncated;
  failed_ = true;
  return false;
}

void JsonReader::SkipWhiteSpace() {
  const size_t start = pos_;
  while (pos_ < text_.size() && IsWhiteSpace(text_[pos_])) ++pos_;
  white_space_ += pos_ - start;
}

bool JsonReader::Expect(char c) {
  SkipWhiteSpace();
  if (pos_ >= text_.size()) return Fail(true);
  if (text_[pos_] != c) return Fail();
  ++pos_;
  return true;
}

JsonType JsonReader::Peek() {
  if (failed_) return JsonType::kNone;
  SkipWhiteSpace();
  if (pos_ >= text_.size()) {
    Fail(true);
    return JsonType::kNone;
  }
  switch (text_[pos_]) {
    case '{':
      return JsonType::kObject;
    case '[':
      return JsonType::kArray;
    case '"':
      return JsonType::kString;
    case 't':
      return JsonType::kTrue;
    case 'f':
      return JsonType::kFalse;
    case 'n':
      return JsonType::kNull;
    default:
      if (text_[pos_] == '-' || IsDigit(text_[pos_])) return JsonType::kNumber;
      Fail();
      return JsonType::kNone;
  }
}

bool JsonReader::EnterObject() {
  if (Peek() != JsonType::kObject) return false;
  if (++depth_ > kMaxDepth) return Fail();
  ++pos_;
  first_ = true;
  return true;
}

bool JsonReader::EnterArray() {
  if (Peek() != JsonType::kArray) return false;
  if (++depth_ > kMaxDepth) return Fail();
  ++pos_;
  first_ = true;
  return true;
}

bool JsonReader::NextKey(absl::string_view* raw_key) {
  if (failed_) return false;
  SkipWhiteSpace();
  if (pos_ >= text_.size()) return Fail(true);
  if (text_[pos_] == '}') {
    ++pos_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (!Expect(',')) return false;
    SkipWhiteSpace();
  }
  first_ = false;
  const size_t start = pos_;
  if (!String()) return false;
  *raw_key = text_.substr(start + 1, pos_ - start - 2);
  return Expect(':');
}

bool JsonReader::NextElement() {
  if (failed_) return false;
  SkipWhiteSpace();
  if (pos_ >= text_.size()) return Fail(true);
  if (text_[pos_] == ']') {
    ++pos_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_ && !Expect(',')) return false;
  first_ = false;
  return true;
}

absl::string_view JsonReader::Skip() {
  if (failed_) return {};
  SkipWhiteSpace();
  const size_t start = pos_;
  if (!Value(depth_)) return {};
  first_ = false;
  return text_.substr(start, pos_ - start);
}

bool JsonReader::Value(int depth) {
  SkipWhiteSpace();
  if (pos_ >= text_.size()) return Fail(true);
  const char c = text_[pos_];
  if (c == '"') return String();
  if (c == '{' || c == '[') {
    if (valid_) {
      ValidContainer();
      return true;
    }
    if (depth + 1 > kMaxDepth) return Fail();
    const bool object = c == '{';
    const char close = object ? '}' : ']';
    ++pos_;
    SkipWhiteSpace();
    if (pos_ < text_.size() && text_[pos_] == close) {
      ++pos_;
      return true;
    }
    while (true) {
      if (object) {
        SkipWhiteSpace();
        if (!String() || !Expect(':')) return false;
      }
      if (!Value(depth + 1)) return false;
      SkipWhiteSpace();
      if (pos_ >= text_.size()) return Fail(true);
      const char next = text_[pos_];
      if (next != ',' && next != close) return Fail();
      ++pos_;
      if (next == close) return true;
    }
  }
  if (c == 't') return Literal("true");
  if (c == 'f') return Literal("false");
  if (c == 'n') return Literal("null");
  return Number();
}

bool JsonReader::Literal(absl::string_view word) {
  const absl::string_view rest = text_.substr(pos_, word.size());
  if (rest == word) {
    pos_ += word.size();
    return true;
  }
  return Fail(pos_ + rest.size() == text_.size() && absl::StartsWith(word, rest));
}

bool JsonReader::Digits() {
  if (pos_ >= text_.size()) return Fail(true);
  if (!IsDigit(text_[pos_])) return Fail();
  while (pos_ < text_.size() && IsDigit(text_[pos_])) ++pos_;
  return true;
}

bool JsonReader::Number() {
  const size_t start = pos_;
  if (text_[pos_] == '-') ++pos_;
  if (pos_ < text_.size() && text_[pos_] == '0') {
    ++pos_;
  } else if (!Digits()) {
    if (!truncated_) pos_ = start;  // so that error_text() sees the sign of -Infinity
    return false;
  }
  if (pos_ < text_.size() && text_[pos_] == '.') {
    ++pos_;
    if (!Digits()) return false;
  }
  if (pos_ < text_.size() && (text_[pos_] == 'e' || text_[pos_] == 'E')) {
    ++pos_;
    if (pos_ < text_.size() && (text_[pos_] == '+' || text_[pos_] == '-')) ++pos_;
    if (!Digits()) return false;
  }
  return true;
}

bool JsonReader::Escape() {
  ++pos_;
  if (pos_ >= text_.size()) return Fail(true);
  const char c = text_[pos_];
  if (c != 'u') {
    if (c == '\0' || std::strchr("\"\\/bfnrt", c) == nullptr) return Fail();
    ++pos_;
    return true;
  }
  ++pos_;
  for (int i = 0; i < 4; ++i, ++pos_) {
    if (pos_ >= text_.size()) return Fail(true);
    if (HexValue(text_[pos_]) < 0) return Fail();
  }
  return true;
}

bool JsonReader::String() {
  if (pos_ >= text_.size()) return Fail(true);
  if (text_[pos_] != '"') return Fail();
  if (!valid_) return CheckedString();
  pos_ = StringEnd(text_, pos_);
  return true;
}

bool JsonReader::CheckedString() {
  const size_t start = ++pos_;
  bool high = false;
  while (true) {
    pos_ += PlainRun(text_.substr(pos_), &high);
    if (pos_ >= text_.size()) return Fail(true);
    if (text_[pos_] == '"') break;
    if (text_[pos_] != '\\') return Fail();
    if (!Escape()) return false;
  }
  if (high && !IsValidUtf8(text_.substr(start, pos_ - start))) {
    pos_ = start;
    return Fail();
  }
  ++pos_;
  return true;
}

// To behind the bracket that closes the one at pos_.
void JsonReader::ValidContainer() {
  int depth = 0;
  do {
    const char c = text_[pos_];
    if (c == '"') {
      pos_ = StringEnd(text_, pos_);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++pos_;
  } while (depth > 0 && pos_ < text_.size());
}

bool JsonReader::AtEnd() {
  if (failed_) return false;
  SkipWhiteSpace();
  if (depth_ != 0) return Fail();
  return pos_ == text_.size() || Fail();
}

std::string JsonReader::error_text() const {
  if (!failed_) return "";
  if (truncated_) return absl::StrCat("the JSON ends too early, after ", text_.size(), " bytes");
  const absl::string_view rest = text_.substr(std::min(pos_, text_.size()));
  if (absl::StartsWith(rest, "NaN") || absl::StartsWith(rest, "Infinity") ||
      absl::StartsWith(rest, "-Infinity")) {
    return absl::StrCat("NaN or Infinity at byte ", pos_, " is no JSON number");
  }
  return absl::StrCat("invalid JSON or UTF-8 at byte ", pos_);
}

absl::string_view StringBody(absl::string_view raw) {
  if (raw.size() < 2 || raw.front() != '"') return {};
  return raw.substr(1, raw.size() - 2);
}

void AppendUnescaped(absl::string_view body, std::string* out) {
  size_t pos = 0;
  while (pos < body.size()) {
    const size_t slash = body.find('\\', pos);
    if (slash == absl::string_view::npos || slash + 1 >= body.size()) {
      out->append(body.data() + pos, body.size() - pos);
      return;
    }
    out->append(body.data() + pos, slash - pos);
    pos = slash + 2;
    switch (body[slash + 1]) {
      case 'b':
        out->push_back('\b');
        break;
      case 'f':
        out->push_back('\f');
        break;
      case 'n':
        out->push_back('\n');
        break;
      case 'r':
        out->push_back('\r');
        break;
      case 't':
        out->push_back('\t');
        break;
      case 'u': {
        uint32_t c = HexAt(body, pos);
        pos = std::min(pos + 4, body.size());
        if (c >= 0xD800 && c < 0xDC00 && pos + 6 <= body.size() && body[pos] == '\\' &&
            body[pos + 1] == 'u') {
          const uint32_t low = HexAt(body, pos + 2);
          if (low >= 0xDC00 && low < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
            pos += 6;
          }
        }
        AppendCodePoint(c >= 0xD800 && c < 0xE000 ? 0xFFFD : c, out);
        break;
      }
      default:
        out->push_back(body[slash + 1]);
    }
  }
}

std::string Unescape(absl::string_view body) {
  std::string out;
  out.reserve(body.size());
  AppendUnescaped(body, &out);
  return out;
}

std::optional<int64_t> RawToInt(absl::string_view raw) {
  if (raw.empty() || (raw.front() != '-' && !IsDigit(raw.front()))) return std::nullopt;
  int64_t integer = 0;
  if (absl::SimpleAtoi(raw, &integer)) return integer;
  double number = 0;
  if (!absl::SimpleAtod(raw, &number)) return std::nullopt;
  // 2^53: beyond it a double is no exact count.
  if (!(std::abs(number) <= 9007199254740992.0) || number != std::floor(number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

bool IsEscapedWhiteSpace(absl::string_view body) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (IsWhiteSpace(body[i])) continue;
    if (body[i] != '\\' || i + 1 >= body.size()) return false;
    ++i;
    if (body[i] != 'n' && body[i] != 'r' && body[i] != 't') return false;
  }
  return true;
}

bool MinifyJson(std::string* text, std::string* error, bool* truncated) {
  JsonReader json(*text);
  json.Skip();
  if (!json.AtEnd()) {
    *error = json.error_text();
    *truncated = json.truncated();
    return false;
  }
  if (json.white_space() == 0) return true;
  size_t to = 0;
  for (size_t from = 0; from < text->size();) {
    const char c = (*text)[from];
    if (c == '"') {
      const size_t size = StringEnd(*text, from) - from;
      std::memmove(text->data() + to, text->data() + from, size);
      to += size;
      from += size;
    } else {
      if (!IsWhiteSpace(c)) (*text)[to++] = c;
      ++from;
    }
  }
  text->resize(to);
  return true;
}

}  // namespace headrace
