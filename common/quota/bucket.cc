#include "common/quota/bucket.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/int128.h"
#include "absl/time/time.h"
#include "common/base/log.h"

namespace headrace::quota {
namespace {

// The widest products, of a month (2^41.3 us) at a tenth of the rate: a price times kFullShare is
// 2^52.6, and kMaxOverrun limits at kMinShare take 2^52.6 ticks. Shorter periods have more ticks to
// a microsecond, up to this many in all.
constexpr int64_t kMaxPeriodTicks = int64_t{1} << 41;
constexpr int64_t kMaxScale = int64_t{1} << 14;
constexpr int64_t kMillion = 1'000'000;

int64_t ScaleFor(int64_t period_us) {
  int64_t scale = 1;
  while (scale < kMaxScale && period_us * scale * 2 <= kMaxPeriodTicks) scale *= 2;
  return scale;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Bucket::Bucket(const DimensionSpec& spec, double utilisation)
    : dimension_(spec.dimension),
      limit_(spec.limit),
      burst_us_(absl::ToInt64Microseconds(spec.burst)),
      scale_(ScaleFor(absl::ToInt64Microseconds(spec.period))) {
  const int64_t share_millionths = std::max<int64_t>(1, std::llround(utilisation * kMillion));
  const absl::int128 period = absl::int128(absl::ToInt64Microseconds(spec.period)) * scale_;
  const absl::int128 rate = absl::int128(limit_) * share_millionths;
  price_ = static_cast<int64_t>((period * kMillion + rate - 1) / rate);
}

int64_t Bucket::Ticks(int64_t cost, int64_t share) const { return Bounded(cost) * Price(share); }

void Bucket::Take(int64_t at_us, int64_t gate_until_us, int64_t ticks) {
  HR_CHECK(at_us >= Earliest(gate_until_us)) << DimensionName(dimension_);
  const int64_t tat_us = std::max(Tat(gate_until_us), at_us);
  if (tat_us != tat_us_) {
    tat_us_ = tat_us;
    tat_ticks_ = 0;
  }
  Correct(ticks);
}

void Bucket::Correct(int64_t ticks) {
  const int64_t total = tat_ticks_ + ticks;
  const int64_t micros = FloorDiv(total, scale_);
  tat_us_ += micros;
  tat_ticks_ = total - micros * scale_;
}

void Bucket::Fill(int64_t now_us) {
  tat_us_ = now_us + burst_us_;
  tat_ticks_ = 0;
}

void Bucket::TakeOver(int64_t now_us, int64_t gate_until_us, const Bucket& old) {
  const int64_t ahead_us = std::max(old.Tat(gate_until_us), now_us) - now_us;
  const int64_t allowance = FloorDiv((old.burst_us_ - ahead_us) * old.scale_, old.price_);
  const int64_t most = limit_ * kMaxOverrun;
  const int64_t ticks = std::clamp(allowance, -most, most) * price_;
  const int64_t credit_us = std::min(FloorDiv(ticks, scale_), burst_us_);
  tat_us_ = now_us + burst_us_ - credit_us;
  tat_ticks_ = 0;
}

void Bucket::ChargeOutside(int64_t now_us, int64_t ticks) {
  if (tat_us_ < now_us) {
    tat_us_ = now_us;
    tat_ticks_ = 0;
  }
  Correct(ticks);
}

int64_t Bucket::Level(int64_t at_us, int64_t share) const {
  if (tat_us_ <= at_us) return 0;
  return ((tat_us_ - at_us) * scale_ + tat_ticks_) / Price(share);
}

}  // namespace headrace::quota
