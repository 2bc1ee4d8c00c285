// The mechanics BUCKET: a limit that refills continuously, as GCRA with debt.
//
// The state is one time, TAT: when everything charged so far will have been paid for. A request may
// go once TAT is at most `burst` ahead, and is charged after that test, so one that is larger than
// the burst is admitted and delays those behind it. What was sent is corrected to what it really
// cost by moving TAT either way.
//
// Integers only, none of them above 2^53 for times up to the year 2255, so that a script of doubles
// computes the same numbers. Times are microseconds; charges are ticks of 1/scale microsecond.
#ifndef HEADRACE_COMMON_QUOTA_BUCKET_H_
#define HEADRACE_COMMON_QUOTA_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "common/quota/quota.h"

namespace headrace::quota {

// Shares of a rate are counted in 1/256: fine enough to grow by half a percent, coarse enough that
// a price times it stays below 2^53.
inline constexpr int64_t kFullShare = 256;
inline constexpr int64_t kMinShare = kFullShare / 16;  // no cut goes below

inline constexpr int64_t kMaxOverrun = 16;  // limits that one cost may come to; chosen

class Bucket {
 public:
  // `spec` was validated.
  Bucket(const DimensionSpec& spec, double utilisation);

  Dimension dimension() const { return dimension_; }
  int64_t limit() const { return limit_; }

  // An actual cost beyond 16 limits is an error of units, and counts as that.
  int64_t Bounded(int64_t cost) const { return std::clamp<int64_t>(cost, 0, limit_ * kMaxOverrun); }
  // What `cost` units take when `share`/kFullShare of the rate is in use, in ticks.
  int64_t Ticks(int64_t cost, int64_t share) const;
  int64_t TicksToMicros(int64_t ticks) const { return ticks / scale_; }

  // The first moment at which a request, of whatever cost, may be sent. After a gate credit starts
  // from nothing, hence without a burst.
  int64_t Earliest(int64_t gate_until_us) const { return Tat(gate_until_us) - burst_us_; }
  // Charges a request that is sent at `at_us`, not before Earliest().
  void Take(int64_t at_us, int64_t gate_until_us, int64_t ticks);
  // Moves what was charged by `ticks`, of either sign. Credit never exceeds the burst, because
  // Take() starts from the send time at the earliest.
  void Correct(int64_t ticks);

  // As after a while at the full rate up to `now_us`: no credit, no debt.
  void Fill(int64_t now_us);
  // Starts at `now_us` with what `old`, the same limit before it was changed, had of credit or
  // debt, in whole units: rounded so that nothing is gained.
  void TakeOver(int64_t now_us, int64_t gate_until_us, const Bucket& old);
  // Charges what somebody else took, as far as it is seen at `now_us`.
  void ChargeOutside(int64_t now_us, int64_t ticks);
  // The level of the provider's bucket by this model, in units: what was charged and has not
  // drained at `at_us`, booked sends included.
  int64_t Level(int64_t at_us, int64_t share) const;

  int64_t tat_us() const { return tat_us_; }
  int64_t tat_ticks() const { return tat_ticks_; }  // beyond tat_us, [0, scale)
  int64_t scale() const { return scale_; }

 private:
  int64_t Price(int64_t share) const {
    return share == kFullShare ? price_ : (price_ * kFullShare + share - 1) / share;
  }
  int64_t Tat(int64_t gate_until_us) const {
    return tat_us_ > gate_until_us + burst_us_ ? tat_us_ : gate_until_us + burst_us_;
  }

  Dimension dimension_;
  int64_t limit_;
  int64_t burst_us_;
  int64_t scale_;  // ticks per microsecond, a power of two
  int64_t price_;  // ticks per unit at full share
  int64_t tat_us_ = 0;
  int64_t tat_ticks_ = 0;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_BUCKET_H_
