// What a run has done so far, in numbers: the source of the progress view and of summary.json.
#ifndef HEADRACE_COORDINATOR_RUN_JOB_TOTALS_H_
#define HEADRACE_COORDINATOR_RUN_JOB_TOTALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/histogram.h"
#include "coordinator/job/job.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

struct ModelTotals {
  int64_t ok = 0;
  int64_t failed = 0;  // outcomes of this process, deferrals not included
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t without_usage = 0;  // answers whose provider did not report tokens
  double cost_usd = 0;        // 0 without prices
  bool priced = false;
};

// Counts of this process; a resumed run starts from zero here (JobState has the whole job).
struct JobTotals {
  explicit JobTotals(const JobConfig& job);

  // An outcome that was not superseded; `final` is false for one that a later pass runs again.
  void Count(const JobConfig& job, uint32_t model, const v1::ItemResult& result, bool final);
  // A result of an item that had an outcome: it was paid for, and is not used.
  void CountSuperseded(const JobConfig& job, uint32_t model, const v1::ItemResult& result);

  std::vector<ModelTotals> models;
  int64_t attempts = 0;
  int64_t retries = 0;  // attempts beyond the first of their item and pass
  int64_t throttled = 0;
  int64_t possibly_billed = 0;
  int64_t superseded = 0;         // results of items that had an outcome: calls made twice, and
  int64_t superseded_tokens = 0;  // what they used
  int64_t lost_batches = 0;       // leases that expired or whose worker was lost, and
  int64_t lost_items = 0;         // their open items: calls that may be made twice
  int64_t adopted_batches = 0;    // that workers brought along after a restart
  int64_t split_batches = 0;      // of which an idle worker got a part
  int64_t cancelled = 0;
  int64_t given_back = 0;  // items returned untouched
  double cost_usd = 0;
  Histogram queue_us;        // answered items: waiting before the last attempt was sent
  Histogram network_us;      // answered items: the last attempt on the wire
  Histogram first_token_us;  // streams
  Histogram total_us;        // answered items: all attempts and waits
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_JOB_TOTALS_H_
