#include "coordinator/plan/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "common/base/random.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Verdict = JobState::Verdict;

std::vector<uint64_t> Rows(const std::vector<RowIndex>& rows) {
  std::vector<uint64_t> values;
  for (RowIndex row : rows) values.push_back(row.value());
  return values;
}

TEST(JobState, RowsAreTakenInOrderAndOnce) {
  JobState state(5, 1, 2);
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 3)), ElementsAre(3, 4));
  EXPECT_THAT(state.Take(ModelIndex(0), 3), IsEmpty());
  EXPECT_FALSE(state.has_untaken(ModelIndex(0)));
}

TEST(JobState, RowsAreTakenInTheGivenOrderInEachPass) {
  JobState state(4, 1, 2, RowOrder({2, 0, 3, 1}));
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 3)), ElementsAre(2, 0, 3));
  EXPECT_TRUE(state.taken(ItemId(3)));
  EXPECT_FALSE(state.taken(ItemId(1)));
  state.Return(ItemId(3));
  state.Return(ItemId(2));
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 2)), ElementsAre(2, 3)) << "what came back is first";
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 9)), ElementsAre(1));
  for (uint64_t row : {0, 1, 2, 3}) {
    EXPECT_EQ(state.Resolve(ItemId(row), ErrorClass::kServerError), Verdict::kDeferred);
  }
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 9)), ElementsAre(2, 0, 3, 1));
  EXPECT_EQ(state.pass(ModelIndex(0)), 2u);
}

TEST(JobState, AnAdoptedItemIsNotTakenAgainInAnotherOrder) {
  JobState state(4, 1, 1, RowOrder({3, 1, 0, 2}));
  EXPECT_TRUE(state.Adopt(ItemId(1)));
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 9)), ElementsAre(3, 0, 2));
  EXPECT_FALSE(state.Adopt(ItemId(3)));
}

TEST(JobState, FirstOkWinsAndALaterOneIsSuperseded) {
  JobState state(1, 1, 2);
  state.Take(ModelIndex(0), 1);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kNone), Verdict::kOk);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kNone), Verdict::kSuperseded);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kServerError), Verdict::kSuperseded);
  EXPECT_EQ(state.ok(), 1);
  EXPECT_EQ(state.superseded(), 2);
  EXPECT_TRUE(state.done());
}

TEST(JobState, ARetriableFailureIsRunAgainInTheNextPassAndThenIsFinal) {
  JobState state(2, 1, 2);
  state.Take(ModelIndex(0), 2);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kServerError), Verdict::kDeferred);
  EXPECT_THAT(state.Take(ModelIndex(0), 2), IsEmpty()) << "item 1 is still under way";
  EXPECT_EQ(state.Resolve(ItemId(1), ErrorClass::kNone), Verdict::kOk);
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 2)), ElementsAre(0));
  EXPECT_EQ(state.pass(ModelIndex(0)), 2u);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kServerError), Verdict::kFailed);
  EXPECT_EQ(state.failures(ErrorClass::kServerError), 1);
  EXPECT_TRUE(state.done());
}

TEST(JobState, AFinalClassGetsNoSecondPass) {
  JobState state(1, 1, 5);
  state.Take(ModelIndex(0), 1);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kBadRequest), Verdict::kFailed);
}

TEST(JobState, OneModelsTailDoesNotHoldUpAnothersNextPass) {
  JobState state(2, 2, 2);
  state.Take(ModelIndex(0), 2);
  state.Take(ModelIndex(1), 2);
  state.Resolve(ItemId(0), ErrorClass::kTimeout);  // row 0, model 0
  state.Resolve(ItemId(2), ErrorClass::kNone);     // row 1, model 0
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 2)), ElementsAre(0));
  EXPECT_EQ(state.pass(ModelIndex(1)), 1u);
}

TEST(JobState, AResumedJobTakesOnlyWhatHasNoOutcome) {
  JobState state(4, 1, 2);
  state.RestoreOutcome(ItemId(0), ErrorClass::kNone);
  state.RestoreOutcome(ItemId(1), ErrorClass::kRefusal);
  state.RestoreDeferred(ItemId(2), 1);
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 9)), ElementsAre(3));
  state.Resolve(ItemId(3), ErrorClass::kNone);
  EXPECT_THAT(Rows(state.Take(ModelIndex(0), 9)), ElementsAre(2));
  EXPECT_EQ(state.Resolve(ItemId(2), ErrorClass::kNone), Verdict::kOk);
  EXPECT_TRUE(state.done());
}

TEST(JobState, AnOkLineWinsOverAnErrorLineOfTheSameItem) {
  JobState state(1, 1, 1);
  state.RestoreOutcome(ItemId(0), ErrorClass::kTimeout);
  state.RestoreOutcome(ItemId(0), ErrorClass::kNone);
  EXPECT_EQ(state.ok(), 1);
  EXPECT_EQ(state.failed(), 0);
}

