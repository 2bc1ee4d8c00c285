#include "common/base/random.h"

#include <array>
#include <limits>
#include <set>

#include "gtest/gtest.h"

namespace headrace {
namespace {

// Computed once by the authors' C code (prng.di.unimi.it: splitmix64.c, xoshiro256starstar.c).
TEST(Random, IsXoshiro256StarStarSeededBySplitMix64) {
  Random random(0);
  EXPECT_EQ(random(), 0x99ec5f36cb75f2b4u);
  EXPECT_EQ(random(), 0xbf6e1f784956452au);
  EXPECT_EQ(random(), 0x1a5f849d4933e6e0u);
}

TEST(Random, ASeedRepeatsAndAnotherDiffers) {
  Random a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a();
    EXPECT_EQ(value, b());
    differs |= value != c();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  Random random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7000; ++i) ++seen.at(random.Below(7));
  for (int count : seen) EXPECT_NEAR(count, 1000, 200);
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(Random, BetweenIncludesBothEndsAndTheWholeRange) {
  Random random(2);
  std::set<int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.Between(-1, 1));
  EXPECT_EQ(seen, (std::set<int64_t>{-1, 0, 1}));
  EXPECT_EQ(random.Between(5, 5), 5);
  bool negative = false, positive = false;
  for (int i = 0; i < 100; ++i) {
    const int64_t value =
        random.Between(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    negative |= value < 0;
    positive |= value > 0;
  }
  EXPECT_TRUE(negative && positive);
}

TEST(Random, UnitIsBelowOneAndEven) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.Unit();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(Random, ChanceOfZeroNeverAndOfOneAlways) {
  Random random(4);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(random.Chance(0));
    EXPECT_TRUE(random.Chance(1));
  }
}

TEST(Random, DurationsStayInTheirRange) {
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration value = random.Between(absl::Milliseconds(10), absl::Milliseconds(20));
    ASSERT_GE(value, absl::Milliseconds(10));
    ASSERT_LT(value, absl::Milliseconds(20));
  }
  EXPECT_EQ(random.Between(absl::Seconds(1), absl::Seconds(1)), absl::Seconds(1));
}

TEST(Random, SeedsOfTheSystemDiffer) { EXPECT_NE(RandomSeed(), RandomSeed()); }

TEST(RandomDeathTest, NothingIsBelowZero) {
  EXPECT_DEATH(Random(1).Below(0), "bound > 0");
  EXPECT_DEATH(Random(1).Between(2, 1), "low <= high");
}

}  // namespace
}  // namespace headrace
