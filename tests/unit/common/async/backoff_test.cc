#include "common/async/backoff.h"

#include "gtest/gtest.h"

namespace headrace {
namespace {

BackoffOptions WithoutJitter() {
  BackoffOptions options;
  options.jitter = absl::ZeroDuration();
  return options;
}

TEST(Backoff, DoublesUpToTheMaximum) {
  Random random(1);
  const BackoffOptions options = WithoutJitter();
  const int expected_ms[] = {500, 1000, 2000, 4000, 8000, 8000};
  for (int retry = 0; retry < 6; ++retry) {
    EXPECT_EQ(BackoffDelay(options, retry, std::nullopt, &random),
              absl::Milliseconds(expected_ms[retry]))
        << retry;
  }
}

TEST(Backoff, NeverOverflowsHoweverManyRetries) {
  Random random(1);
  EXPECT_EQ(BackoffDelay(WithoutJitter(), 1'000'000'000, std::nullopt, &random), absl::Seconds(8));
  EXPECT_EQ(BackoffDelay(WithoutJitter(), -1, std::nullopt, &random), absl::Milliseconds(500));
}

TEST(Backoff, TheServersHintIsAMinimumAndIsNotCapped) {
  Random random(1);
  EXPECT_EQ(BackoffDelay(WithoutJitter(), 0, absl::Seconds(60), &random), absl::Seconds(60));
  EXPECT_EQ(BackoffDelay(WithoutJitter(), 4, absl::Seconds(1), &random), absl::Seconds(8));
}

TEST(Backoff, JitterComesOnTopAlsoOfTheHint) {
  Random random(1);
  const BackoffOptions options;
  bool varies = false;
  for (int i = 0; i < 100; ++i) {
    const absl::Duration delay = BackoffDelay(options, 0, absl::Seconds(2), &random);
    EXPECT_GE(delay, absl::Seconds(2));
    EXPECT_LT(delay, absl::Milliseconds(2200));
    varies |= delay > absl::Milliseconds(2100);
  }
  EXPECT_TRUE(varies);
}

TEST(Backoff, ASeedRepeats) {
  Random a(7), b(7);
  for (int retry = 0; retry < 5; ++retry) {
    EXPECT_EQ(BackoffDelay({}, retry, std::nullopt, &a), BackoffDelay({}, retry, std::nullopt, &b));
  }
}

}  // namespace
}  // namespace headrace
