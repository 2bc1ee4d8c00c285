#include "common/base/time.h"

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(MonoTime, AddingToNoDeadlineGivesNoDeadline) {
  EXPECT_EQ(MonoTime::Max() + absl::Seconds(1), MonoTime::Max());
  EXPECT_EQ(MonoTime::Max() - absl::Seconds(1), MonoTime::Max());
}

TEST(MonoTime, AnInfiniteDurationGivesNoDeadline) {
  EXPECT_EQ(MonoTime() + absl::InfiniteDuration(), MonoTime::Max());
  EXPECT_EQ(MonoTime::FromNanos(5) + absl::InfiniteDuration(), MonoTime::Max());
}

TEST(MonoTime, ASumPastTheEndIsNoDeadline) {
  const MonoTime late = MonoTime::FromNanos(MonoTime::Max().nanos() - 5);
  EXPECT_EQ(late + absl::Nanoseconds(6), MonoTime::Max());
  EXPECT_EQ((late + absl::Nanoseconds(4)).nanos(), MonoTime::Max().nanos() - 1);
}

TEST(MonoTime, DifferencesAndSumsAgree) {
  const MonoTime t = MonoTime::FromNanos(1'000);
  EXPECT_EQ((t + absl::Microseconds(2)) - t, absl::Microseconds(2));
  EXPECT_EQ((t - absl::Nanoseconds(400)).nanos(), 600);
  EXPECT_EQ(t - (t + absl::Seconds(1)), -absl::Seconds(1));
  EXPECT_LT(t, t + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace headrace
