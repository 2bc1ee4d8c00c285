// What a run looks like at one moment: plain numbers, which the coordinator fills in and the
// progress views of the command line and of the dashboard show.
#ifndef HEADRACE_COORDINATOR_PROGRESS_PROGRESS_H_
#define HEADRACE_COORDINATOR_PROGRESS_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/outcome/error_class.h"

namespace headrace {

struct PoolProgress {
  std::string name;
  double tokens_per_minute = 0;    // used over the last minute, or since the start
  int64_t tokens_limit = 0;        // of a minute; 0: not limited
  double requests_per_minute = 0;  // started, likewise
  int64_t requests_limit = 0;      // of a minute; 0: not limited
  int64_t in_flight_limit = 0;     // found by trying, now; 0: it is not sought
  std::string in_flight_why;       // a sentence
};

struct ModelProgress {
  std::string label;
  int64_t total = 0;
  int64_t done = 0;    // with a final outcome
  int64_t failed = 0;  // of done
};

struct FailureCount {
  ErrorClass error_class = ErrorClass::kNone;
  int64_t items = 0;
};

struct ProgressSnapshot {
  std::string job;
  absl::Duration elapsed;  // since this process began the run
  bool finished = false;   // the last snapshot of a run
  uint32_t pass = 1;       // the pass of the newest batch
  uint32_t passes = 1;     // at most this many

  // Items of the whole job, earlier processes included; done = ok + failed.
  int64_t total = 0;
  int64_t done = 0;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t deferred = 0;         // failed so far, and left for a later pass
  double items_per_minute = 0;  // finished over the last minute
  std::optional<absl::Duration> eta;

  std::vector<PoolProgress> pools;
  std::vector<ModelProgress> models;
  std::vector<FailureCount> failures;  // final and deferred ones, most frequent first

  int64_t workers = 0;
  int64_t in_flight = 0;        // calls on the wire
  int64_t max_in_flight = 0;    // the sum of the workers' gates; 0: unknown
  bool auto_in_flight = false;  // max_in_flight is found by trying, and changes
  int64_t gate_waiting = 0;     // items that wait for a gate

  // Of the answered items; absent before the first one.
  std::optional<absl::Duration> queue_p50;
  std::optional<absl::Duration> queue_p95;
  std::optional<absl::Duration> network_p50;
  std::optional<absl::Duration> network_p95;

  int64_t throttled = 0;  // answers of the provider that say "later", e.g. 429
  int64_t retries = 0;    // attempts beyond the first of their item

  std::optional<double> cost_usd;  // absent without prices
  double max_cost_usd = 0;         // 0: no budget

  std::string limited_by;   // what limits the run now, e.g. "tokens/min of pool main"
  std::string waiting_for;  // not empty while nothing can be sent, e.g. "a worker"
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PROGRESS_PROGRESS_H_
