// Another machine's clock in terms of ours, as far as its answers tell.
#ifndef HEADRACE_COMMON_QUOTA_SERVER_CLOCK_H_
#define HEADRACE_COMMON_QUOTA_SERVER_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/base/time.h"

namespace headrace::quota {

// An answer that was asked for at `sent` and came at `received` was made in between, so it bounds
// the difference of the clocks from both sides. The least upper bound of the last minute is kept:
// what is booked for a time of the server is then sent never early, and late by no more than the
// fastest answer took. A clock that was set shows as bounds that contradict each other.
class ServerClock {
 public:
  void Note(MonoTime sent, MonoTime received, int64_t server_us) {
    const int64_t upper = received.nanos() / 1000 - server_us;
    const int64_t lower = sent.nanos() / 1000 - server_us;
    if (received - since_ >= kKeep) {
      previous_ = current_;
      current_ = kNone;
      since_ = received;
    }
    if (std::min(previous_, current_) < lower) previous_ = current_ = kNone;
    current_ = std::min(current_, upper);
  }

  bool known() const { return current_ != kNone || previous_ != kNone; }
  MonoTime ToMono(int64_t server_us) const {
    return MonoTime::FromNanos((server_us + offset()) * 1000);
  }
  int64_t ToServerUs(MonoTime time) const { return time.nanos() / 1000 - offset(); }

 private:
  static constexpr absl::Duration kKeep = absl::Seconds(30);
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  int64_t offset() const { return known() ? std::min(previous_, current_) : 0; }

  int64_t previous_ = kNone;  // of the 30 s before
  int64_t current_ = kNone;
  MonoTime since_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_SERVER_CLOCK_H_
