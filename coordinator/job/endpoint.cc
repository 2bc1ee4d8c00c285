#include <vector>

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

// Names of query parameters that sign a URL, beside those of IsKeyParameter: S3, Google Cloud
// Storage, CloudFront.
bool SignsUrl(absl::string_view name) {
  for (absl::string_view other : {"x-amz-signature", "x-amz-security-token", "x-amz-credential",
                                  "x-goog-signature", "signature", "policy"}) {
    if (absl::EqualsIgnoreCase(name, other)) return true;
  }
  return IsKeyParameter(name);
}

// The names of the parameters of a URL's query.
std::vector<absl::string_view> QueryNames(absl::string_view url) {
  const size_t query = url.find('?');
  std::vector<absl::string_view> names;
  if (query == absl::string_view::npos) return names;
  for (absl::string_view pair : absl::StrSplit(url.substr(query + 1), '&')) {
    names.push_back(pair.substr(0, pair.find('=')));
  }
  return names;
}

std::string UrlProblem(absl::string_view endpoint, absl::string_view instead) {
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
    return absl::StrCat("has a user or a password in it; ", instead);
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
  return "";
}

}  // namespace

std::string EndpointProblem(absl::string_view endpoint) {
  constexpr absl::string_view kInstead = "a key belongs into api_key: {env: NAME}";
  if (std::string problem = UrlProblem(endpoint, kInstead); !problem.empty()) return problem;
  for (absl::string_view name : QueryNames(endpoint)) {
    if (IsKeyParameter(name)) return absl::StrCat("has a key in its query; ", kInstead);
  }
  return "";
}

std::string DatasetUrlProblem(absl::string_view url) {
  constexpr absl::string_view kInstead =
      "a key belongs into dataset.api_key: {env: NAME}; or download the file first";
  if (std::string problem = UrlProblem(url, kInstead); !problem.empty()) return problem;
  for (absl::string_view name : QueryNames(url)) {
    if (SignsUrl(name)) {
      return absl::StrCat(
          "has a key or a signature in its query, which would be written into the "
          "run directory; ",
          kInstead);
    }
  }
  return "";
}

bool IsUrl(absl::string_view path) {
  return absl::StartsWithIgnoreCase(path, "http://") ||
         absl::StartsWithIgnoreCase(path, "https://");
}

std::string ShownUrl(absl::string_view path) {
  if (!IsUrl(path)) return std::string(path);
  absl::string_view url = path.substr(0, path.find_first_of("?#"));
  const size_t begin = url.find("://") + 3;
  const absl::string_view authority = url.substr(begin, url.find('/', begin) - begin);
  const size_t at = authority.rfind('@');
  const size_t user = at == absl::string_view::npos ? 0 : at + 1;
  return absl::StrCat(url.substr(0, begin), url.substr(begin + user));
}

bool IsLoopbackEndpoint(absl::string_view endpoint) {
  absl::string_view authority, host, port;
  if (!SplitAuthority(endpoint, &authority)) return false;
  SplitPort(authority, &host, &port);
  return absl::EqualsIgnoreCase(host, "localhost") || absl::StartsWith(host, "127.") ||
         host == "[::1]";
}

}  // namespace headrace
