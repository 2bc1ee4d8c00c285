// A run in full flow, as the tests of the views show it.
#ifndef HEADRACE_TESTS_UNIT_CLI_PROGRESS_SAMPLE_H_
#define HEADRACE_TESTS_UNIT_CLI_PROGRESS_SAMPLE_H_

#include "coordinator/progress/progress.h"

namespace headrace {

inline ProgressSnapshot SampleSnapshot() {
  ProgressSnapshot s;
  s.job = "gsm8k";
  s.elapsed = absl::Seconds(685);
  s.pass = 1;
  s.passes = 2;
  s.total = 150'000;
  s.done = 61'740;
  s.ok = 61'700;
  s.failed = 40;
  s.deferred = 60;
  s.items_per_minute = 5412;
  s.eta = absl::Seconds(978);
  s.pools = {{"main", 4'810'000, 5'000'000, 5'420, 10'000, 0, ""}};
  s.models = {{"gpt-4o-mini", 50'000, 20'600, 12},
              {"claude-haiku", 50'000, 20'540, 20},
              {"gpt-4o", 50'000, 20'600, 8}};
  s.failures = {{ErrorClass::kTimeout, 58}, {ErrorClass::kContentFilter, 42}};
  s.workers = 1;
  s.in_flight = 2480;
  s.max_in_flight = 2500;
  s.gate_waiting = 12;
  s.queue_p50 = absl::Milliseconds(12);
  s.queue_p95 = absl::Milliseconds(80);
  s.network_p50 = absl::Milliseconds(24'100);
  s.network_p95 = absl::Milliseconds(40'000);
  s.throttled = 9;
  s.retries = 131;
  s.cost_usd = 12.4;
  s.max_cost_usd = 50;
  s.limited_by = "tokens/min of pool main";
  return s;
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_UNIT_CLI_PROGRESS_SAMPLE_H_
