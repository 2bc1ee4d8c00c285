// `headrace run`: a coordinator and a worker in one process.
#ifndef HEADRACE_CLI_RUN_LOCAL_RUN_H_
#define HEADRACE_CLI_RUN_LOCAL_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/progress/view.h"
#include "coordinator/job/job.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/store/summary.h"

namespace headrace {

struct LocalRunOptions {
  JobConfig job;  // finished
  ProgressMode progress = ProgressMode::kAuto;
  bool no_color = false;
  std::string redis;  // URL of the Redis that shares the pools; empty: pools in memory
};

struct LocalRunEnd {
  JobEnd end;
  RunSummary summary;
};

// Runs the job to its end, resuming what its output directory holds, and writes results.csv and
// summary.json. A status means that the job could not begin: nothing was sent.
absl::StatusOr<LocalRunEnd> RunLocally(const LocalRunOptions& options);

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_LOCAL_RUN_H_
