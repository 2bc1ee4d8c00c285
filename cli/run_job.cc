#include "cli/run_job.h"

#include <utility>

#include "cli/command.h"
#include "cli/run/local_run.h"

namespace headrace {

ExitCode RunJob(const RunRequest& request) {
  LocalRunOptions options;
  options.job = request.job;
  options.progress = request.progress;
  options.no_color = request.no_color;
  absl::StatusOr<LocalRunEnd> end = RunLocally(options);
  if (!end.ok()) return Fail("run", end.status());
  return static_cast<ExitCode>(end->end.exit_code);
}

}  // namespace headrace
