#include "common/quota/observations.h"

#include <gtest/gtest.h>

#include <vector>

namespace headrace::quota {
namespace {

MonoTime At(double seconds) { return MonoTime::FromNanos(static_cast<int64_t>(seconds * 1e9)); }

Observation Used(int64_t used, int64_t expected) {
  Observation observation;
  observation.dimension = Dimension::kTokens;
  observation.used = used;
  observation.expected = expected;
  return observation;
}

TEST(Observations, AreToldOnceASecondAndByTheirMedian) {
  Observations observations;
  int told = 0;
  for (int i = 0; i < 100; ++i) {
    // One answer in ten is out of order and says anything.
    const int64_t used = i % 10 == 3 ? 1'000'000 : 5'000 + i % 5;
    const std::optional<Observation> said = observations.Add(At(10 + i * 0.05), Used(used, 1'000));
    if (!said) continue;
    ++told;
    EXPECT_NEAR(static_cast<double>(*said->used), 5'002, 3);
  }
  EXPECT_EQ(told, 4);
}

TEST(Observations, FewSamplesWaitLongerThanMany) {
  Observations observations;
  EXPECT_FALSE(observations.Add(At(10), Used(5, 1)));
  EXPECT_FALSE(observations.Add(At(11.5), Used(5, 1)));
  EXPECT_TRUE(observations.Add(At(12), Used(5, 1)));
}

TEST(Observations, AChangedLimitIsToldAtOnceAndOnlyOnce) {
  Observations observations;
  Observation observation = Used(5, 1);
  observation.limit = 1'000;
  const std::optional<Observation> told = observations.Add(At(1), observation);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->limit, 1'000);
  EXPECT_FALSE(told->used);
  EXPECT_FALSE(observations.Add(At(1.1), observation));
  observation.limit = 500;
  EXPECT_TRUE(observations.Add(At(1.2), observation));
}

TEST(Observations, TheFiguresOfA429AreToldAtOnce) {
  Observations observations;
  Observation observation = Used(47'949, 100);
  observation.exact = true;
  const std::optional<Observation> told = observations.Add(At(1), observation);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->used, 47'949);
}

TEST(Observe, ReadsTheLevelAndTheWindow) {
  const Costs reserved = {1, 300, 200, 100, 1, 0, 0};
  const Costs expected = {3, 900, 0, 0, 0, 0, 0};
  LimitWords words{Dimension::kTokens, 200'000, 199'100, absl::Milliseconds(270)};
  std::optional<Observation> said = Observe(words, reserved, expected, At(5), true);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->dimension, Dimension::kTokens);
  EXPECT_EQ(said->used, 900);
  EXPECT_EQ(said->expected, 900);
  EXPECT_EQ(Observe(words, reserved, expected, At(5), false)->expected, 600);
  words.limit.reset();
  EXPECT_FALSE(Observe(words, reserved, expected, At(5), true));
}

TEST(Observe, WordsAboutADayAreNotTakenForAMinute) {
  // quota.md 1.4: 1.5M tokens a day with 43,244 left resets in 23h18m29s; Groq says 2m59.56s for 30
  // of 14,400 requests a day.
  const Costs none{};
  LimitWords words{Dimension::kTokens, 1'500'000, 43'244,
                   absl::Hours(23) + absl::Minutes(18) + absl::Seconds(29)};
  EXPECT_EQ(Observe(words, none, none, At(5), true)->dimension, Dimension::kTokensPerDay);
  words = {Dimension::kRequests, 14'400, 14'370, absl::Seconds(179.56)};
  EXPECT_EQ(Observe(words, none, none, At(5), true)->dimension, Dimension::kRequestsPerDay);
  // A minute of which little is used, and one that is used up.
  words = {Dimension::kRequests, 1'000, 999, absl::Seconds(59)};
  EXPECT_EQ(Observe(words, none, none, At(5), true)->dimension, Dimension::kRequests);
  words = {Dimension::kTokens, 200'000, 0, absl::Seconds(60)};
  EXPECT_EQ(Observe(words, none, none, At(5), true)->dimension, Dimension::kTokens);
}

TEST(ThrottleFigures, AreReadFromTheMessageOfA429) {
  const std::optional<ThrottleFigures> figures = ReadThrottleFigures(
      "Rate limit reached for x on tokens per min (TPM): Limit 50000, Used 47949, Requested 3006. "
      "Please try again in 1.146s.");
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->limit, 50'000);
  EXPECT_EQ(figures->used, 47'949);
  EXPECT_EQ(figures->requested, 3'006);
  // Without "Used" it is a request that never fits, not a level.
  EXPECT_FALSE(ReadThrottleFigures("Request too large: Limit 30000, Requested 34307."));
  EXPECT_FALSE(ReadThrottleFigures("Limit 999999999999999999, Used 1, Requested 2"));
  EXPECT_FALSE(ReadThrottleFigures("Limit , Used , Requested "));
  EXPECT_FALSE(ReadThrottleFigures(""));
}

}  // namespace
}  // namespace headrace::quota
