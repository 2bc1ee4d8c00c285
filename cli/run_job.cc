#include "cli/run_job.h"

#include "cli/command.h"

namespace headrace {

ExitCode RunJob(const RunRequest& request) {
  return Fail("run", absl::UnimplementedError("this build has no coordinator and worker"));
}

}  // namespace headrace
