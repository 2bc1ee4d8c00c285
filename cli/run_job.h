// What `headrace run` asks for, and where the work begins.
#ifndef HEADRACE_CLI_RUN_JOB_H_
#define HEADRACE_CLI_RUN_JOB_H_

#include <string>

#include "cli/exit_code.h"
#include "cli/progress/view.h"
#include "coordinator/job/job.h"

namespace headrace {

struct RunRequest {
  JobConfig job;         // finished
  std::string job_file;  // its name, for messages; empty: the job came from flags
  std::string redis;     // URL of the pools' Redis; empty: pools in memory
  std::string admin;     // ADDR:PORT of the admin server; empty: none
  ProgressMode progress = ProgressMode::kAuto;
  bool no_color = false;
  bool dry_run = false;  // checked before RunJob() is called
};

// Runs the job to its end, with a coordinator and a worker in this process.
ExitCode RunJob(const RunRequest& request);

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_JOB_H_
