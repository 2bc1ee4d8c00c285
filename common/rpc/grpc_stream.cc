#include "common/rpc/grpc_stream.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace headrace::rpc {
namespace {

// What OpenSSL and gRPC say of a connection, and what it means to whoever set it up.
struct Meaning {
  absl::string_view said;
  absl::string_view meant;
};
constexpr Meaning kMeanings[] = {
    {"wrong version number", "TLS is not spoken there"},
    {"certificate verify failed", "its certificate is of no CA that is trusted here"},
    {"Hostname Verification Check failed", "its certificate is not for this name"},
};

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  std::string message = status.error_message();
  for (const Meaning& meaning : kMeanings) {
    if (!absl::StrContains(message, meaning.said)) continue;
    message = absl::StrCat(meaning.meant, " (", message, ")");
    break;
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), message);
}

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace headrace::rpc
