// PoolModel: the admission rules of one pool as pure state. It reads no clock and does no I/O: the
// memory store runs it on the reactor, and a script keeps the same state in Redis. The state and
// the arithmetic are written down in docs/redis_schema.md; both implementations agree to the unit.
//
// A reservation's life:
//   Reserve -> kSendAt --(sent)-----> Settle kCharged | kUnknown | kRejected
//                      `-(not sent)-> Settle kNotSent
//                      `-(nobody settles)-> expired: stays charged, its slot is freed
//
// Send times never go back: each is at least that of the last open booking, so that what a
// settlement gives back is used behind the booked sends and not in a heap on top of them.
//
// Windows are packed: a request that has to wait for room in a window of the provider steps aside
// for those behind it that fit, for kPatience at most. Then it has a claim, and nobody else is
// admitted until it fits. There is one claim at a time.
//
// One worked race: attempts 1..9 are in flight, 10..19 booked for the next second. 3 comes back
// with 429 and a hint of 5 s. Penalize() sets the gate and takes back the charges of 10..19 (they
// are voided); whoever holds them settles kNotSent, which frees their slots and moves nothing, and
// asks again: kRetryAt until the gate opens. 4..9 also come back with 429: the gate may grow, but
// the rate is cut once, as they were sent before the cut. If 10 was sent all the same, its
// settlement charges it in full.
#ifndef HEADRACE_COMMON_QUOTA_MODEL_H_
#define HEADRACE_COMMON_QUOTA_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/time.h"
#include "common/quota/flows.h"
#include "common/quota/ledger.h"
#include "common/quota/limit.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "common/quota/shares.h"
#include "common/quota/usage_ring.h"

namespace headrace::quota {

class PoolModel {
 public:
  // More open reservations than this get kRetryAt. Chosen: far above any real pool.
  static constexpr int64_t kMaxOpen = 1 << 20;
  // A longer Retry-After gates the pool for this long; the next 429 then gates it again.
  static constexpr absl::Duration kMaxGate = absl::Minutes(10);
  // A stopped account lets one attempt through this often, to see whether it still is. Chosen.
  static constexpr absl::Duration kProbeEvery = absl::Seconds(30);
  // Requests that are asked at a time where windows are packed (quota.md 3.1, measured with 32).
  static constexpr int64_t kLookAhead = 32;

  // `spec` must pass ValidatePool(). Starts cold at `now`: as if every rate had been used in full
  // until then, since nobody knows what was.
  PoolModel(const PoolSpec& spec, MonoTime now);

  // `now` may step back: the model keeps the latest it has seen. Answers as PoolStore::Reserve()
  // says; `horizon` is clamped to [0, 60 s]. A repeated id gets the answer of the first time while
  // the reservation is open or among the last Ledger::kMaxClosed closed ones.
  ReserveAnswer Reserve(MonoTime now, const ReserveRequest& request, absl::Duration horizon);
  // True if the pool had no free slot and has one now, or was reopened.
  bool Settle(MonoTime now, ReservationId id, Settlement settlement, const Costs& actual);
  // True if booked sends became void.
  bool Penalize(MonoTime now, const Penalty& penalty);
  // As PoolStore::Observe().
  void Observe(MonoTime now, const Observation& observation);

  // Changes the limits of a living pool to those of `spec`, which must pass ValidatePool(). No
  // credit is made of it; debts stay; booked sends become void. Open reservations are settled at
  // the new prices. False, and nothing done, if the limits are the same.
  bool Reconfigure(MonoTime now, const PoolSpec& spec);

  // Of a pool whose calls in flight are found by trying: so many there may be from now on, at least
  // one and at most what its gauge says. True if it had no free slot and has one now.
  bool SetInFlight(MonoTime now, int64_t limit);

  PoolSnapshot Snapshot(MonoTime now) const;
  PoolHint Hint() const;
  int64_t open() const { return ledger_.open(); }
  const std::vector<RateLimit>& limits() const { return limits_; }

 private:
  // Who waits for room in a window.
  struct Claim {
    ReservationId id{};
    Dimension dimension = Dimension::kTokens;
    int64_t since_us = 0;
    int64_t seen_us = 0;  // when it last asked
    bool active = false;
  };

  void SetLimits(const PoolSpec& spec);
  int64_t Advance(MonoTime now);
  std::optional<ReserveAnswer> AnswerAgain(const ReserveRequest& request);
  std::optional<ReserveAnswer> NeverFits(const Costs& costs) const;
  // The answer to a request that pacing lets go within the horizon, by its window and its turn.
  std::optional<ReserveAnswer> YieldOrWait(int64_t now_us, int64_t paced_us, int64_t horizon_us,
                                           const ReserveRequest& request, const Fitting& fitting);
  void RenewClaim(int64_t now_us, int64_t window_us, ReservationId id, const Fitting& fitting);
  ReserveAnswer Refuse(int64_t now_us, const ReserveRequest& request, int64_t at_us,
                       Dimension binding);
  ReserveAnswer Book(const ReserveRequest& request, const Costs& costs, const Fitting& fitting);
  void Charge(const Reservation& reservation, const Costs& before, const Costs& after);
  int64_t PoolUs(const Costs& costs, const Costs& shares) const;
  int64_t LastBooked(int64_t now_us);
  int64_t Slots() const;
  void Reap(int64_t now_us);
  void VoidBooked(int64_t now_us);
  void CutRate(int64_t now_us, int64_t sent_us, int64_t factor, bool ramp);
  void CutCapacity(int64_t now_us, int64_t sent_us);
  void NoteWait(int64_t now_us, Dimension binding);

  const std::string name_;
  PoolSpec spec_;
  int64_t expire_us_ = 0;
  std::vector<RateLimit> limits_;
  int64_t gauge_ = 0;            // slots, 0: not limited
  int64_t found_in_flight_ = 0;  // slots that were found by trying, 0: they are not

  Ledger ledger_;
  FairShares flows_;
  UsageRing usage_;
  Claim claim_;
  int64_t now_us_ = 0;

  // The provider's word.
  int64_t gate_until_us_ = 0;
  Dimension gate_dimension_ = Dimension::kRequests;
  uint64_t epoch_ = 0;
  GrowingShare rate_;
  GrowingShare capacity_;
  Pressure rate_pressure_;
  Pressure capacity_pressure_;
  int64_t capacity_base_ = 0;  // what was in flight when the capacity was cut
  bool closed_ = false;
  std::string closed_text_;
  int64_t probe_at_us_ = 0;
  ReservationId probe_id_{};
  Costs observed_us_{};  // the last correction of each limit by what the provider said
  Costs outside_{};

  // For people and for wake-ups.
  int64_t penalties_ = 0;
  int64_t expired_ = 0;
  int64_t slot_refused_us_ = -(int64_t{1} << 52);
  int64_t waited_us_ = 0;  // the last time that an answer was to wait
  Dimension waited_for_ = Dimension::kRequests;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_MODEL_H_
