// Turns a running job into progress snapshots: the rates need a memory of the last minute.
#ifndef HEADRACE_COORDINATOR_PROGRESS_PROGRESS_METER_H_
#define HEADRACE_COORDINATOR_PROGRESS_PROGRESS_METER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "common/base/time.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/progress/progress.h"
#include "coordinator/run/job_runner.h"

namespace headrace {

// Sample at most a few times a second, on the coordinator's reactor.
class ProgressMeter {
 public:
  // `runner` and `cluster` outlive it.
  ProgressMeter(const JobRunner* runner, const Coordinator* cluster, MonoTime begun)
      : runner_(runner), cluster_(cluster), begun_(begun) {}

  ProgressSnapshot Sample(MonoTime now, bool finished);

 private:
  struct Point {
    MonoTime when;
    int64_t done = 0;
  };

  double ItemsPerMinute(MonoTime now, int64_t done);

  const JobRunner* const runner_;
  const Coordinator* const cluster_;
  const MonoTime begun_;
  std::deque<Point> points_;         // of the last minute, oldest first
  std::vector<PoolProgress> pools_;  // as last told by a worker
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PROGRESS_PROGRESS_METER_H_
