// A job as the user described it: read from a job file or from flags, checked, with every default
// filled in.
#ifndef HEADRACE_COORDINATOR_JOB_JOB_H_
#define HEADRACE_COORDINATOR_JOB_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace headrace {

struct ApiKeySource {
  std::string env;   // name of an environment variable
  std::string file;  // path; at most one of the two is set, none means no key

  bool operator==(const ApiKeySource&) const = default;
};

struct ModelJob {
  std::string name;   // as the provider calls it
  std::string label;  // unique within the job; the name, or "name#2" for its second use
  std::string provider = "openai";
  std::string endpoint;  // base URL
  ApiKeySource api_key;
  std::string pool;                // name of a pool of the job
  std::string params_json = "{}";  // a JSON object with the order of keys of the job file
  bool stream = true;
  bool check_schema = true;  // refuse a schema in `params` that the provider would refuse
  double weight = 1;         // > 0
  std::optional<double> price_input_usd;  // per million tokens
  std::optional<double> price_output_usd;
  std::optional<double> price_cached_usd;
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration first_byte_timeout = absl::Seconds(120);
  absl::Duration silence_timeout = absl::Seconds(90);
  absl::Duration progress_timeout = absl::Seconds(300);
  absl::Duration total_timeout = absl::Seconds(120);  // of one attempt
  std::string ca_file;
  std::map<std::string, std::string> headers;

  bool operator==(const ModelJob&) const = default;
};

struct PoolJob {
  std::string name;
  int64_t requests_per_minute = 0;  // 0: not limited, here and below
  int64_t tokens_per_minute = 0;
  int64_t input_tokens_per_minute = 0;
  int64_t output_tokens_per_minute = 0;
  int64_t requests_per_day = 0;
  int64_t tokens_per_day = 0;
  int64_t max_in_flight = 0;
  bool auto_in_flight = false;  // found by trying, as if `auto` were said of the whole job
  std::string profile;  // of common/quota/profiles.h; "auto" until the job is finished: by endpoint
  // Empty, zero or absent, here and below: as the profile says.
  std::string window;           // of tokens: "continuous", "minute", "10s", "1s"
  std::string requests_window;  // of requests
  std::optional<absl::Duration> guard;
  std::optional<absl::Duration> burst;
  double utilisation = 0;             // share of each rate limit that is used
  std::optional<int64_t> ramp_start;  // tokens per minute that are free at once; 0: all
  double ramp_growth = 0;             // per minute, as a share of what is open
  std::string charge;                 // "actuals", "larger", "sum"

  bool operator==(const PoolJob&) const = default;
};

// In which order rows are called. kPromptCache: those that begin alike one after the other.
enum class RowOrdering { kFile, kPromptCache };
absl::string_view RowOrderingName(RowOrdering order);  // "file", "prompt_cache"
// InvalidArgument, with the text, on anything else.
absl::StatusOr<RowOrdering> ParseRowOrdering(absl::string_view text);

struct DatasetJob {
  std::string path;      // or an http(s) URL
  std::string prompt;    // template; empty for OpenAI Batch files and rows with "messages"
  std::string system;    // template
  std::string expected;  // template
  std::string id;        // name of the field with the row's id; empty: "custom_id" of batch files,
                         // else the row number
  int64_t limit = 0;     // rows to take from the start; 0: all
  RowOrdering order = RowOrdering::kFile;
  ApiKeySource api_key;  // goes to the host of a URL as "Authorization: Bearer"

  bool operator==(const DatasetJob&) const = default;
};

// The same for those who only look at it: another order changes nothing for them, and costs more.
DatasetJob InFileOrder(DatasetJob dataset);

enum class OnFailure { kCollect, kFailFast, kMaxFailed };
absl::string_view OnFailureName(OnFailure on_failure);  // "collect", "fail_fast", "max_failed"

// A count of items or a share of all.
struct FailureLimit {
  int64_t count = 0;
  std::optional<double> share;  // [0, 1]; wins over count when set

  bool operator==(const FailureLimit&) const = default;
};

// "100" or "5%". InvalidArgument, with the text, on anything else.
absl::StatusOr<FailureLimit> ParseFailureLimit(absl::string_view text);

struct JobConfig {
  std::string name;
  double job_weight = 1;  // > 0; among the jobs that share a pool or the workers
  DatasetJob dataset;
  std::vector<PoolJob> pools;
  std::vector<ModelJob> models;
  // batch
  int64_t batch_size = 500;
  absl::Duration batch_deadline = absl::Seconds(120);
  OnFailure on_failure = OnFailure::kCollect;
  FailureLimit max_failed;  // failures that the run may have and still exit 0
  // retry
  int attempts = 3;
  absl::Duration first_delay = absl::Milliseconds(500);
  absl::Duration max_delay = absl::Seconds(8);
  absl::Duration jitter = absl::Milliseconds(200);
  absl::Duration max_retry_after = absl::Minutes(10);  // a longer hint parks the run
  int passes = 2;
  // stragglers
  bool split_stragglers = true;   // the last batches are shared with idle workers
  bool hedge_stragglers = false;  // an item far beyond its model's p99 is called a second time
  // output
  std::string output_dir;
  bool json = false;  // answers ought to be JSON: look for it in results.csv and summary.json
  bool csv = true;
  bool csv_safe = true;       // guards cells against spreadsheet formulas
  double max_cost_usd = 0;    // 0: no budget
  int64_t max_in_flight = 0;  // of one worker; 0: the sum of the pools, at most 2,500
  // What pays is found by trying, in each pool, at most what the pool says; max_in_flight is 0.
  bool auto_in_flight = false;

  bool operator==(const JobConfig&) const = default;
};

// The job with its defaults as YAML, without secrets: job.resolved.yaml. Reading it back gives the
// same job.
std::string ToYaml(const JobConfig& job);

// Reads a job file. InvalidArgument with "file:line: field: what is wrong"; an unknown key names
// the nearest known one. What is written is checked, what is missing is not: flags may still give
// it.
absl::StatusOr<JobConfig> ReadJobFile(const std::string& path);
absl::StatusOr<JobConfig> ParseJob(absl::string_view yaml, absl::string_view file_name);

// Fills in what depends on other fields (name, labels, the default pools, output directory, params
// in canonical form) and checks everything that needs neither the dataset nor the network.
// InvalidArgument "field: what is wrong". Finishing a finished job changes nothing.
absl::Status FinishJob(JobConfig* job);

// Whether the calls in flight that pay are found by trying in `pool` of `job`.
inline bool FindsInFlight(const JobConfig& job, const PoolJob& pool) {
  return job.auto_in_flight || pool.auto_in_flight;
}

// What a finished job probably does not mean, one sentence each: a deadline that cuts calls, a key
// that travels in clear, a pool that nobody uses.
std::vector<std::string> JobNotices(const JobConfig& job);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_JOB_H_
