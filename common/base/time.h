// Monotonic time. Deadlines and durations inside a process are MonoTime and absl::Duration; wall
// time (absl::Time) appears only in records that people read.
#ifndef HEADRACE_COMMON_BASE_TIME_H_
#define HEADRACE_COMMON_BASE_TIME_H_

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace headrace {

// A point on a clock that never goes back. Only differences have a meaning: the origin is the
// machine's boot on a real reactor and zero on a virtual one.
class MonoTime {
 public:
  constexpr MonoTime() = default;

  static constexpr MonoTime FromNanos(int64_t nanos) { return MonoTime(nanos); }
  // Later than every real time; "no deadline".
  static constexpr MonoTime Max() { return MonoTime(std::numeric_limits<int64_t>::max()); }

  constexpr int64_t nanos() const { return nanos_; }

  friend constexpr auto operator<=>(MonoTime, MonoTime) = default;
  friend absl::Duration operator-(MonoTime a, MonoTime b) {
    return absl::Nanoseconds(a.nanos_ - b.nanos_);
  }
  // Saturates at Max(): adding to "no deadline" or adding an infinite duration gives no deadline.
  friend MonoTime operator+(MonoTime t, absl::Duration d) {
    const int64_t add = absl::ToInt64Nanoseconds(d);
    int64_t sum = 0;
    if (t == Max() || __builtin_add_overflow(t.nanos_, add, &sum)) return add < 0 ? t : Max();
    return MonoTime(sum);
  }
  friend MonoTime operator-(MonoTime t, absl::Duration d) { return t + (-d); }

 private:
  explicit constexpr MonoTime(int64_t nanos) : nanos_(nanos) {}

  int64_t nanos_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_TIME_H_
