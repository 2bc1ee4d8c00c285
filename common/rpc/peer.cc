#include "common/rpc/peer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace headrace::rpc {

absl::Status CheckWorkerName(const Peer& peer, absl::string_view worker_id) {
  if (!peer.verified) return absl::OkStatus();
  if (std::find(peer.names.begin(), peer.names.end(), worker_id) != peer.names.end()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("a worker that calls itself ", worker_id, " has shown a certificate for ",
                   peer.names.empty() ? "nobody" : absl::StrJoin(peer.names, ", "),
                   ": the worker's --id must be a name in its certificate"));
}

}  // namespace headrace::rpc
