#include "common/quota/flight_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/quota/flight_meter.h"
#include "common/quota/knee_window.h"

namespace headrace::quota {
namespace {

MonoTime At(double seconds) { return MonoTime::FromNanos(static_cast<int64_t>(seconds * 1e9)); }

TEST(FlightSample, IsTheSameAfterItWasNumbers) {
  FlightSample sample;
  sample.span_us = 1'000'000;
  sample.AddAnswer(3, absl::Seconds(2), 100);
  sample.AddAnswer(3, absl::Seconds(1), 50);
  sample.AddFailure(absl::Milliseconds(20), /*is_refused=*/true);
  const std::vector<int64_t> numbers = sample.ToNumbers();
  EXPECT_EQ(FlightSample::FromNumbers(numbers).ToNumbers(), numbers);
  EXPECT_LT(numbers.size(), FlightSample::kNumbers) << "zeros at the end are left out";
  EXPECT_EQ(sample.answered, 2);
  EXPECT_EQ(sample.refused, 1);
  EXPECT_EQ(sample.answered_us, 3'000'000);
  EXPECT_EQ(sample.ended_us, 3'020'000);
}

TEST(FlightSample, NumbersFromElsewhereCannotBeNegativeOrTooMany) {
  std::vector<int64_t> numbers(FlightSample::kNumbers + 10, -5);
  numbers[0] = std::numeric_limits<int64_t>::max();
  FlightSample sample = FlightSample::FromNumbers(numbers);
  EXPECT_EQ(sample.in_flight_us, 0);
  EXPECT_GT(sample.span_us, 0);
  sample += sample;
  EXPECT_GT(sample.span_us, 0) << "sums do not overflow";
  EXPECT_TRUE(FlightSample::FromNumbers({}).ToNumbers().empty());
}

TEST(FlightSample, SamplesOfTwoWorkersAddUp) {
  FlightSample one;
  one.AddAnswer(0, absl::Seconds(1), 10);
  FlightSample two;
  two.AddAnswer(0, absl::Seconds(4), 40);
  FlightSample both;
  both.AddAnswer(0, absl::Seconds(1), 10);
  both.AddAnswer(0, absl::Seconds(4), 40);
  one += two;
  EXPECT_EQ(one.ToNumbers(), both.ToNumbers());
}

TEST(FlightMeter, CountsTimeInFlightAndTimeThatWaitedForASlot) {
  FlightMeter meter(At(10));
  meter.Begin(At(11), false);
  meter.Begin(At(12), true);
  meter.End(At(14), true,
            {.kind = FlightEnd::Kind::kAnswered, .in_flight = absl::Seconds(3), .tokens = 7});
  const FlightSample sample = meter.Take(At(15), false);
  EXPECT_EQ(sample.span_us, 5'000'000);
  EXPECT_EQ(sample.in_flight_us, 1'000'000 + 2 * 2'000'000 + 1'000'000);
  EXPECT_EQ(sample.starved_us, 3'000'000);
  EXPECT_EQ(sample.answered, 1);
  EXPECT_TRUE(meter.Take(At(15), false).ToNumbers().empty());
}

TEST(FlightMeter, ACallThatWeCancelledSaysNothing) {
  FlightMeter meter(At(0));
  meter.Begin(At(0), false);
  meter.End(At(1), false, {.kind = FlightEnd::Kind::kCancelled, .in_flight = absl::Seconds(1)});
  const FlightSample sample = meter.Take(At(1), false);
  EXPECT_EQ(sample.answered + sample.failed + sample.refused, 0);
  EXPECT_EQ(sample.in_flight_us, 1'000'000);
}

KneeWindow Window(double in_flight, double seconds_per_call, int64_t tokens, int calls) {
  FlightSample sample;
  for (int i = 0; i < calls; ++i) {
    // A call of twice the tokens takes twice as long.
    const double factor = i % 2 == 0 ? 1 : 2;
    const double jitter = 1 + 0.05 * (i % 3 - 1);
    sample.AddAnswer(0, absl::Seconds(seconds_per_call * factor * jitter),
                     static_cast<int64_t>(static_cast<double>(tokens) * factor));
  }
  KneeWindow window;
  window.Add(sample, in_flight, 10'000'000);
  return window;
}

TEST(KneeWindow, LongerAnswersAreNoLongerWait) {
  KneeGain gain;
  ASSERT_TRUE(Compare(Window(10, 1, 100, 300), Window(20, 2, 200, 300), &gain));
  EXPECT_NEAR(gain.latency, 0, 0.02);
  EXPECT_NEAR(gain.elasticity(), 1, 0.05);
}

TEST(KneeWindow, TwiceTheTimeForTheSameAnswersIsNoGain) {
  KneeGain gain;
  ASSERT_TRUE(Compare(Window(10, 1, 100, 300), Window(20, 2, 100, 300), &gain));
  EXPECT_NEAR(gain.latency, std::log(2), 0.02);
  EXPECT_NEAR(gain.elasticity(), 0, 0.05);
  EXPECT_LT(gain.elasticity_error(), 0.05);
}

TEST(KneeWindow, CallsThatFailAreNoGain) {
  KneeWindow after = Window(20, 1, 100, 300);
  FlightSample lost;
  lost.AddFailure(absl::Microseconds(after.sum.answered_us), /*is_refused=*/false);
  after.sum += lost;
  KneeGain gain;
  ASSERT_TRUE(Compare(Window(10, 1, 100, 300), after, &gain));
  EXPECT_NEAR(gain.elasticity(), 0, 0.05) << "half of what is in flight is lost";
}

TEST(KneeWindow, NothingInCommonSaysNothing) {
  KneeGain gain;
  EXPECT_FALSE(Compare(KneeWindow(), Window(20, 1, 100, 300), &gain));
  EXPECT_FALSE(Compare(Window(20, 1, 100, 3), Window(20, 1, 100, 300), &gain));
}

}  // namespace
}  // namespace headrace::quota
