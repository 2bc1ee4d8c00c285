// What a job will take before it runs: tokens, money, and the least time under its quotas.
#ifndef HEADRACE_COORDINATOR_JOB_ESTIMATE_H_
#define HEADRACE_COORDINATOR_JOB_ESTIMATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/job/job.h"

namespace headrace {

struct ModelEstimate {
  std::string label;
  std::string pool;
  int64_t items = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;       // a guess before anything was called, capped by max_tokens
  std::optional<double> cost_usd;  // empty: the model has no price
};

struct PoolEstimate {
  std::string name;
  std::string limited_by;  // "tokens/min", ...; empty: no limit per minute
  absl::Duration time;     // the least that the limits allow, one pass, no retries
};

struct JobEstimate {
  int64_t rows = 0;
  int64_t bad_rows = 0;
  int64_t items = 0;
  std::vector<ModelEstimate> models;
  std::vector<PoolEstimate> pools;
  double cost_usd = 0;        // of the models that have a price
  bool cost_complete = true;  // every model has one
  absl::Duration time;        // of the slowest pool; zero: no limit per minute anywhere
};

// Reads the dataset once. `job` must be finished. Errors are those of Dataset.
absl::StatusOr<JobEstimate> EstimateJob(const JobConfig& job);

// For people, several lines.
std::string RenderEstimate(const JobConfig& job, const JobEstimate& estimate);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_ESTIMATE_H_
