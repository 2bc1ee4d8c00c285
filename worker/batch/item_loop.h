// An item's life as one plain loop: wait for the line and the gate, reserve quota, call, classify,
// settle, retry or finish.
#ifndef HEADRACE_WORKER_BATCH_ITEM_LOOP_H_
#define HEADRACE_WORKER_BATCH_ITEM_LOOP_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/histogram.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/quota/admission.h"
#include "common/quota/costs.h"
#include "common/quota/estimator.h"
#include "common/quota/observations.h"
#include "worker/batch/outcome.h"
#include "worker/batch/retry_rule.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"

namespace headrace {

// The worker-wide bound on attempts in flight, and the short line before it for each pool, so that
// attempts that wait for one pool's quota cannot hold all the permits that another pool could use.
class Gate {
 public:
  Gate(Reactor* reactor, int64_t max_in_flight) : permits_(reactor, max_in_flight) {}

  Semaphore& permits() { return permits_; }
  const Semaphore& permits() const { return permits_; }

  int64_t on_the_wire = 0;
  int64_t backing_off = 0;
  int64_t peak_on_the_wire = 0;
  uint64_t throttled = 0;
  std::string refusal;  // what the last attempt met that only waiting helps; empty after an answer

 private:
  Semaphore permits_;
};

// Why the account of a model is closed to further attempts.
struct AccountStop {
  ErrorClass error_class = ErrorClass::kNone;
  std::string message;
};

// What a worker holds of a model, and what it has asked for; kept by its session.
struct ItemFlow {
  int64_t held = 0;        // granted and not finished
  int64_t granted = 0;     // in this session, as are the credits
  int64_t wanted = 0;      // the credits as last sent
  int64_t finished = 0;    // since the last beat
  double finish_rate = 0;  // items per second, smoothed
  int64_t beats = 0;       // behind the rate
  double pace = 0;         // calls per second that the pool may let go, a guess; 0: none
};

// One model of one job in this worker: everything that its items share. Owned by the worker.
struct ModelRuntime {
  // At most `line` items stand between their start and their admission. Drains with `worker_drain`.
  ModelRuntime(Reactor* reactor, int64_t line, StopToken worker_drain)
      : starts(reactor, line), drain(worker_drain) {}

  uint64_t job_id = 0;
  uint64_t quota_job_id = 0;  // to its pool, see QuotaJobId()
  uint32_t model = 0;
  std::string label;
  double weight = 1;      // of the model within its job
  double job_weight = 1;  // of the job within a shared pool
  RetryOptions retry;
  http::Timeouts timeouts;
  std::unique_ptr<provider::Codec> codec;
  http::Engine* client = nullptr;
  quota::Admission* pool = nullptr;
  quota::ChargeRules charging;
  bool rates_limited = false;  // the pool has a limit of a rate, so a 429 may be of it
  std::unique_ptr<quota::TokenEstimator> estimator;

  Semaphore starts;     // the line: items between their start and their admission
  StopSource drain;     // no further attempt of this model; the drain of its batch scopes
  AccountStop stopped;  // why the account refuses, once it does
  int64_t on_the_wire = 0;
  int64_t backing_off = 0;
  Histogram network_us;  // of answered attempts
  bool hedge = false;    // an attempt that lasts far too long is made a second time
  int64_t hedges = 0;    // second calls so far
  ItemFlow flow;
  std::optional<MonoTime> last_contact;   // when an attempt last reached the provider
  std::optional<MonoTime> refused_since;  // only "later" was heard from then on
  int64_t refusals = 0;                   // in that time
  // Called once when the account stops, after `stopped` is set.
  void (*on_account_stop)(void* context, ModelRuntime* model) = nullptr;
  void* context = nullptr;
};

// The input of one item; views into the grant, which outlives the loop.
struct ItemInput {
  ItemId item;
  RowIndex row;
  absl::string_view custom_id;
  absl::string_view expected;
  provider::ItemRequest request;
  std::string idempotency_key;  // of the request; empty: none
  uint32_t pass = 1;
  BatchId batch;
  absl::string_view worker;
  // A longer line cannot be delivered: the answer is left out, and the item fails as never_fits.
  size_t max_line_bytes = std::numeric_limits<size_t>::max();
};

// Runs items of one model. All collaborators outlive it.
class ItemLoop {
 public:
  ItemLoop(Reactor* reactor, ModelRuntime* model, Gate* gate, Random* random)
      : reactor_(reactor), model_(model), gate_(gate), random_(random) {}

  // Takes a place in the line; each true is given back by one Run().
  Task<bool> Ready(StopToken stop);

  // Runs `input` to its outcome; see ItemRunner::Run. No attempt starts after `start_deadline`.
  Task<ItemOutcome> Run(ItemInput input, MonoTime start_deadline, StopToken start, StopToken call);

  // A cautious guess of how long a call takes; its time limit while nothing is known.
  absl::Duration ExpectedCallTime() const;

 private:
  struct Attempt;
  struct Progress;

  // A permit of the gate and a reservation for one call.
  Task<bool> Admit(Progress* progress, StopToken start, StopToken call);
  // As Admission::Admit(): a deadline of `start` alone leaves who has a send time.
  Task<quota::Ticket> Reserve(const Progress& progress, StopToken start, StopToken call);
  // Makes the attempt that was admitted, and settles it.
  Task<void> MakeAttempt(Progress* progress, StopToken call);
  Task<void> CallOnce(const Progress& progress, Attempt* attempt, StopToken call);
  void Observe(const Attempt& attempt);
  // The attempt as the pool's samples count it.
  quota::FlightEnd ShownBy(const Attempt& attempt, absl::Duration in_flight) const;
  void SettleAndLearn(Progress* progress, const Attempt& attempt);
  // item_hedge.cc: the attempt, and a second one beside it when it lasts far too long.
  bool MayHedge(const Progress& progress) const;
  absl::Duration HedgeDelay() const;
  Task<void> MakeHedgedAttempt(Progress* progress, StopToken start, StopToken call);
  struct Race;
  static Task<void> RunLeg(ItemLoop* self, Race* race, size_t leg);
  ItemOutcome Interrupted(Progress* progress, StopReason reason);
  void StopAccount(ErrorClass error_class, std::string message);
  // What follows a failed attempt.
  RetryRule::Decision Decide(Progress* progress);
  // The provider says nothing but "later", and has for so long that waiting is no plan.
  bool RefusedTooLong();
  ItemOutcome NotStarted(Progress* progress, StopReason reason);
  ItemOutcome Cancelled(Progress* progress, StopReason reason);
  ItemOutcome Finish(Progress* progress);

  Reactor* const reactor_;
  ModelRuntime* const model_;
  Gate* const gate_;
  Random* const random_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_BATCH_ITEM_LOOP_H_
