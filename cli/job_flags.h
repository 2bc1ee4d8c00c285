// The flags that mirror the job file, and how they change a job.
#ifndef HEADRACE_CLI_JOB_FLAGS_H_
#define HEADRACE_CLI_JOB_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/job.h"

namespace CLI {
class App;
}

namespace headrace {

// What was given on the command line; what was not is empty.
struct JobFlags {
  std::string input;  // a job file (.yaml, .yml) or a dataset
  std::vector<std::string> models;
  std::optional<std::string> endpoint;
  std::optional<std::string> provider;
  std::optional<std::string> api_key_env;
  std::optional<std::string> api_key_file;
  std::optional<std::string> ca_file;
  std::vector<std::pair<std::string, std::string>> params;  // key and JSON value
  std::optional<bool> stream;
  std::optional<std::string> prompt;
  std::optional<std::string> system;
  std::optional<std::string> id;
  std::optional<std::string> expected;
  std::optional<int64_t> limit;
  std::optional<RowOrdering> order;
  std::optional<int64_t> tokens_per_minute;
  std::optional<int64_t> requests_per_minute;
  std::optional<int64_t> max_in_flight;  // 0: auto, found by trying
  std::optional<int64_t> batch_size;
  std::optional<absl::Duration> deadline;
  std::optional<int64_t> attempts;
  std::optional<int64_t> passes;
  std::optional<std::string> output_dir;
  std::optional<FailureLimit> max_failed;
  std::optional<double> max_cost_usd;
};

// Adds the positional argument and the flags to `command`. *flags outlives the parsing.
void AddJobFlags(CLI::App* command, JobFlags* flags);

// Puts `flags` over what a job file said:
//   - model names choose among the file's models by label or name, and add others;
//   - endpoint, key, CA, params and streaming go to every model of the result;
//   - quotas go to the one pool of the job, which is made if there is none. InvalidArgument if
//   there
//     are several.
absl::Status ApplyJobFlags(const JobFlags& flags, JobConfig* job);

// Reads the job file, or starts from a dataset, applies the flags, and finishes the job. The errors
// of ReadJobFile, ApplyJobFlags and FinishJob.
absl::StatusOr<JobConfig> MakeJob(const JobFlags& flags);

// The job file that `flags` name; empty when they name a dataset.
std::string JobFileName(const JobFlags& flags);

}  // namespace headrace

#endif  // HEADRACE_CLI_JOB_FLAGS_H_
