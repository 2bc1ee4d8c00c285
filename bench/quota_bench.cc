// What one admission costs: ask, settle, and the wait in between where there is one.
//
//   quota_bench [admissions]
//
// Prints nanoseconds of CPU per admission for pools without limits, with limits that never bind,
// with a bucket and with a gauge that many attempts wait for. Run the release build on a quiet
// machine.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/quota/admission.h"
#include "common/quota/estimator.h"
#include "common/quota/memory_store.h"

namespace headrace::quota {
namespace {

int64_t CpuNanos() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
}

PoolSpec Pool(std::vector<DimensionSpec> dimensions) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = std::move(dimensions);
  return spec;
}

DimensionSpec Limit(Dimension dimension, int64_t limit, Mechanics mechanics = Mechanics::kBucket) {
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.mechanics = mechanics;
  spec.limit = limit;
  return spec;
}

Task<void> Stream(Reactor* reactor, Admission* admission, uint64_t job, int64_t count,
                  absl::Duration hold) {
  for (int64_t i = 0; i < count; ++i) {
    Ticket ticket = co_await admission->Admit(job, 0, 1, Costs{1, 1500, 1000, 500, 1}, StopToken());
    if (ticket.kind != Ticket::Kind::kAdmitted) std::abort();
    if (hold > absl::ZeroDuration()) co_await Sleep(reactor, hold, StopToken());
    admission->Settle(ticket, Settlement::kCharged, Costs{1, 1400, 1000, 400, 1});
  }
}

Task<void> Join(TaskScope* scope, Admission* admission) {
  co_await scope->Join();
  co_await admission->Shutdown();
}

void Measure(const char* name, PoolSpec spec, int64_t admissions, int64_t streams, uint64_t jobs,
             absl::Duration hold = absl::ZeroDuration()) {
  VirtualReactor reactor;
  MemoryPoolStore store(&reactor, {std::move(spec)});
  Admission admission(&reactor, &store, "p", 1);
  const int64_t start = CpuNanos();
  TaskScope scope(&reactor, StopToken());
  for (int64_t i = 0; i < streams; ++i) {
    scope.Spawn(
        Stream(&reactor, &admission, static_cast<uint64_t>(i) % jobs, admissions / streams, hold));
  }
  reactor.Run(Join(&scope, &admission));
  const double nanos = static_cast<double>(CpuNanos() - start) / static_cast<double>(admissions);
  std::printf("%-58s %8.0f ns  %5.2f questions\n", name, nanos,
              static_cast<double>(admission.asked()) / static_cast<double>(admissions));
}

void MeasureEstimator(int64_t calls) {
  TokenEstimator estimator(512);
  const std::string prompt(4000, 'x');
  int64_t start = CpuNanos();
  PromptFeatures features;
  for (int64_t i = 0; i < calls; ++i) CountFeatures(prompt, &features);
  std::printf("%-58s %8.2f ns per byte\n", "features of an ASCII prompt",
              static_cast<double>(CpuNanos() - start) / static_cast<double>(calls) / 4000);
  start = CpuNanos();
  int64_t sum = 0;
  for (int64_t i = 0; i < calls; ++i) {
    features = PromptFeatures{.letters = 3000 + i % 1000, .messages = 2};
    sum += estimator.Estimate(features).input;
    estimator.Learn(features, 900, 300);
  }
  std::printf("%-58s %8.0f ns%s\n", "estimate and learn",
              static_cast<double>(CpuNanos() - start) / static_cast<double>(calls),
              sum == 0 ? " " : "");
}

int Main(int64_t admissions) {
  const int64_t huge = 1'000'000'000'000;
  const DimensionSpec tokens = Limit(Dimension::kTokens, huge);
  const DimensionSpec requests = Limit(Dimension::kRequests, huge);
  Measure("no limits, 1 stream", Pool({}), admissions, 1, 1);
  Measure("no limits, 2,500 streams that hold 1 s", Pool({}), admissions, 2500, 1,
          absl::Seconds(1));
  Measure("two buckets that never bind, 1 stream", Pool({requests, tokens}), admissions, 1, 1);
  Measure("bucket of 1.2M requests a minute, 5,000 streams",
          Pool({Limit(Dimension::kRequests, 1'200'000)}), admissions, 5000, 1);
  Measure("the same, 10 jobs", Pool({Limit(Dimension::kRequests, 1'200'000)}), admissions, 5000,
          10);
  Measure("the same, 100,000 streams", Pool({Limit(Dimension::kRequests, 1'200'000)}), admissions,
          100'000, 10);
  Measure("bucket of 2M tokens a minute, 400 streams", Pool({Limit(Dimension::kTokens, 2'000'000)}),
          admissions / 4, 400, 3);
  Measure("gauge of 500 slots, 2,500 streams that hold 100 ms",
          Pool({Limit(Dimension::kInFlight, 500, Mechanics::kGauge)}), admissions, 2500, 3,
          absl::Milliseconds(100));
  MeasureEstimator(admissions / 10);
  return 0;
}

}  // namespace
}  // namespace headrace::quota

int main(int argc, char** argv) {
  const int64_t admissions = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 1'000'000;
  return headrace::quota::Main(admissions > 0 ? admissions : 1'000'000);
}
