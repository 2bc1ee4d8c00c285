#include "worker/http/request_check.h"

#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace headrace::http {
namespace {

// What a method or header name may hold (RFC 9110 section 5.6.2); a table, because every call asks.
constexpr std::array<bool, 256> kTokenBytes = [] {
  std::array<bool, 256> token{};
  for (int c = '0'; c <= '9'; ++c) token[c] = true;
  for (int c = 'A'; c <= 'Z'; ++c) token[c] = token[c - 'A' + 'a'] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) token[static_cast<size_t>(c)] = true;
  return token;
}();

bool IsToken(absl::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!kTokenBytes[static_cast<unsigned char>(c)]) return false;
  }
  return true;
}

bool IsFieldValue(absl::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return false;
  }
  return true;
}

bool IsOrigin(absl::string_view path) {
  if (!absl::StartsWith(path, "/")) return false;
  for (const char c : path) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '#') return false;
  }
  return true;
}

bool IsSetByEngine(absl::string_view name) {
  static constexpr absl::string_view kOwn[] = {
      "host",    "content-length", "connection",       "transfer-encoding",
      "upgrade", "keep-alive",     "proxy-connection", "expect",
      "te"};
  for (const absl::string_view own : kOwn) {
    if (name.size() == own.size() && absl::EqualsIgnoreCase(name, own)) return true;
  }
  return false;
}

}  // namespace

absl::Status CheckRequest(const Request& request) {
  if (!IsToken(request.method)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(request.method), "\" is no HTTP method"));
  }
  if (!IsOrigin(request.path)) {
    return absl::InvalidArgumentError(
        "the path must begin with '/' and hold only visible ASCII without '#'");
  }
  for (const auto& [name, value] : request.headers) {
    if (!IsToken(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::CHexEscape(name), "\" is no header name"));
    }
    if (IsSetByEngine(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header ", name, " is set by the HTTP engine alone"));
    }
    if (!IsFieldValue(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the value of the header ", name, " holds a line end or control character"));
    }
  }
  return absl::OkStatus();
}

}  // namespace headrace::http
