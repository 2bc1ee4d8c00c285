#include "simulator/quota_mechanics.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace headrace::simulator {
namespace {

MonoTime At(absl::Duration since_start) {
  return MonoTime::FromNanos(int64_t{1'000'000'000'000}) + since_start;
}

std::unique_ptr<Meter> Make(Mechanics mechanics, int64_t limit,
                            absl::Duration period = absl::Minutes(1), int64_t capacity = 0) {
  LimitSpec spec;
  spec.kind = mechanics == Mechanics::kGauge ? LimitKind::kInFlight : LimitKind::kTokens;
  spec.mechanics = mechanics;
  spec.limit = limit;
  spec.period = period;
  spec.capacity = capacity;
  return MakeMeter(spec);
}

void Use(Meter* meter, MonoTime now, int64_t units) { meter->Charge(now, now, units); }

TEST(ValidateLimit, NamesTheFieldThatIsWrong) {
  LimitSpec spec;
  EXPECT_EQ(ValidateLimit(spec).message(), "requests: the limit must be positive");
  spec.limit = 10;
  EXPECT_TRUE(ValidateLimit(spec).ok());
  spec.period = absl::ZeroDuration();
  EXPECT_EQ(ValidateLimit(spec).message(), "requests: the period must be in [1ms, 24h]");
  spec.period = absl::Seconds(1);
  spec.offset = absl::Seconds(1);
  EXPECT_EQ(ValidateLimit(spec).message(), "requests: the offset must be in [0, period)");
  spec.offset = absl::ZeroDuration();
  spec.mechanics = Mechanics::kGauge;
  EXPECT_EQ(ValidateLimit(spec).message(), "requests: in-flight and only in-flight is a gauge");
}

// The captured figures of a real provider: Limit 50000, Used 47949, Requested 3006 -> 1.146s.
TEST(Bucket, RejectionWaitsAsTheCapturedProviderDid) {
  auto meter = Make(Mechanics::kBucket, 50'000);
  Use(meter.get(), At(absl::ZeroDuration()), 47'949);
  const Fit fit = meter->Check(At(absl::ZeroDuration()), 3'006);
  EXPECT_FALSE(fit.fits);
  EXPECT_FALSE(fit.never);
  EXPECT_EQ(absl::ToInt64Milliseconds(fit.retry_after), 1'146);
}

// limit 10,000, remaining 9,481 -> reset 3.114s.
TEST(Bucket, ResetIsUsedOverLimitTimesPeriod) {
  auto meter = Make(Mechanics::kBucket, 10'000);
  Use(meter.get(), At(absl::ZeroDuration()), 519);
  const LimitState state = meter->State(At(absl::ZeroDuration()));
  EXPECT_EQ(state.limit, 10'000);
  EXPECT_EQ(state.remaining, 9'481);
  EXPECT_EQ(state.used, 519);
  EXPECT_EQ(absl::ToInt64Milliseconds(state.reset), 3'114);
}

TEST(Bucket, WaitingExactlyTheHintIsEnoughAndOneMillisecondLessIsNot) {
  auto meter = Make(Mechanics::kBucket, 60'000);
  Use(meter.get(), At(absl::ZeroDuration()), 60'000);
  const Fit fit = meter->Check(At(absl::ZeroDuration()), 500);
  EXPECT_EQ(fit.retry_after, absl::Milliseconds(500));
  EXPECT_FALSE(meter->Check(At(absl::Milliseconds(499)), 500).fits);
  EXPECT_TRUE(meter->Check(At(absl::Milliseconds(500)), 500).fits);
}

TEST(Bucket, MoreThanTheCapacityNeverFits) {
  auto meter = Make(Mechanics::kBucket, 60'000, absl::Minutes(1), 5'000);
  EXPECT_TRUE(meter->Check(At(absl::ZeroDuration()), 5'000).fits);
  const Fit fit = meter->Check(At(absl::ZeroDuration()), 5'001);
  EXPECT_FALSE(fit.fits);
  EXPECT_TRUE(fit.never);
}

TEST(Bucket, ARefundGivesBackButNeverMoreThanEverything) {
  auto meter = Make(Mechanics::kBucket, 1'000);
  Use(meter.get(), At(absl::ZeroDuration()), 100);
  meter->Charge(At(absl::ZeroDuration()), At(absl::ZeroDuration()), -500);
  EXPECT_EQ(meter->State(At(absl::ZeroDuration())).remaining, 1'000);
}

TEST(Window, CountsAnewInEachWindowAndNotBefore) {
  auto meter = Make(Mechanics::kWindow, 100);
  // 1000 s is 40 s into its minute.
  Use(meter.get(), At(absl::ZeroDuration()), 100);
  const Fit fit = meter->Check(At(absl::Seconds(1)), 1);
  EXPECT_FALSE(fit.fits);
  EXPECT_EQ(fit.retry_after, absl::Seconds(19));
  EXPECT_FALSE(meter->Check(At(absl::Milliseconds(19'999)), 1).fits);
  EXPECT_TRUE(meter->Check(At(absl::Seconds(20)), 100).fits);
}

TEST(Window, AnOffsetMovesTheBoundary) {
  LimitSpec spec;
  spec.mechanics = Mechanics::kWindow;
  spec.limit = 10;
  spec.offset = absl::Seconds(45);
  auto meter = MakeMeter(spec);
  Use(meter.get(), At(absl::ZeroDuration()), 10);  // 40 s into the minute
  EXPECT_EQ(meter->Check(At(absl::ZeroDuration()), 1).retry_after, absl::Seconds(5));
}

TEST(Window, CellsOfOneSecondHoldASixtiethOfTheMinute) {
  auto meter = Make(Mechanics::kWindow, 600, absl::Seconds(1));
  EXPECT_TRUE(meter->Check(At(absl::ZeroDuration()), 10).fits);
  EXPECT_TRUE(meter->Check(At(absl::ZeroDuration()), 11).never);
  Use(meter.get(), At(absl::ZeroDuration()), 10);
  EXPECT_FALSE(meter->Check(At(absl::Milliseconds(999)), 1).fits);
  EXPECT_TRUE(meter->Check(At(absl::Seconds(1)), 10).fits);
}

TEST(Window, ACorrectionOfAnEndedWindowIsDropped) {
  auto meter = Make(Mechanics::kWindow, 100);
  Use(meter.get(), At(absl::ZeroDuration()), 80);
  meter->Charge(At(absl::Seconds(30)), At(absl::ZeroDuration()), -80);
  EXPECT_EQ(meter->State(At(absl::Seconds(30))).remaining, 100);
  Use(meter.get(), At(absl::Seconds(30)), 80);
  meter->Charge(At(absl::Seconds(31)), At(absl::Seconds(30)), -50);
  EXPECT_EQ(meter->State(At(absl::Seconds(31))).remaining, 70);
}

TEST(Sliding, SaysWhenEnoughWillHaveLeft) {
  auto meter = Make(Mechanics::kSliding, 100);
  Use(meter.get(), At(absl::ZeroDuration()), 60);
  Use(meter.get(), At(absl::Seconds(10)), 40);
  EXPECT_EQ(meter->Check(At(absl::Seconds(20)), 60).retry_after, absl::Seconds(40));
  EXPECT_EQ(meter->Check(At(absl::Seconds(20)), 61).retry_after, absl::Seconds(50));
  EXPECT_FALSE(meter->Check(At(absl::Milliseconds(59'999)), 1).fits);
  EXPECT_TRUE(meter->Check(At(absl::Seconds(60)), 60).fits);
}

TEST(Sliding, NoMinuteEverHoldsMoreThanTheLimit) {
  const uint64_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  auto meter = Make(Mechanics::kSliding, 1'000);
  std::vector<std::pair<absl::Duration, int64_t>> admitted;
  absl::Duration now;
  for (int i = 0; i < 20'000; ++i) {
    now += absl::Microseconds(random.Between(int64_t{0}, int64_t{100'000}));
    const int64_t cost = random.Between(int64_t{1}, int64_t{50});
    if (!meter->Check(At(now), cost).fits) continue;
    Use(meter.get(), At(now), cost);
    admitted.emplace_back(now, cost);
    int64_t minute = 0;
    for (auto it = admitted.rbegin(); it != admitted.rend() && it->first > now - absl::Minutes(1);
         ++it) {
      minute += it->second;
    }
    ASSERT_LE(minute, 1'000);
  }
  EXPECT_GT(admitted.size(), 500u);
}

TEST(Gauge, ASlotIsFreeOnlyWhenGivenBack) {
  auto meter = Make(Mechanics::kGauge, 2);
  Use(meter.get(), At(absl::ZeroDuration()), 1);
  Use(meter.get(), At(absl::ZeroDuration()), 1);
  EXPECT_FALSE(meter->Check(At(absl::Hours(1)), 1).fits);
  Use(meter.get(), At(absl::Hours(1)), -1);
  EXPECT_TRUE(meter->Check(At(absl::Hours(1)), 1).fits);
}

TEST(Ramp, RejectsAJumpAndLetsSteadyUseGrow) {
  LimitSpec spec;
  spec.mechanics = Mechanics::kRamp;
  spec.kind = LimitKind::kRequests;
  spec.limit = 60'000;  // 1,000 a second, of which 100 are free at first
  auto meter = MakeMeter(spec);
  const auto fill = [&](int64_t second) {
    int64_t admitted = 0;
    while (meter->Check(At(absl::Seconds(second)), 1).fits) {
      Use(meter.get(), At(absl::Seconds(second)), 1);
      ++admitted;
    }
    return admitted;
  };
  EXPECT_EQ(fill(0), 100);
  int64_t last = 0;
  for (int64_t second = 1; second <= 60; ++second) last = fill(second);
  EXPECT_EQ(last, 150);  // half as much again after a minute
  for (int64_t second = 61; second <= 600; ++second) last = fill(second);
  EXPECT_EQ(last, 1'000);  // and never above the limit
}

}  // namespace
}  // namespace headrace::simulator
