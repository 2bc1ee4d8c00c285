// http and https URLs, by RFC 3986, as endpoints need them.
#ifndef HEADRACE_WORKER_HTTP_URL_H_
#define HEADRACE_WORKER_HTTP_URL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace::http {

struct Url {
  bool tls = false;
  std::string host;   // lower case; an IPv6 address without brackets
  uint16_t port = 0;  // the scheme's default when not given
  std::string path;   // begins with '/'; "/" when empty; no fragment
  std::string query;  // without '?', may be empty

  // "host" or "host:port" when the port is not the default; IPv6 in brackets.
  std::string authority() const;
  std::string ToString() const;
};

// InvalidArgument, with what is wrong, on another scheme, user information (keys do not belong into
// URLs), a bad port, an empty host, control characters or spaces.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_URL_H_
