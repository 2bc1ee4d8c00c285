#include "coordinator/store/identity.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RunIdentity WithJob(const std::string& yaml) {
  RunIdentity identity = TestIdentity();
  identity.job_yaml = yaml;
  return identity;
}

TEST(DescribeDifferences, EachChangedKeyIsNamedWithBothValues) {
  EXPECT_THAT(DescribeDifferences(WithJob("a: {x: 1, y: [p, q]}\nb: t\n"),
                                  WithJob("a: {x: 2, y: [p, r, s]}\nc: {}\n")),
              ElementsAre("a.x: 1 -> 2", "a.y[1]: q -> r", "b: t -> (none)", "a.y[2]: (none) -> s",
                          "c: (none) -> {}"));
}

TEST(DescribeDifferences, AnotherFormOfTheSameJobIsTheSame) {
  EXPECT_THAT(DescribeDifferences(WithJob("a: {x: 1, y: [p]}\nb: t\n"),
                                  WithJob("# a comment\nb: \"t\"\na:\n  y:\n    - p\n  x: 1\n")),
              IsEmpty());
}

TEST(DescribeDifferences, ABudgetMayBeRaisedAndADirectoryMoved) {
  EXPECT_THAT(DescribeDifferences(WithJob("max_cost: 1\noutput: {dir: a, csv: true}\n"),
                                  WithJob("max_cost: 2\noutput: {dir: /b, csv: false}\n")),
              ElementsAre("output.csv: true -> false"));
}

TEST(DescribeDifferences, LongValuesAndLongListsAreCut) {
  std::string many;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&many, "k", i, ": ", std::string(500, 'v'), "\n");
  const auto differences = DescribeDifferences(WithJob("{}"), WithJob(many));
  ASSERT_THAT(differences, SizeIs(kMaxDifferences + 1));
  EXPECT_EQ(differences.back(), "and 21 more");
  for (const std::string& difference : differences) EXPECT_LT(difference.size(), 120u);
}

TEST(DescribeDifferences, WhatIsNotYamlDiffersAsAWhole) {
  EXPECT_THAT(DescribeDifferences(WithJob("{a: [}"), WithJob("a: 1")), ElementsAre("the job file"));
  EXPECT_THAT(DescribeDifferences(WithJob("{a: [}"), WithJob("{a: [}")), IsEmpty());
}

}  // namespace
}  // namespace headrace
