// Checks a job without sending anything: `headrace validate` and `headrace run --dry-run`.
#ifndef HEADRACE_CLI_DRY_RUN_H_
#define HEADRACE_CLI_DRY_RUN_H_

#include <string>

#include "cli/exit_code.h"
#include "coordinator/job/job.h"

namespace headrace {

// Prints what was found on standard output; with `yaml`, and if the job is good, the job with its
// defaults instead. `job` must be finished; `job_file` is the name of its file, or empty.
ExitCode DryRun(const JobConfig& job, const std::string& job_file, bool yaml = false);

}  // namespace headrace

#endif  // HEADRACE_CLI_DRY_RUN_H_
