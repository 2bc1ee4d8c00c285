// The bearer token that operators and workers show to a coordinator.
#ifndef HEADRACE_COMMON_RPC_TOKEN_H_
#define HEADRACE_COMMON_RPC_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/secret.h"

namespace headrace::rpc {

// Where the token is. At most one of the two.
struct TokenSource {
  std::string env;   // name of an environment variable
  std::string file;  // path

  bool empty() const { return env.empty() && file.empty(); }
};

// The token without white space around it; an empty one when `source` names none. Unauthenticated,
// with the variable or the file in words and never its content: when it is missing, empty, longer
// than 4096 bytes, or holds anything but visible ASCII, which no header can carry.
absl::StatusOr<Secret> ReadToken(const TokenSource& source);

// Compares in a time that depends on neither content; for secrets.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_TOKEN_H_
