// A share of a limit that is cut when the provider pushes back and grows again by itself.
#ifndef HEADRACE_COMMON_QUOTA_SHARES_H_
#define HEADRACE_COMMON_QUOTA_SHARES_H_

#include <algorithm>
#include <cstdint>

#include "common/quota/bucket.h"

namespace headrace::quota {

// In 1/kFullShare. Integers only, as in bucket.h.
class GrowingShare {
 public:
  // Grows by `per_minute`/kFullShare of the whole each minute.
  explicit GrowingShare(int64_t per_minute) : per_minute_(per_minute) {}

  int64_t value() const { return value_; }

  void Grow(int64_t now_us) {
    if (value_ == kFullShare) return;
    const int64_t grown = std::max<int64_t>(0, now_us - grown_at_us_) * per_minute_ / kMinuteUs;
    if (grown == 0) return;
    value_ = std::min(kFullShare, value_ + grown);
    grown_at_us_ += grown * kMinuteUs / per_minute_;
  }
  // To `factor`/kFullShare of what it is, once per congestion event: a report of an attempt that
  // was sent before the last cut says nothing new. True if it was cut.
  bool Cut(int64_t now_us, int64_t sent_us, int64_t factor) {
    if (sent_us <= last_cut_us_) return false;
    Grow(now_us);
    value_ = std::max(kMinShare, value_ * factor / kFullShare);
    grown_at_us_ = last_cut_us_ = now_us;
    return true;
  }

 private:
  static constexpr int64_t kMinuteUs = 60'000'000;

  int64_t per_minute_;
  int64_t value_ = kFullShare;
  int64_t grown_at_us_ = 0;
  int64_t last_cut_us_ = -1;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_SHARES_H_
