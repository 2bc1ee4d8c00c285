// One leased batch as one structured scope: nothing of it outlives Run(), and every item ends in
// exactly one outcome.
//
//   state       event                     next        effect
//   OPEN        Ready() granted           OPEN        the next item starts
//   OPEN        start deadline, drain     DRAINING    no item starts; calls under way, and at the
//                                                     deadline those with a send time, may end
//   OPEN        Cancel(reason)            CANCELLING  no item starts; calls under way are cancelled
//   DRAINING    deadline, Cancel(reason)  CANCELLING  calls under way are cancelled
//   OPEN        GiveBack(n)               OPEN        the last n items leave the scope
//   any         last child ended          CLOSED      items never started: kNotStarted(reason)
//
// Worked race: an answer is complete in the same turn in which the deadline cancels the batch. The
// call's coroutine was scheduled with its answer first, so it finds the answer, not the stop: the
// outcome is ok (the first of the two wins, and a paid answer is never thrown away).
#ifndef HEADRACE_WORKER_BATCH_BATCH_SCOPE_H_
#define HEADRACE_WORKER_BATCH_BATCH_SCOPE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/time.h"
#include "worker/batch/outcome.h"

namespace headrace {

// Runs the items of one batch; behind it are the gate, the quota and the HTTP client.
class ItemRunner {
 public:
  virtual ~ItemRunner() = default;
  // Waits until one more item may start (back-pressure); each true is used by one Run(). False when
  // stopped.
  virtual Task<bool> Ready(StopToken stop) = 0;
  // Runs one item to its outcome. `start` stops before a new attempt or in a wait, `call` also
  // stops an attempt on the wire. `call` stopped implies `start` stopped.
  virtual Task<ItemOutcome> Run(size_t index, StopToken start, StopToken call) = 0;
  // When the start deadline has come: what it is by now. In the past unless it has moved.
  virtual MonoTime StartDeadline() { return MonoTime(); }
};

class OutcomeSink {
 public:
  virtual ~OutcomeSink() = default;
  // Once per item, in the order of their ends; must not destroy the scope.
  virtual void OnOutcome(size_t index, ItemOutcome outcome) = 0;
};

enum class FailurePolicy {
  kCollect,    // failures are outcomes like others
  kFailFast,   // the first failure cancels the batch
  kMaxFailed,  // more than max_failed failures cancel the batch
};

struct BatchScopeOptions {
  size_t size = 0;                            // number of items
  MonoTime deadline = MonoTime::Max();        // calls under way are cancelled
  MonoTime start_deadline = MonoTime::Max();  // no item starts after this; at most `deadline`
  FailurePolicy policy = FailurePolicy::kCollect;
  int64_t max_failed = 0;
};

struct BatchEnd {
  size_t ok = 0;
  size_t failed = 0;
  size_t cancelled = 0;
  size_t not_started = 0;
  size_t given_back = 0;
  size_t late_outcomes = 0;  // outcomes offered for an item that had one: dropped
  StopReason stop;           // why items were not started or cancelled; kNone otherwise
};

class BatchScope {
 public:
  // Drains (starts no more items) with `drain`, cancels with `cancel`. `runner` and `sink` outlive
  // it.
  BatchScope(Reactor* reactor, BatchScopeOptions options, ItemRunner* runner, OutcomeSink* sink,
             StopToken drain, StopToken cancel);
  ~BatchScope();

  // Runs all items; ends when nothing of the batch is left. Awaited once.
  Task<BatchEnd> Run();

  // The first reason wins.
  void Cancel(StopReason reason);
  // Starts no more items; calls under way may end.
  void Drain(StopReason reason);
  // Takes up to `count` items that were not started out of the scope, from its end; their indices.
  // They have no outcome here: somebody else runs them.
  std::vector<size_t> GiveBack(size_t count);
  // Items that are still to be started.
  size_t not_started() const { return limit_ - next_; }
  // Ends one item's call with `reason`, e.g. because another worker has finished it. An item that
  // was not started will make no call when its turn comes.
  void CancelItem(size_t index, StopReason reason);

 private:
  void ArmStartDeadline(MonoTime when);
  static Task<void> RunOne(BatchScope* self, size_t index);
  void Record(size_t index, ItemOutcome outcome);
  void ApplyPolicy();
  void RecordNotStarted(size_t index);
  bool ended(size_t index) const { return outcomes_[index]; }

  Reactor* const reactor_;
  const BatchScopeOptions options_;
  ItemRunner* const runner_;
  OutcomeSink* const sink_;
  std::vector<bool> outcomes_;  // an item's outcome exists
  size_t next_ = 0;             // the next item to start
  size_t limit_ = 0;            // items from here on were given back
  BatchEnd end_;
  StopSource start_stop_;
  StopSource call_stop_;
  StopCallback on_cancel_;
  StopToken cancel_;
  // The calls that CancelItem may end, by item; entries live in the frames of RunOne.
  std::vector<StopSource*> item_stops_;
  std::map<size_t, StopReason> cancelled_items_;  // before their start
  Timer start_timer_;
  Timer deadline_timer_;
  TaskScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_BATCH_BATCH_SCOPE_H_
