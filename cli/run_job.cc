#include "cli/run_job.h"

#include <cstdio>
#include <utility>

#include "cli/command.h"
#include "cli/run/local_run.h"
#include "cli/run/run_report.h"

namespace headrace {
ExitCode RunJob(const RunRequest& request) {
  if (!request.redis.empty()) {
    return Fail("run", absl::InvalidArgumentError(
                           "--redis: this build keeps pools in memory and shares no quota"));
  }
  if (!request.admin.empty()) {
    return Fail("run", absl::InvalidArgumentError("--admin: this build has no admin server"));
  }
  LocalRunOptions options;
  options.job = request.job;
  options.progress = request.progress;
  options.no_color = request.no_color;
  const absl::StatusOr<LocalRunEnd> run = RunLocally(options);
  if (!run.ok()) return Fail("run", run.status());
  std::printf("%s", RenderRunEnd(request.job, run->summary).c_str());
  return static_cast<ExitCode>(run->end.exit_code);
}

}  // namespace headrace
