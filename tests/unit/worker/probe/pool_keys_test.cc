#include "worker/probe/pool_keys.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace::probe {
namespace {

using testing::HasSubstr;

// A limit of 9,000 by the headers, of which it is certain how it is counted.
LimitFindings Told(quota::Dimension dimension, Counting counting, double period_s) {
  LimitFindings limit;
  limit.dimension = dimension;
  limit.series.dimension = dimension;
  limit.series.limit = 9000;
  limit.fit.seen = limit.fit.moved = limit.fit.explained = true;
  limit.fit.best.counting = counting;
  limit.fit.best.period_s = period_s;
  limit.fit.best.top = 9000;
  const std::string name = period_s == kDayS ? "day" : period_s == kHourS ? "hour" : "minute";
  limit.fit.window = {{name, 0, limit.fit.best, 1}, {"continuous", 100, Theory{}, 2}};
  limit.fit.charge = {{"actuals", 0, limit.fit.best, 1}};
  return limit;
}

PoolKey FirstKey(const LimitFindings& limit) {
  Findings findings;
  findings.limits.push_back(limit);
  AddMeasuredKeys(&findings);
  return findings.pool.at(0);
}

TEST(PoolKeys, ALimitPerMinuteOrDayHasAKey) {
  PoolKey key = FirstKey(Told(quota::Dimension::kRequests, Counting::kFixed, kMinuteS));
  EXPECT_EQ(key.key, "requests_per_minute");
  EXPECT_EQ(key.value, "9000");
  EXPECT_TRUE(key.known);
  key = FirstKey(Told(quota::Dimension::kTokens, Counting::kFixed, kDayS));
  EXPECT_EQ(key.key, "tokens_per_day");
  EXPECT_TRUE(key.known);
}

TEST(PoolKeys, ALimitThatAPoolCannotSayIsACommentWithItsPartOfAMinute) {
  PoolKey key = FirstKey(Told(quota::Dimension::kRequests, Counting::kFixed, kHourS));
  EXPECT_EQ(key.key, "requests_per_minute");
  EXPECT_EQ(key.value, "150");
  EXPECT_FALSE(key.known);
  EXPECT_THAT(key.comment, HasSubstr("9,000 per hour"));
  key = FirstKey(Told(quota::Dimension::kInputTokens, Counting::kFixed, kDayS));
  EXPECT_EQ(key.key, "input_tokens_per_minute");
  EXPECT_EQ(key.value, "6");
  EXPECT_FALSE(key.known);
  EXPECT_THAT(key.comment, HasSubstr("9,000 per day"));
}

TEST(PoolKeys, AnUnknownLimitIsACommentThatAJobFileTakes) {
  LimitFindings limit = Told(quota::Dimension::kTokens, Counting::kFixed, kMinuteS);
  limit.series.limit.reset();
  limit.fit.best.top = 12'345;
  const PoolKey key = FirstKey(limit);
  EXPECT_EQ(key.value, "12345");
  EXPECT_FALSE(key.known);
}

}  // namespace
}  // namespace headrace::probe
