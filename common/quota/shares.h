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
    if (value_ >= ceiling_) return;
    const int64_t grown = std::max<int64_t>(0, now_us - grown_at_us_) * per_minute_ / kMinuteUs;
    if (grown == 0) return;
    value_ = std::min(ceiling_, value_ + grown);
    grown_at_us_ += grown * kMinuteUs / per_minute_;
  }
  // Grows no further than `ceiling` from now on: down to it at once, up to it in time. True if it
  // changed.
  bool SetCeiling(int64_t now_us, int64_t ceiling) {
    ceiling = std::clamp(ceiling, kMinShare, kFullShare);
    if (ceiling == ceiling_) return false;
    Grow(now_us);
    if (value_ >= std::min(ceiling, ceiling_)) grown_at_us_ = now_us;
    ceiling_ = ceiling;
    value_ = std::min(value_, ceiling_);
    return true;
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
  int64_t ceiling_ = kFullShare;
  int64_t grown_at_us_ = 0;
  int64_t last_cut_us_ = -1;
};

// The share of a limit that is open to traffic that may only grow so fast: grows in proportion to
// itself, and only while it is used.
class Ramp {
 public:
  Ramp() = default;  // all open, for ever
  Ramp(int64_t start, int64_t growth_basis_points)
      : start_(std::clamp(start, kMinShare, kFullShare)),
        growth_(growth_basis_points),
        value_(start_) {}

  bool exists() const { return growth_ > 0; }
  int64_t value() const { return value_; }

  void Begin(int64_t now_us) { grown_at_us_ = used_us_ = now_us; }
  // `in_use`: what was charged has not been paid for yet.
  void Grow(int64_t now_us, bool in_use) {
    if (!exists()) return;
    if (!in_use) {
      if (now_us - used_us_ >= kIdleUs) value_ = start_;
      grown_at_us_ = std::max(grown_at_us_, now_us);
      return;
    }
    used_us_ = now_us;
    while (value_ < kFullShare) {
      const int64_t step_us = kMinuteUs * 10'000 / (value_ * growth_);
      if (now_us - grown_at_us_ < step_us) return;
      grown_at_us_ += step_us;
      ++value_;
    }
    grown_at_us_ = now_us;
  }
  // As GrowingShare::Cut().
  bool Cut(int64_t now_us, int64_t sent_us, int64_t factor) {
    if (sent_us <= last_cut_us_) return false;
    value_ = std::max(kMinShare, value_ * factor / kFullShare);
    grown_at_us_ = last_cut_us_ = now_us;
    return true;
  }

 private:
  static constexpr int64_t kMinuteUs = 60'000'000;
  // OpenAI looks at 15 minutes; after as long without traffic it grows from the start again.
  static constexpr int64_t kIdleUs = 15 * kMinuteUs;

  int64_t start_ = kFullShare;
  int64_t growth_ = 0;  // a minute, in 1/10,000
  int64_t value_ = kFullShare;
  int64_t grown_at_us_ = 0;
  int64_t used_us_ = 0;
  int64_t last_cut_us_ = -1;
};

// Tells push-back from stray failures: a provider that fails one call in a hundred at any speed is
// not helped by fewer calls. Counts of both kinds fade by half every kHalfUs.
class Pressure {
 public:
  void Report(int64_t now_us) {
    Age(now_us);
    ++reports_;
  }
  void Answered(int64_t now_us) {
    Age(now_us);
    ++answered_;
  }
  // At least `least` reports, and one for every `answers` answered calls.
  bool IsReal(int64_t least, int64_t answers) const {
    return reports_ >= least && reports_ * answers >= answered_;
  }

 private:
  static constexpr int64_t kHalfUs = 5'000'000;  // chosen, not measured

  void Age(int64_t now_us) {
    if (now_us - aged_at_us_ < kHalfUs) return;
    const int64_t halves = std::min<int64_t>(62, (now_us - aged_at_us_) / kHalfUs);
    reports_ >>= halves;
    answered_ >>= halves;
    aged_at_us_ = now_us;
  }

  int64_t reports_ = 0;
  int64_t answered_ = 0;
  int64_t aged_at_us_ = 0;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_SHARES_H_