TEST(JobState, ASnapshotOfAnotherShapeIsRefused) {
  JobState small(2, 1, 1);
  JobState large(3, 1, 1);
  EXPECT_EQ(large.Restore(small.Snapshot()).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(large.Restore("").code(), absl::StatusCode::kDataLoss);
}

// A naive model: every item's fate in maps, checked after each random event.
TEST(JobState, AgreesWithANaiveModelUnderRandomEvents) {
  const uint64_t seed = 20261129;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = random.Between(1, 20);
    const int64_t models = random.Between(1, 3);
    const int passes = static_cast<int>(random.Between(1, 4));
    JobState state(rows, models, passes);
    std::map<uint64_t, int> failed_passes;  // of open items
    std::set<uint64_t> ok;
    std::set<uint64_t> failed;
    std::vector<uint64_t> taken;
    for (int guard = 0; !state.done(); ++guard) {
      ASSERT_LT(guard, 10'000) << "the job does not end";
      const ModelIndex model(static_cast<uint32_t>(random.Below(static_cast<uint64_t>(models))));
      for (RowIndex row : state.Take(model, random.Below(5))) {
        const uint64_t item = state.item(row, model).value();
        ASSERT_EQ(ok.count(item) + failed.count(item), 0u);
        ASSERT_EQ(std::count(taken.begin(), taken.end(), item), 0);
        taken.push_back(item);
      }
      if (taken.empty()) continue;
      const size_t pick = random.Below(taken.size());
      const uint64_t item = taken[pick];
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(pick));
      const ErrorClass classes[] = {ErrorClass::kNone, ErrorClass::kServerError,
                                    ErrorClass::kBadRequest};
      const ErrorClass error_class = classes[random.Below(3)];
      const Verdict verdict = state.Resolve(ItemId(item), error_class);
      if (error_class == ErrorClass::kNone) {
        ASSERT_EQ(verdict, Verdict::kOk);
        ok.insert(item);
      } else if (error_class == ErrorClass::kServerError && ++failed_passes[item] < passes) {
        ASSERT_EQ(verdict, Verdict::kDeferred);
      } else {
        ASSERT_EQ(verdict, Verdict::kFailed);
        failed.insert(item);
      }
      ASSERT_EQ(state.ok(), static_cast<int64_t>(ok.size()));
      ASSERT_EQ(state.failed(), static_cast<int64_t>(failed.size()));
    }
    JobState copy(rows, models, passes);
    ASSERT_TRUE(copy.Restore(state.Snapshot()).ok());
    ASSERT_EQ(copy.Snapshot(), state.Snapshot());
    ASSERT_EQ(copy.ok(), state.ok());
    ASSERT_TRUE(copy.done());
  }
}

TEST(JobState, ALateResultOfAnItemThatIsNotTakenLeavesTheCountAlone) {
  JobState state(4, 1, 1);
  EXPECT_EQ(state.Resolve(ItemId(3), ErrorClass::kNone), Verdict::kOk);
  EXPECT_EQ(state.outstanding(ModelIndex(0)), 0);
  EXPECT_EQ(state.Take(ModelIndex(0), 10).size(), 3u);
  EXPECT_EQ(state.outstanding(ModelIndex(0)), 3);
}

TEST(JobState, AnAdoptedItemIsNotTakenAgainAndComesBackWhenItIsReturned) {
  JobState state(4, 1, 2);
  EXPECT_TRUE(state.Adopt(ItemId(1)));
  EXPECT_FALSE(state.Adopt(ItemId(1)));
  EXPECT_EQ(state.Take(ModelIndex(0), 10).size(), 3u);
  EXPECT_EQ(state.outstanding(ModelIndex(0)), 4);
  state.Return(ItemId(1));
  EXPECT_EQ(state.outstanding(ModelIndex(0)), 3);
  EXPECT_TRUE(state.has_untaken(ModelIndex(0)));
  EXPECT_THAT(state.Take(ModelIndex(0), 10), testing::ElementsAre(RowIndex(1)));
  EXPECT_EQ(state.Resolve(ItemId(1), ErrorClass::kNone), Verdict::kOk);
  EXPECT_EQ(state.outstanding(ModelIndex(0)), 3);
}

TEST(JobState, APassDoesNotEndWhileAWorkerHoldsAnAdoptedItemOfIt) {
  JobState state(2, 1, 2);
  EXPECT_TRUE(state.Adopt(ItemId(0)));
  EXPECT_EQ(state.Take(ModelIndex(0), 10).size(), 1u);
  EXPECT_EQ(state.Resolve(ItemId(1), ErrorClass::kServerError), Verdict::kDeferred);
  EXPECT_TRUE(state.Take(ModelIndex(0), 10).empty());
  EXPECT_EQ(state.pass(ModelIndex(0)), 1u);
  EXPECT_EQ(state.Resolve(ItemId(0), ErrorClass::kNone), Verdict::kOk);
  EXPECT_THAT(state.Take(ModelIndex(0), 10), testing::ElementsAre(RowIndex(1)));
  EXPECT_EQ(state.pass(ModelIndex(0)), 2u);
}

}  // namespace
}  // namespace headrace
