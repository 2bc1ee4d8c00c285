#include "common/base/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Histogram, IsAllZerosWhenEmpty) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.Quantile(0.5), 0);
}

TEST(Histogram, CountsNegativeValuesAsZero) {
  Histogram histogram;
  histogram.Record(-5);
  EXPECT_EQ(histogram.count(), 1);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.Quantile(1), 0);
}

TEST(Histogram, IgnoresAValueRecordedNoTimes) {
  Histogram histogram;
  histogram.Record(7, 0);
  histogram.Record(7, -1);
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(histogram.buckets().empty());
}

TEST(Histogram, HoldsTheLargestValueOfInt64) {
  Histogram histogram;
  histogram.Record(kMax);
  EXPECT_EQ(histogram.Quantile(0.5), kMax);
  EXPECT_EQ(Histogram::FromBuckets(histogram.buckets()).max(), kMax);
}

TEST(Histogram, ValuesBelow64AreExact) {
  Histogram histogram;
  for (int64_t value = 0; value < 64; ++value) histogram.Record(value);
  for (int64_t value = 0; value < 64; ++value) {
    EXPECT_EQ(histogram.Quantile(static_cast<double>(value + 1) / 64), value);
  }
  EXPECT_DOUBLE_EQ(histogram.mean(), 31.5);
}

TEST(Histogram, EveryBucketEndsWhereTheNextBegins) {
  for (int power = 6; power < 62; ++power) {
    const int64_t edge = int64_t{1} << power;
    Histogram below, above;
    below.Record(edge - 1);
    above.Record(edge);
    EXPECT_EQ(below.buckets().size() + 1, above.buckets().size()) << power;
    EXPECT_EQ(Histogram::FromBuckets(below.buckets()).max(), edge - 1) << power;
    EXPECT_EQ(Histogram::FromBuckets(above.buckets()).min(), edge) << power;
  }
}

TEST(Histogram, QuantilesAreAtMostOneBucketAboveTheTruth) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<int64_t>(std::exp2(random.Unit() * 40));
    values.push_back(value);
    histogram.Record(value);
  }
  std::sort(values.begin(), values.end());
  for (double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const double rank = std::ceil(q * static_cast<double>(values.size()));
    const auto index = static_cast<size_t>(std::max(1.0, rank)) - 1;
    const int64_t truth = values[index];
    EXPECT_GE(histogram.Quantile(q), truth) << q;
    EXPECT_LE(static_cast<double>(histogram.Quantile(q)), static_cast<double>(truth) * 1.016) << q;
  }
  EXPECT_EQ(histogram.Quantile(1), values.back());
  EXPECT_EQ(histogram.min(), values.front());
}

TEST(Histogram, AMergedOneIsTheOneThatSawEverything) {
  Histogram all, odd, even;
  for (int64_t value = 1; value < 5000; value += 7) {
    all.Record(value * value);
    (value % 2 == 0 ? even : odd).Record(value * value);
  }
  Histogram merged;
  merged.Merge(odd);
  merged.Merge(Histogram());
  merged.Merge(even);
  EXPECT_EQ(merged.buckets(), all.buckets());
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.min(), all.min());
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_DOUBLE_EQ(merged.mean(), all.mean());
}

TEST(Histogram, ComesBackFromItsBuckets) {
  Histogram histogram;
  histogram.Record(10, 3);
  histogram.Record(1000);
  const Histogram copy = Histogram::FromBuckets(histogram.buckets());
  EXPECT_EQ(copy.count(), 4);
  EXPECT_EQ(copy.buckets(), histogram.buckets());
  EXPECT_EQ(copy.min(), 10);
  EXPECT_EQ(copy.max(), 1007);  // 1000 is in [1000, 1008)
  EXPECT_EQ(copy.Quantile(0.5), 10);
}

TEST(Histogram, BucketsOfAPeerThatMakeNoSenseAreDropped) {
  std::vector<int64_t> buckets(100'000, 0);
  buckets[3] = -7;
  buckets[4] = 2;
  buckets[5] = kMax;
  buckets[99'999] = 9;
  const Histogram histogram = Histogram::FromBuckets(buckets);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.Quantile(1), 4);
  EXPECT_LE(histogram.buckets().size(), 4000u);
}

TEST(Histogram, ResetForgetsEverything) {
  Histogram histogram;
  histogram.Record(5);
  histogram.Reset();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.max(), 0);
  histogram.Record(9);
  EXPECT_EQ(histogram.min(), 9);
}

}  // namespace
}  // namespace headrace
