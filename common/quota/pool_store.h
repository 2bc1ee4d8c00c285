// Where a pool's state lives: in this process, or in Redis. Both keep the same pure model.
#ifndef HEADRACE_COMMON_QUOTA_POOL_STORE_H_
#define HEADRACE_COMMON_QUOTA_POOL_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/task.h"
#include "common/base/time.h"
#include "common/quota/quota.h"

namespace headrace::quota {

struct ReserveRequest {
  ReservationId id;
  uint64_t job_id = 0;
  uint32_t model = 0;
  double weight = 1;  // of the model within the pool
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
  MonoTime at;
  Dimension binding = Dimension::kRequests;  // what limits: meaningful unless the send time is now
  std::string text;
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
  std::optional<Dimension> dimension;
  std::optional<absl::Duration> retry_after;
  MonoTime sent_at;  // of the attempt that was told: one cut per congestion event
  std::string text;
};

struct PoolSnapshot {
  Costs charged_last_minute{};
  Costs limits{};           // 0: not limited
  int64_t in_flight = 0;    // reservations not settled yet
  std::optional<Dimension> limited_by;  // what the last answers that had to wait waited for
  MonoTime gate_until;
  int64_t penalties = 0;
  bool closed = false;
  std::string closed_text;
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

  virtual PoolSnapshot Snapshot(absl::string_view pool) const = 0;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_POOL_STORE_H_
