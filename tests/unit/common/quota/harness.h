// What the tests of admission share: pools, costs, and attempts that run on a virtual reactor.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/quota/admission.h"
#include "common/quota/memory_store.h"
#include "common/quota/quota.h"
#include "tests/unit/common/quota/slow_store.h"

namespace headrace::quota {

inline DimensionSpec PerMinute(Dimension dimension, int64_t limit) {
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.limit = limit;
  return spec;
}

inline DimensionSpec Slots(int64_t limit) {
  DimensionSpec spec;
  spec.dimension = Dimension::kInFlight;
  spec.mechanics = Mechanics::kGauge;
  spec.limit = limit;
  return spec;
}

inline PoolSpec Pool(std::vector<DimensionSpec> dimensions, double utilisation = 1) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = std::move(dimensions);
  spec.utilisation = utilisation;
  return spec;
}

inline Costs Tokens(int64_t tokens) { return Costs{1, tokens, 0, 0, 1, 0, 0}; }

inline Task<void> PassTime(Reactor* reactor, absl::Duration time) {
  co_await Sleep(reactor, time, StopToken());
}

// One reactor, one pool "p" that has saved up its burst, one worker.
struct Worker {
  explicit Worker(PoolSpec spec, AdmissionOptions options = {}, uint64_t seed = 0,
                  bool shuffle = false)
      : reactor(seed, shuffle),
        store(&reactor, {std::move(spec)}),
        start(Warm(&reactor)),
        slow(&reactor, &store, absl::ZeroDuration()),
        admission(&reactor, &store, "p", 1, options),
        slow_admission(&reactor, &slow, "p", 2, options) {}

  double Seconds(MonoTime time) const { return absl::ToDoubleSeconds(time - start); }

  static MonoTime Warm(VirtualReactor* reactor) {
    reactor->Run(PassTime(reactor, absl::Minutes(2)));
    return reactor->Now();
  }

  VirtualReactor reactor;
  MemoryPoolStore store;
  const MonoTime start;
  SlowStore slow;
  Admission admission;       // asks the memory store
  Admission slow_admission;  // asks it through `slow`
};

// What became of one attempt.
struct Sent {
  int tag = 0;
  Ticket ticket;
  double at = 0;  // seconds since the start
};

struct AttemptOptions {
  uint64_t job = 1;
  double weight = 1;
  Costs costs = Tokens(1);
  absl::Duration hold = absl::ZeroDuration();    // until it is settled
  bool slow = false;                             // through Worker::slow
  double after = 0;                              // seconds until it asks
  std::optional<StopToken> call = std::nullopt;  // as Admission::Admit() says
};

// Asks, notes the answer, holds what was admitted for a while and settles it as reserved.
inline Task<void> Attempt(Worker* worker, int tag, AttemptOptions options, std::vector<Sent>* sent,
                          StopToken stop) {
  if (options.after > 0) {
    co_await Sleep(&worker->reactor, worker->start + absl::Seconds(options.after), StopToken());
  }
  Admission* admission = options.slow ? &worker->slow_admission : &worker->admission;
  Ticket ticket = co_await admission->Admit(options.job, 0, options.weight, options.costs, stop,
                                            /*job_weight=*/1, options.call);
  sent->push_back(Sent{tag, ticket, worker->Seconds(worker->reactor.Now())});
  if (ticket.kind != Ticket::Kind::kAdmitted) co_return;
  if (options.hold > absl::ZeroDuration()) {
    co_await Sleep(&worker->reactor, options.hold, StopToken());
  }
  admission->Settle(ticket, Settlement::kCharged, ticket.reserved);
}

inline void SpawnMany(Worker* worker, TaskScope* scope, int count, AttemptOptions options,
                      std::vector<Sent>* sent, StopToken stop = {}) {
  for (int i = 0; i < count; ++i) scope->Spawn(Attempt(worker, i, options, sent, stop));
}

inline Task<void> JoinAll(Worker* worker, TaskScope* scope) {
  co_await scope->Join();
  co_await worker->admission.Shutdown();
  co_await worker->slow_admission.Shutdown();
}

// Runs the loop until every child of `scope` has ended.
inline void RunToEnd(Worker* worker, TaskScope* scope) {
  worker->reactor.Run(JoinAll(worker, scope));
}

// Runs `function` at a time in the future.
template <typename Function>
Task<void> AtTime(Worker* worker, double seconds, Function function) {
  co_await Sleep(&worker->reactor, worker->start + absl::Seconds(seconds), StopToken());
  function();
}

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_
