#include "common/quota/limit.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/int128.h"
#include "absl/time/time.h"

namespace headrace::quota {
namespace {

// A limit that the provider lowered and raises again: 2.7 % a minute, as after a cut (model.cc).
constexpr int64_t kCapGrowth = 7;
constexpr int64_t kOutsideMargin = 16;  // 6 % of a window that is shared; chosen
constexpr absl::Duration kDay = absl::Hours(24);

int64_t ShareOf(int64_t part, int64_t whole) {
  return static_cast<int64_t>(absl::int128(std::min(part, whole)) * kFullShare / whole);
}

}  // namespace

RateLimit::RateLimit(const DimensionSpec& spec, double utilisation)
    : paced_(spec.mechanics != Mechanics::kDay),
      whole_limit_(spec.whole_limit),
      bucket_(spec, utilisation),
      cap_(kCapGrowth) {
  if (spec.mechanics == Mechanics::kDay) {
    ring_.emplace(spec.limit, absl::ToInt64Microseconds(kDay), 0);
  } else if (spec.mechanics == Mechanics::kWindow) {
    const int64_t window_us = absl::ToInt64Microseconds(spec.window);
    const absl::int128 size =
        absl::int128(spec.limit) * window_us / absl::ToInt64Microseconds(spec.period);
    ring_.emplace(std::max<int64_t>(1, static_cast<int64_t>(size)), window_us,
                  absl::ToInt64Microseconds(spec.guard));
  }
  if (paced_ && spec.ramp_start > 0) {
    ramp_ = Ramp(ShareOf(spec.ramp_start, spec.limit), std::llround(spec.ramp_growth * 10'000));
  }
}

void RateLimit::Fill(int64_t now_us) {
  bucket_.Fill(now_us);
  ramp_.Begin(now_us);
  if (!ring_) return;
  if (daily()) {
    ring_->Roll(now_us);
  } else {
    ring_->Fill(now_us);
  }
}

void RateLimit::TakeOver(int64_t now_us, int64_t gate_until_us, const RateLimit& old) {
  Fill(now_us);
  if (paced_ && old.paced_) bucket_.TakeOver(now_us, gate_until_us, old.bucket_);
  if (ring_ && old.ring_ && ring_->SameCells(*old.ring_)) {
    const int64_t size = ring_->size();
    ring_ = old.ring_;
    ring_->set_size(size);
  }
  // The provider's own word is about the old limit; it will say it again about the new one.
  if (ramp_.exists() && old.ramp_.exists() && limit() == old.limit()) ramp_ = old.ramp_;
}

void RateLimit::Advance(int64_t now_us) {
  if (ring_) ring_->Roll(now_us);
  cap_.Grow(now_us);
  ramp_.Grow(now_us, bucket_.tat_us() > now_us);
}

int64_t RateLimit::Share(int64_t pool_share) const {
  return std::min({pool_share, cap_.value(), ramp_.value()});
}

int64_t RateLimit::ShareAt(int64_t now_us, int64_t pool_share) const {
  GrowingShare cap = cap_;
  cap.Grow(now_us);
  return std::min({pool_share, cap.value(), ramp_.value()});
}

int64_t RateLimit::Room(int64_t at_us) const {
  const int64_t share = cap_.value();
  int64_t room =
      ring_->size() / kFullShare * share + ring_->size() % kFullShare * share / kFullShare;
  // What others use is seen a second or two late.
  if (at_us < outside_until_us_) room -= room / kOutsideMargin;
  return std::max<int64_t>(1, room);
}

void RateLimit::Pace(int64_t gate_until_us, Fitting* fitting) const {
  if (!paced_) return;
  const int64_t at_us = bucket_.Earliest(gate_until_us);
  if (at_us > fitting->at_us) *fitting = Fitting{at_us, dimension()};
}

void RateLimit::FitWindow(int64_t cost, Fitting* fitting) const {
  if (!ring_) return;
  const int64_t at_us = ring_->FitAt(fitting->at_us, cost, Room(fitting->at_us));
  if (at_us > fitting->at_us) *fitting = Fitting{at_us, dimension()};
}

void RateLimit::Take(int64_t at_us, int64_t gate_until_us, int64_t cost, int64_t share) {
  if (paced_) bucket_.Take(at_us, gate_until_us, bucket_.Ticks(cost, share));
  if (ring_) ring_->Add(at_us, bucket_.Bounded(cost));
}

void RateLimit::Correct(int64_t at_us, int64_t before, int64_t after, int64_t share) {
  if (before == after) return;
  if (ring_) {
    if (!ring_->Holds(at_us)) return;
    ring_->Add(at_us, bucket_.Bounded(after) - bucket_.Bounded(before));
  }
  if (paced_) bucket_.Correct(bucket_.Ticks(after, share) - bucket_.Ticks(before, share));
}

int64_t RateLimit::PoolUs(int64_t cost, int64_t share) const {
  return paced_ ? bucket_.TicksToMicros(bucket_.Ticks(cost, share)) : 0;
}

int64_t RateLimit::Used(int64_t at_us, int64_t share) const {
  return ring_ ? ring_->Used(at_us) : bucket_.Level(at_us, share);
}

void RateLimit::ChargeOutside(int64_t now_us, int64_t units, int64_t share) {
  if (ring_) {
    ring_->Add(now_us, units);
    if (paced_) outside_until_us_ = now_us + ring_->width_us();
  } else {
    bucket_.ChargeOutside(now_us, bucket_.Ticks(units, share));
  }
}

}  // namespace headrace::quota
