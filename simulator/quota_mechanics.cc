#include "simulator/quota_mechanics.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::simulator {
namespace {

constexpr double kNanosPerMinute = 60e9;
// A sliding log merges what arrives within this time, so it holds at most period / this entries.
constexpr int64_t kSlidingGrainNanos = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;

absl::Duration Nanos(double nanos) { return absl::Nanoseconds(std::ceil(std::max(nanos, 0.0))); }

// The exact continuous bucket: reset = used / limit x period, and a rejection's wait is
// (used + requested - capacity) / limit x period (reference: captured OpenAI arithmetic).
class BucketMeter final : public Meter {
 public:
  explicit BucketMeter(const LimitSpec& spec)
      : Meter(spec),
        per_nano_(static_cast<double>(spec.limit) / kNanosPerMinute),
        capacity_(static_cast<double>(spec.capacity > 0 ? spec.capacity : spec.limit)) {}

  Fit Check(MonoTime now, int64_t cost) override {
    Drain(now);
    const double over = used_ + static_cast<double>(std::max<int64_t>(cost, 1)) - capacity_;
    if (over <= 1e-6) return {};
    if (static_cast<double>(cost) > capacity_) return {.fits = false, .never = true};
    return {.fits = false, .retry_after = Nanos(over / per_nano_)};
  }

  void Charge(MonoTime now, MonoTime, int64_t cost) override {
    Drain(now);
    used_ = std::max(used_ + static_cast<double>(cost), 0.0);
  }

  LimitState State(MonoTime now) override {
    Drain(now);
    return {.limit = spec_.limit,
            .remaining = std::max<int64_t>(static_cast<int64_t>(std::floor(capacity_ - used_)), 0),
            .reset = Nanos(used_ / per_nano_),
            .used = static_cast<int64_t>(std::ceil(used_))};
  }

 private:
  void Drain(MonoTime now) {
    const double nanos = static_cast<double>(now.nanos() - last_.nanos());
    used_ = std::max(used_ - nanos * per_nano_, 0.0);
    last_ = now;
  }

  const double per_nano_;
  const double capacity_;
  double used_ = 0;
  MonoTime last_;
};

class WindowMeter final : public Meter {
 public:
  explicit WindowMeter(const LimitSpec& spec)
      : Meter(spec),
        period_(absl::ToInt64Nanoseconds(spec.period)),
        offset_(absl::ToInt64Nanoseconds(spec.offset)),
        size_(std::max<int64_t>(std::llround(static_cast<double>(spec.limit) *
                                             static_cast<double>(period_) / kNanosPerMinute),
                                1)) {}

  Fit Check(MonoTime now, int64_t cost) override {
    Roll(now);
    if (used_ + std::max<int64_t>(cost, 1) <= size_) return {};
    if (cost > size_) return {.fits = false, .never = true};
    return {.fits = false, .retry_after = UntilNext(now)};
  }

  void Charge(MonoTime now, MonoTime charged_at, int64_t cost) override {
    Roll(now);
    if (Window(charged_at) == window_) used_ = std::max<int64_t>(used_ + cost, 0);
  }

  LimitState State(MonoTime now) override {
    Roll(now);
    return {.limit = spec_.limit,
            .remaining = std::max<int64_t>(size_ - used_, 0),
            .reset = UntilNext(now),
            .used = used_};
  }

 private:
  int64_t Window(MonoTime t) const { return (t.nanos() + period_ - offset_) / period_; }
  void Roll(MonoTime now) {
    if (Window(now) == window_) return;
    window_ = Window(now);
    used_ = 0;
  }
  absl::Duration UntilNext(MonoTime now) const {
    return absl::Nanoseconds(period_ - (now.nanos() + period_ - offset_) % period_);
  }

  const int64_t period_;
  const int64_t offset_;
  const int64_t size_;
  int64_t window_ = -1;
  int64_t used_ = 0;
};

class SlidingMeter final : public Meter {
 public:
  explicit SlidingMeter(const LimitSpec& spec)
      : Meter(spec),
        period_(absl::ToInt64Nanoseconds(spec.period)),
        size_(std::max<int64_t>(std::llround(static_cast<double>(spec.limit) *
                                             static_cast<double>(period_) / kNanosPerMinute),
                                1)) {}

  Fit Check(MonoTime now, int64_t cost) override {
    Expire(now);
    const int64_t over = used_ + std::max<int64_t>(cost, 1) - size_;
    if (over <= 0) return {};
    if (cost > size_) return {.fits = false, .never = true};
    int64_t freed = 0;
    for (const Entry& entry : log_) {
      freed += entry.units;
      if (freed >= over) {
        return {.fits = false, .retry_after = absl::Nanoseconds(entry.at + period_ - now.nanos())};
      }
    }
    return {.fits = false, .retry_after = absl::Nanoseconds(period_)};
  }

  void Charge(MonoTime now, MonoTime charged_at, int64_t cost) override {
    Expire(now);
    if (charged_at.nanos() + period_ <= now.nanos()) return;
    used_ += cost;
    if (charged_at < now) {
      // A correction changes the entry it belongs to; the first one not older than the charge.
      for (Entry& entry : log_) {
        if (entry.at >= charged_at.nanos()) {
          entry.units += cost;
          return;
        }
      }
    }
    // Merging to the later time keeps the log strict: nothing leaves early.
    if (!log_.empty() && log_.back().since + kSlidingGrainNanos > now.nanos()) {
      log_.back().at = now.nanos();
      log_.back().units += cost;
    } else {
      log_.push_back({now.nanos(), now.nanos(), cost});
    }
  }

