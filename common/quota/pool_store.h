// Where a pool's state lives: in this process, or in Redis. Both keep the same pure model.
#ifndef HEADRACE_COMMON_QUOTA_POOL_STORE_H_
#define HEADRACE_COMMON_QUOTA_POOL_STORE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/task.h"
#include "common/base/time.h"
#include "common/quota/flight_sample.h"
#include "common/quota/quota.h"

namespace headrace::quota {

struct ReserveRequest {
  ReservationId id{};
  uint64_t job_id = 0;
  uint32_t model = 0;
  double weight = 1;      // of the model within its job
  double job_weight = 1;  // of the job within the pool
  Costs costs{};
};

struct ReserveAnswer {
  enum class Kind {
    kSendAt,     // booked: send at `at`, not before
    kRetryAt,    // nothing was taken: ask again at `at`
    kNeverFits,  // larger than the whole limit of `binding`; `text` says the numbers
    kClosed,     // the account is stopped; `text` says why
  };
  Kind kind = Kind::kRetryAt;
  MonoTime at{};
  Dimension binding = Dimension::kRequests;  // what limits: meaningful unless the send time is now
  std::string text{};
  // kSendAt: how much of each limit the provider should count as used when it has taken this
  // request, by our own account. What it says beyond that, somebody else used.
  Costs used{};
};

// What became of an attempt, for settlement.
enum class Settlement {
  kCharged,   // the provider charged `actual`
  kUnknown,   // lost or timed out: what was reserved stays charged
  kRejected,  // 429: the request counts, the tokens are released
  kNotSent,   // everything is released
};

// The provider's own word on its limits: a 429, a Retry-After, an overload.
struct Penalty {
  enum class Kind {
    kRate,      // gate the pool until `until`
    kRamp,      // cut the rate once, then grow
    kCapacity,  // the provider is overloaded: back off in flight, quota state untouched
    kStop,      // close the pool: `text` says why
  };
  Kind kind = Kind::kRate;
  std::optional<Dimension> dimension{};
  std::optional<absl::Duration> retry_after{};
  MonoTime sent_at{};  // of the attempt that was told: one cut per congestion event
  std::string text{};
};

// What an answer of the provider says about one limit.
struct Observation {
  Dimension dimension = Dimension::kRequests;
  std::optional<int64_t> limit{};         // as the provider states it, per period
  std::optional<int64_t> used{};          // of it, when the request was taken
  std::optional<absl::Duration> reset{};  // from then until the provider's window ends
  int64_t expected = 0;                   // what `used` should have been: ReserveAnswer::used
  MonoTime sent_at{};                     // of that request
  bool exact =
      false;  // of a 429 that said its figures; `used` and `expected` are without the request
};

struct PoolSnapshot {
  Costs charged_last_minute{};
  Costs limits{};                       // 0: not limited
  int64_t in_flight = 0;                // reservations not settled yet
  std::optional<Dimension> limited_by;  // what the last answers that had to wait waited for
  MonoTime gate_until;
  int64_t penalties = 0;
  bool closed = false;
  std::string closed_text;
  double rate_share = 1;      // of the limits; below 1 after a cut, until it has grown back
  double capacity_share = 1;  // the same of what may be in flight
  int64_t expired = 0;        // reservations that nobody settled in time
  Costs outside{};            // what somebody else was seen to use, in all
  // Of a pool whose calls in flight are found by trying: how many there may be now, 0 for others;
  // and why it is so many, where the store knows.
  int64_t in_flight_limit = 0;
  std::string in_flight_why;
  std::string notice;  // what is wrong with the store, for people; empty when nothing is
};

// What a store knows of a pool without asking anybody.
struct PoolHint {
  uint64_t epoch = 0;      // changes when every booked send must be booked anew
  MonoTime gate_until{};   // nothing may be sent before
  int64_t free_slots = 0;  // of the gauge; large when the pool has none
  // How many of those that wait are worth asking for at a time: where windows are to be packed, a
  // small request may fit that stands behind a large one.
  int64_t look_ahead = 1;
  int64_t in_flight_limit = 0;  // see PoolSnapshot
};

// Is told when asking the pool again may give another answer than before: a slot was freed, a gate
// was set, the account was stopped. Called inside Settle() and Penalize(); must not suspend.
class PoolListener : public ListNode<PoolListener> {
 public:
  virtual ~PoolListener() { Unlink(); }
  virtual void OnPoolChanged() = 0;
};

class PoolStore {
 public:
  virtual ~PoolStore() = default;

  // Answers every request in order; all-or-nothing over the dimensions of each. A request beyond
  // `horizon` from now gets kRetryAt. Idempotent by id. NotFound for an unknown pool, Unavailable
  // when the store cannot be reached.
  virtual Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(
      std::string pool, std::vector<ReserveRequest> requests, absl::Duration horizon) = 0;

  // Moves the pool from what was reserved to what was charged. Unknown or repeated ids do nothing.
  virtual void Settle(absl::string_view pool, ReservationId id, Settlement settlement,
                      const Costs& actual) = 0;

  virtual void Penalize(absl::string_view pool, const Penalty& penalty) = 0;

  // Corrects the pool by what the provider said: a limit that it lowered holds at once, one that it
  // raised again opens slowly; what somebody else used is charged to the pool. Observations of
  // requests sent before the last correction say nothing new and are dropped.
  virtual void Observe(absl::string_view pool, const Observation& observation) = 0;

  // Changes the limits of a living pool, see PoolModel::Reconfigure(). NotFound for an unknown
  // pool, InvalidArgument for a spec that is not valid, Unavailable as above.
  virtual Task<absl::Status> Reconfigure(PoolSpec spec) = 0;

  // Of pools whose calls in flight are found by trying. A pool in this process is told how many
  // there may be; a shared one is told what was seen, and all of its workers find the number
  // together. Other pools, and the other kind of store, do nothing.
  virtual void SetInFlight(absl::string_view pool, int64_t limit) {}
  virtual void AddSample(absl::string_view pool, const FlightSample& sample) {}

  virtual PoolSnapshot Snapshot(absl::string_view pool) const = 0;

  // The answer to one request where the store can give it without waiting; empty where it cannot,
  // and for an unknown pool.
  virtual std::optional<ReserveAnswer> ReserveNow(absl::string_view pool,
                                                  const ReserveRequest& request,
                                                  absl::Duration horizon) {
    return std::nullopt;
  }

  virtual PoolHint Hint(absl::string_view pool) const {
    return PoolHint{.free_slots = std::numeric_limits<int64_t>::max()};
  }

  // `listener` is told until it is unlinked or destroyed. Does nothing for an unknown pool.
  virtual void Listen(absl::string_view pool, PoolListener* listener) {}

  // Tells what is left to be told and ends what the store runs. Nobody asks any more; needed before
  // the destruction of a store that runs anything.
  virtual Task<void> Stop() { co_return; }
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_POOL_STORE_H_
