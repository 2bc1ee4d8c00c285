// Who is at the other end of a stream.
#ifndef HEADRACE_COMMON_RPC_PEER_H_
#define HEADRACE_COMMON_RPC_PEER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace headrace::rpc {

struct Peer {
  std::string address;  // "10.0.0.7:40112", "[fd00::7]:40112"; empty within one process
  // True when the peer has shown a certificate that our CA vouches for (mTLS).
  bool verified = false;
  // The subject alternative names of that certificate, or its common name when it has none.
  std::vector<std::string> names;
};

// OK unless `peer` has shown a certificate that does not name `worker_id`: then PermissionDenied,
// with both names in words. A worker cannot take the place of another with a certificate of its
// own.
absl::Status CheckWorkerName(const Peer& peer, absl::string_view worker_id);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_PEER_H_
