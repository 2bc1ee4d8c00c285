#include "worker/http/url.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace headrace::http {
namespace {

// RFC 1035 section 2.3.4 allows 253 characters of a name.
constexpr size_t kMaxHostBytes = 253;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("URL: ", what));
}

bool IsControlOrSpace(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte <= 0x20 || byte == 0x7f;
}

// RFC 3986 section 3.2.2: letters, digits, '-', '.', '_' and '~'; escapes are refused, because no
// resolver takes them.
bool IsHostChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

bool IsAddressChar(char c) {
  return absl::ascii_isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
}

// Splits "host", "host:port", "[v6]" or "[v6]:port".
absl::Status ParseAuthority(absl::string_view authority, Url* url) {
  if (absl::StrContains(authority, '@')) {
    return Bad(
        "user information is not allowed; a key comes from an environment variable or a file");
  }
  absl::string_view host = authority;
  absl::string_view port;
  bool has_port = false;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return Bad("'[' without ']'");
    absl::string_view rest = host.substr(end + 1);
    host = host.substr(0, end);
    if (!absl::StrContains(host, ':') || !std::all_of(host.begin(), host.end(), IsAddressChar)) {
      return Bad("no IPv6 address between the brackets");
    }
    has_port = absl::ConsumePrefix(&rest, ":");
    if (!has_port && !rest.empty()) return Bad("text after ']'");
    port = rest;
  } else {
    const size_t colon = host.find(':');
    has_port = colon != absl::string_view::npos;
    if (has_port) {
      port = host.substr(colon + 1);
      host = host.substr(0, colon);
    }
    if (absl::StrContains(port, ':')) return Bad("an IPv6 address needs brackets");
    if (!std::all_of(host.begin(), host.end(), IsHostChar)) return Bad("bad character in the host");
  }
  if (host.empty()) return Bad("no host");
  if (host.size() > kMaxHostBytes) return Bad("the host is too long");
  url->host = absl::AsciiStrToLower(host);
  // RFC 3986 section 3.2.3: an empty port is the default one.
  if (has_port && !port.empty()) {
    uint32_t number = 0;
    const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
    if (!digits || port.size() > 5 || !absl::SimpleAtoi(port, &number) || number == 0 ||
        number > 65535) {
      return Bad(absl::StrCat("bad port ", port));
    }
    url->port = static_cast<uint16_t>(number);
  }
  return absl::OkStatus();
}

}  // namespace

std::string Url::authority() const {
  std::string result =
      absl::StrContains(host, ':') ? absl::StrCat("[", host, "]") : std::string(host);
  if (port != (tls ? 443 : 80)) absl::StrAppend(&result, ":", port);
  return result;
}

std::string Url::ToString() const {
  return absl::StrCat(tls ? "https://" : "http://", authority(), path, query.empty() ? "" : "?",
                      query);
}

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  if (std::any_of(text.begin(), text.end(), IsControlOrSpace)) {
    return Bad("control character or space");
  }
  const size_t scheme_end = text.find("://");
  if (scheme_end == absl::string_view::npos) return Bad("must begin with http:// or https://");
  Url url;
  const absl::string_view scheme = text.substr(0, scheme_end);
  if (absl::EqualsIgnoreCase(scheme, "https")) {
    url.tls = true;
  } else if (!absl::EqualsIgnoreCase(scheme, "http")) {
    return Bad(absl::StrCat("scheme '", scheme, "' is neither http nor https"));
  }
  url.port = url.tls ? 443 : 80;
  absl::string_view rest = text.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  if (absl::Status status = ParseAuthority(rest.substr(0, authority_end), &url); !status.ok()) {
    return status;
  }
  rest = rest.substr(authority_end);
  const size_t query = rest.find('?');
  if (query != absl::string_view::npos) url.query = std::string(rest.substr(query + 1));
  url.path = std::string(rest.substr(0, query));
  if (url.path.empty()) url.path = "/";
  return url;
}

}  // namespace headrace::http