  LimitState State(MonoTime now) override {
    Expire(now);
    const int64_t last = log_.empty() ? now.nanos() : log_.back().at + period_;
    return {.limit = spec_.limit,
            .remaining = std::clamp<int64_t>(size_ - used_, 0, size_),
            .reset = absl::Nanoseconds(last - now.nanos()),
            .used = std::max<int64_t>(used_, 0)};
  }

 private:
  struct Entry {
    int64_t since;
    int64_t at;
    int64_t units;
  };
  void Expire(MonoTime now) {
    while (!log_.empty() && log_.front().at + period_ <= now.nanos()) {
      used_ -= log_.front().units;
      log_.pop_front();
    }
  }

  const int64_t period_;
  const int64_t size_;
  std::deque<Entry> log_;
  int64_t used_ = 0;
};

class GaugeMeter final : public Meter {
 public:
  explicit GaugeMeter(const LimitSpec& spec) : Meter(spec) {}

  Fit Check(MonoTime, int64_t cost) override {
    if (used_ + std::max<int64_t>(cost, 1) <= spec_.limit) return {};
    // Nobody knows when a slot becomes free; one second is what gateways say.
    return {.fits = false, .never = cost > spec_.limit, .retry_after = absl::Seconds(1)};
  }
  void Charge(MonoTime, MonoTime, int64_t cost) override {
    used_ = std::max<int64_t>(used_ + cost, 0);
  }
  LimitState State(MonoTime) override {
    return {.limit = spec_.limit,
            .remaining = std::max<int64_t>(spec_.limit - used_, 0),
            .used = used_};
  }

 private:
  int64_t used_ = 0;
};

// Each second has a ceiling. The ceiling grows by `growth` per minute, but only after seconds that
// used at least half of it: traffic that jumps is rejected, traffic that grows is not.
class RampMeter final : public Meter {
 public:
  explicit RampMeter(const LimitSpec& spec)
      : Meter(spec),
        full_(static_cast<double>(spec.limit) / 60.0),
        factor_(std::pow(1.0 + spec.growth, 1.0 / 60.0)),
        ceiling_(std::max(full_ * spec.start, 1.0)) {}

  Fit Check(MonoTime now, int64_t cost) override {
    Roll(now);
    if (used_ == 0) return {};  // one request alone always goes, whatever its size
    if (static_cast<double>(used_ + std::max<int64_t>(cost, 1)) <= ceiling_) return {};
    return {.fits = false,
            .retry_after = absl::Nanoseconds(kNanosPerSecond - now.nanos() % kNanosPerSecond)};
  }
  void Charge(MonoTime now, MonoTime charged_at, int64_t cost) override {
    Roll(now);
    if (charged_at.nanos() / kNanosPerSecond == second_) {
      used_ = std::max<int64_t>(used_ + cost, 0);
    }
  }
  LimitState State(MonoTime now) override {
    Roll(now);
    const int64_t per_minute = std::llround(std::min(ceiling_, full_) * 60);
    const auto remaining = static_cast<int64_t>(ceiling_) - used_;
    return {.limit = per_minute,
            .remaining = std::max<int64_t>(remaining, 0),
            .reset = absl::Nanoseconds(kNanosPerSecond - now.nanos() % kNanosPerSecond),
            .used = used_};
  }

 private:
  void Roll(MonoTime now) {
    const int64_t second = now.nanos() / kNanosPerSecond;
    if (second == second_) return;
    if (static_cast<double>(used_) * 2 >= ceiling_) {
      ceiling_ = std::min(ceiling_ * factor_, std::max(full_, 1.0));
    }
    second_ = second;
    used_ = 0;
  }

  const double full_;
  const double factor_;
  double ceiling_;
  int64_t second_ = -1;
  int64_t used_ = 0;
};

}  // namespace

absl::string_view LimitKindName(LimitKind kind) {
  switch (kind) {
    case LimitKind::kRequests:
      return "requests";
    case LimitKind::kTokens:
      return "tokens";
    case LimitKind::kInputTokens:
      return "input-tokens";
    case LimitKind::kOutputTokens:
      return "output-tokens";
    case LimitKind::kInFlight:
      return "in-flight";
  }
  return "unknown";
}

absl::Status ValidateLimit(const LimitSpec& spec) {
  const absl::string_view name = LimitKindName(spec.kind);
  if (spec.limit <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the limit must be positive"));
  }
  if (spec.period < absl::Milliseconds(1) || spec.period > absl::Hours(24)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the period must be in [1ms, 24h]"));
  }
  if (spec.capacity < 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the capacity must not be negative"));
  }
  if (spec.offset < absl::ZeroDuration() || spec.offset >= spec.period) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the offset must be in [0, period)"));
  }
  if (!(spec.start > 0 && spec.start <= 1) || !(spec.growth > 0 && spec.growth <= 100)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the ramp needs a start in (0, 1] and a growth in (0, 100]"));
  }
  if ((spec.kind == LimitKind::kInFlight) != (spec.mechanics == Mechanics::kGauge)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": in-flight and only in-flight is a gauge"));
  }
  return absl::OkStatus();
}

std::unique_ptr<Meter> MakeMeter(const LimitSpec& spec) {
  HR_CHECK(ValidateLimit(spec).ok()) << ValidateLimit(spec);
  switch (spec.mechanics) {
    case Mechanics::kBucket:
      return std::make_unique<BucketMeter>(spec);
    case Mechanics::kWindow:
      return std::make_unique<WindowMeter>(spec);
    case Mechanics::kSliding:
      return std::make_unique<SlidingMeter>(spec);
    case Mechanics::kGauge:
      return std::make_unique<GaugeMeter>(spec);
    case Mechanics::kRamp:
      return std::make_unique<RampMeter>(spec);
  }
  return nullptr;
}

}  // namespace headrace::simulator
