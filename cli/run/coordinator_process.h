// `headrace coordinator`: jobs for workers in other processes.
#ifndef HEADRACE_CLI_RUN_COORDINATOR_PROCESS_H_
#define HEADRACE_CLI_RUN_COORDINATOR_PROCESS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/progress/view.h"
#include "common/outcome/exit_code.h"
#include "coordinator/job/job.h"
#include "coordinator/session/service.h"

namespace headrace {

struct CoordinatorProcessOptions {
  // The one job to run, finished; its output directory is the run directory. Without one, jobs are
  // submitted, and each has its run directory in `dir`.
  std::optional<JobConfig> job;
  std::string dir;
  SessionServerOptions server;
  absl::Duration lease = absl::Seconds(60);
  ProgressMode progress = ProgressMode::kAuto;  // of the one job
  bool no_color = false;
};

// Runs until the one job has ended and its workers were told, or, without one, until a signal. The
// first SIGINT or SIGTERM drains the workers and leaves runs that the same command resumes
// (kInterrupted); the second ends the process at once. A status means that nothing could begin.
absl::StatusOr<ExitCode> RunCoordinator(const CoordinatorProcessOptions& options);

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_COORDINATOR_PROCESS_H_
