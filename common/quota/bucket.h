// The mechanics BUCKET: a limit that refills continuously, as GCRA with debt.
//
// The state is one time, TAT: when everything charged so far will have been paid for. A request may
// go once TAT is at most `burst` ahead, and is charged after that test, so one that is larger than
// the burst is admitted and delays those behind it. What was sent is corrected to what it really
// cost by moving TAT either way.
//
// Another mechanics (a fixed window, cells of 1 s or 10 s, a ramp) is another class with the same
// four functions, one more case in PoolModel, and one more value of Mechanics.
//
// Integers only, none of them above 2^53 for times up to the year 2255, so that a script of doubles
// computes the same numbers. Times are microseconds; charges are ticks of 1/scale microsecond.
#ifndef HEADRACE_COMMON_QUOTA_BUCKET_H_
#define HEADRACE_COMMON_QUOTA_BUCKET_H_

#include <cstdint>

#include "common/quota/quota.h"

namespace headrace::quota {

// Shares of a rate are counted in 1/256: fine enough to grow by half a percent, coarse enough that
// a price times it stays below 2^53.
inline constexpr int64_t kFullShare = 256;
inline constexpr int64_t kMinShare = kFullShare / 16;  // no cut goes below

class Bucket {
 public:
  // `spec` was validated.
  Bucket(const DimensionSpec& spec, double utilisation);

  Dimension dimension() const { return dimension_; }
  int64_t limit() const { return limit_; }

  // What `cost` units take when `share`/kFullShare of the rate is in use, in ticks. Costs above 16
  // times the limit count as that.
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

  // Starts at `now_us` with what `old`, the same limit before it was changed, had of credit or
  // debt, in units; without `old` with no credit.
  void TakeOver(int64_t now_us, int64_t gate_until_us, const Bucket* old);

  int64_t tat_us() const { return tat_us_; }
  int64_t tat_ticks() const { return tat_ticks_; }  // beyond tat_us, [0, scale)
  int64_t scale() const { return scale_; }

 private:
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
