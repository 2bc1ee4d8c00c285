#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/secret.h"
#include "coordinator/job/check_job.h"

namespace headrace {
namespace {

// "host:port" of a URL, and whether the scheme is one of the two.
bool SplitAuthority(absl::string_view endpoint, absl::string_view* authority) {
  const size_t scheme_end = endpoint.find("://");
  if (scheme_end == absl::string_view::npos) return false;
  const std::string scheme = absl::AsciiStrToLower(endpoint.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") return false;
  *authority = endpoint.substr(scheme_end + 3);
  *authority = authority->substr(0, authority->find_first_of("/?#"));
  return true;
}

// Splits at the last colon outside brackets; an empty port when there is none.
void SplitPort(absl::string_view authority, absl::string_view* host, absl::string_view* port) {
  const size_t colon = authority.rfind(':');
  const size_t bracket = authority.rfind(']');
  *host = authority;
  *port = absl::string_view();
  if (colon == absl::string_view::npos) return;
  if (bracket != absl::string_view::npos && colon < bracket) return;
  *host = authority.substr(0, colon);
  *port = authority.substr(colon + 1);
}

}  // namespace

std::string EndpointProblem(absl::string_view endpoint) {
  for (char c : endpoint) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f) {
      return "has a space, a control character or a character outside ASCII";
    }
  }
  absl::string_view authority, host, port;
  if (!SplitAuthority(endpoint, &authority)) {
    return "must be a URL that begins with http:// or https://";
  }
  if (absl::StrContains(authority, "@")) {
    return "has a user or a password in it; a key belongs into api_key: {env: NAME}";
  }
  if (absl::StrContains(endpoint, "#")) return "has a fragment ('#'), which is never sent";
  SplitPort(authority, &host, &port);
  if (host.empty()) return "has no host";
  uint32_t number = 0;
  if (host.size() != authority.size() &&
      (!absl::SimpleAtoi(port, &number) || number == 0 || number > 65535)) {
    return "has a port that is no number from 1 to 65535";
  }
  const bool bracketed = absl::StartsWith(host, "[");
  if (bracketed != absl::EndsWith(host, "]") || (!bracketed && absl::StrContains(host, ":"))) {
    return "has an IPv6 address that is not in brackets";
  }
  const size_t query = endpoint.find('?');
  if (query == absl::string_view::npos) return "";
  for (absl::string_view pair : absl::StrSplit(endpoint.substr(query + 1), '&')) {
    if (IsKeyParameter(pair.substr(0, pair.find('=')))) {
      return "has a key in its query; a key belongs into api_key: {env: NAME}";
    }
  }
  return "";
}

bool IsLoopbackEndpoint(absl::string_view endpoint) {
  absl::string_view authority, host, port;
  if (!SplitAuthority(endpoint, &authority)) return false;
  SplitPort(authority, &host, &port);
  return absl::EqualsIgnoreCase(host, "localhost") || absl::StartsWith(host, "127.") ||
         host == "[::1]";
}

}  // namespace headrace
