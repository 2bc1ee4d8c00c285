#include "worker/provider/redact.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace headrace::provider {
namespace {

constexpr size_t kMinKey = 8;
// Chosen: longer than the common beginnings of keys ("sk-proj-", "sk-ant-api03-" shows a family and
// no secret).
constexpr size_t kMinShown = 12;

// The character of `digits` hexadecimal digits at `pos`.
std::optional<char> HexChar(absl::string_view text, size_t pos, size_t digits) {
  int value = 0;
  if (pos + digits > text.size()) return std::nullopt;
  for (size_t i = pos; i < pos + digits; ++i) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(text[i]))) return std::nullopt;
    const char c = absl::ascii_tolower(static_cast<unsigned char>(text[i]));
    value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    if (value > 0x7F) return std::nullopt;
  }
  return static_cast<char>(value);
}

// The bytes at `pos` that stand for `c`; 0 when they do not.
size_t BytesOf(char c, absl::string_view text, size_t pos) {
  if (text[pos] == c) return 1;
  if (text[pos] == '%') return HexChar(text, pos + 1, 2) == c ? 3 : 0;
  if (text[pos] != '\\') return 0;
  // Several backslashes: JSON in a string of JSON, once or twice.
  constexpr size_t kMaxBackslashes = 7;
  const size_t after = text.substr(0, pos + kMaxBackslashes + 1).find_first_not_of('\\', pos);
  if (after == absl::string_view::npos) return 0;
  if (text[after] == 'u') return HexChar(text, after + 1, 4) == c ? after + 5 - pos : 0;
  return text[after] == c ? after + 1 - pos : 0;
}

// Whether the character at `pos` is the end of an escape such as "\\n": then it does not stand for
// itself, and what JSON is would be none without it.
bool IsEscaped(absl::string_view text, size_t pos) {
  constexpr size_t kMaxSlashes = 64;  // a bound on time alone
  const size_t most = std::min(pos, kMaxSlashes);
  size_t slashes = 0;
  while (slashes < most && text[pos - 1 - slashes] == '\\') ++slashes;
  return slashes % 2 == 1;
}

// The bytes at `pos` that show the key or enough of its beginning; 0 when none do.
size_t KeyAt(absl::string_view key, absl::string_view text, size_t pos) {
  const size_t start = pos;
  size_t shown = 0;
  while (shown < key.size() && pos < text.size()) {
    const size_t bytes = BytesOf(key[shown], text, pos);
    if (bytes == 0) break;
    pos += bytes;
    ++shown;
  }
  return shown >= std::min(key.size(), kMinShown) ? pos - start : 0;
}

}  // namespace

void RedactKey(const Secret& secret, std::string* text) {
  const absl::string_view key = secret.Reveal();
  if (key.size() < kMinKey) return;
  const absl::string_view rest = *text;
  std::string out;
  size_t copied = 0;
  size_t pos = rest.find(key.front());
  while (pos != absl::string_view::npos) {
    size_t bytes = KeyAt(key, rest, pos);
    if (bytes > 0 && IsEscaped(rest, pos)) bytes = 0;
    if (bytes > 0) {
      out.append(rest.data() + copied, pos - copied);
      out.append("[redacted]");
      copied = pos + bytes;
    }
    pos = rest.find(key.front(), pos + std::max<size_t>(bytes, 1));
  }
  if (copied == 0) return;
  out.append(rest.data() + copied, rest.size() - copied);
  *text = std::move(out);
}

}  // namespace headrace::provider
