// What a run leaves behind when it ends: results.csv and summary.json.
#ifndef HEADRACE_COORDINATOR_RUN_RUN_SUMMARY_H_
#define HEADRACE_COORDINATOR_RUN_RUN_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/job.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/store/summary.h"

namespace headrace {

struct RunFacts {
  std::string build;  // of this program
  std::string dataset_sha256;
  int64_t rows = 0;
  absl::Time started;      // of this process's part
  absl::Time first_start;  // of the run directory
  int64_t starts = 1;      // of the run directory, this one included
  absl::Duration elapsed;
  int64_t throttled = 0;
  std::vector<FoundInFlight> found_in_flight;
};

// Writes summary.json, and results.csv when the job asks for it, from the logs of the run
// directory. Adds to what an earlier summary.json says about earlier parts of the run. Blocking.
absl::StatusOr<RunSummary> WriteRunFiles(const JobConfig& job, const JobEnd& end,
                                         const RunFacts& facts);

// What the items that ended have cost so far, by the logs of the run directory and the job's
// prices; 0 without prices. Blocking.
absl::StatusOr<double> SpentUsd(const JobConfig& job);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_RUN_SUMMARY_H_
