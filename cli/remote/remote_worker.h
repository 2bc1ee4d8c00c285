// `headrace worker`: a worker process in session with a coordinator elsewhere.
#ifndef HEADRACE_CLI_REMOTE_REMOTE_WORKER_H_
#define HEADRACE_CLI_REMOTE_REMOTE_WORKER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/exit_code.h"
#include "cli/remote/coordinator_flags.h"

namespace headrace {

struct RemoteWorkerOptions {
  std::string id;  // unique in the cluster
  int64_t max_in_flight = 2500;
  std::string redis;                         // URL; empty: pools in memory
  absl::Duration grace = absl::Seconds(30);  // of a drain
  // Without a session for this long the worker gives up.
  absl::Duration connect_timeout = absl::InfiniteDuration();
};

// The name of a worker that was given none: of its host, and random digits, since a host may have
// several.
std::string MakeWorkerId();

// Serves until the coordinator lets the worker go (kOk), a signal has drained it (kInterrupted), or
// for a reason that trying again does not change, which is told on standard error. A second signal
// ends the process at once. After BlockStopSignals(), which comes before Connect(): gRPC has
// threads from then on.
ExitCode ServeCoordinator(const CoordinatorConnection& connection,
                          const RemoteWorkerOptions& options);

}  // namespace headrace

#endif  // HEADRACE_CLI_REMOTE_REMOTE_WORKER_H_
