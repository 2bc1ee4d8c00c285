// How a command reaches a coordinator: the flags that `worker`, `status`, `submit`, `jobs` and
// `cancel` share.
#ifndef HEADRACE_CLI_REMOTE_COORDINATOR_FLAGS_H_
#define HEADRACE_CLI_REMOTE_COORDINATOR_FLAGS_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/credentials.h"
#include "common/rpc/token.h"

namespace CLI {
class App;
}

namespace headrace {

struct CoordinatorFlags {
  std::string coordinator;  // ADDR:PORT
  rpc::ClientTls tls;
  rpc::TokenSource token;
  bool insecure = false;
};

// Adds the flags to `command`. *flags outlives the parsing.
void AddCoordinatorFlags(CLI::App* command, CoordinatorFlags* flags);

struct CoordinatorConnection {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;  // connects when first used
  std::shared_ptr<rpc::LiveToken> token;   // perhaps an empty one
};

// InvalidArgument for a bad address, bad TLS files, or a token that would be sent in plaintext;
// Unauthenticated for a token that is not there.
absl::StatusOr<CoordinatorConnection> Connect(CoordinatorFlags flags);

}  // namespace headrace

#endif  // HEADRACE_CLI_REMOTE_COORDINATOR_FLAGS_H_
