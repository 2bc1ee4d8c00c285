#include "common/async/stop.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

// A callback that writes a name, and then does what the test wants.
struct Recorder {
  Recorder(std::vector<std::string>* l, std::string n) : log(l), name(std::move(n)) {}

  void ArmOn(StopToken token) {
    callback.Arm(
        token,
        [](void* self) {
          auto* recorder = static_cast<Recorder*>(self);
          recorder->log->push_back(recorder->name);
          if (recorder->to_disarm != nullptr) recorder->to_disarm->callback.Disarm();
          recorder->to_destroy.reset();
        },
        this);
  }

  std::vector<std::string>* const log;
  const std::string name;
  Recorder* to_disarm = nullptr;
  std::unique_ptr<Recorder> to_destroy;
  StopCallback callback;
};

TEST(StopToken, ADefaultOneNeverStops) {
  const StopToken token;
  EXPECT_FALSE(token.stopped());
  EXPECT_EQ(token.reason().code, StopCode::kNone);
}

TEST(StopSource, TheFirstReasonIsKept) {
  StopSource source;
  source.RequestStop({StopCode::kDeadline, "batch 7"});
  source.RequestStop(StopCode::kUser);
  EXPECT_EQ(source.reason().code, StopCode::kDeadline);
  EXPECT_EQ(source.token().reason().text, "batch 7");
}

TEST(StopSource, IsLevelTriggered) {
  std::vector<std::string> log;
  StopSource source;
  const StopToken token = source.token();
  source.RequestStop(StopCode::kUser);
  EXPECT_TRUE(token.stopped());
  Recorder late(&log, "late"), later(&log, "later");
  late.ArmOn(token);
  later.ArmOn(token);
  EXPECT_THAT(log, ElementsAre("late", "later"));
}

TEST(StopCallback, RunsOnceInTheOrderOfArming) {
  std::vector<std::string> log;
  StopSource source;
  Recorder a(&log, "a"), b(&log, "b");
  b.ArmOn(source.token());
  a.ArmOn(source.token());
  source.RequestStop(StopCode::kUser);
  source.RequestStop(StopCode::kUser);
  EXPECT_THAT(log, ElementsAre("b", "a"));
}

TEST(StopCallback, DoesNotRunAfterDisarmOrDestruction) {
  std::vector<std::string> log;
  StopSource source;
  Recorder disarmed(&log, "disarmed");
  disarmed.ArmOn(source.token());
  disarmed.callback.Disarm();
  {
    Recorder destroyed(&log, "destroyed");
    destroyed.ArmOn(source.token());
  }
  source.RequestStop(StopCode::kUser);
  EXPECT_TRUE(log.empty());
}

TEST(StopCallback, OneMayDisarmOrDestroyOthersWhileTheStopRuns) {
  std::vector<std::string> log;
  StopSource source;
  Recorder first(&log, "first"), disarmed(&log, "disarmed"), last(&log, "last");
  first.ArmOn(source.token());
  disarmed.ArmOn(source.token());
  first.to_destroy = std::make_unique<Recorder>(&log, "destroyed");
  first.to_destroy->ArmOn(source.token());
  last.ArmOn(source.token());
  first.to_disarm = &disarmed;
  source.RequestStop(StopCode::kUser);
  EXPECT_THAT(log, ElementsAre("first", "last"));
}

TEST(StopCallback, ArmingAgainLeavesTheOldToken) {
  std::vector<std::string> log;
  StopSource before, after;
  Recorder recorder(&log, "x");
  recorder.ArmOn(before.token());
  recorder.ArmOn(after.token());
  before.RequestStop(StopCode::kUser);
  EXPECT_TRUE(log.empty());
  after.RequestStop(StopCode::kUser);
  EXPECT_THAT(log, ElementsAre("x"));
}

TEST(StopSource, AStopFlowsDownTheWholeChainWithItsReason) {
  StopSource root;
  StopSource middle(root.token());
  StopSource leaf(middle.token());
  root.RequestStop({StopCode::kShutdown, "SIGTERM"});
  EXPECT_EQ(leaf.reason().code, StopCode::kShutdown);
  EXPECT_EQ(leaf.reason().text, "SIGTERM");
}

TEST(StopSource, AStopNeverFlowsUpOrSideways) {
  StopSource root;
  StopSource left(root.token());
  StopSource right(root.token());
  left.RequestStop(StopCode::kPolicy);
  EXPECT_FALSE(root.stopped());
  EXPECT_FALSE(right.stopped());
  root.RequestStop(StopCode::kShutdown);
  EXPECT_EQ(left.reason().code, StopCode::kPolicy);
  EXPECT_EQ(right.reason().code, StopCode::kShutdown);
}

TEST(StopSource, AChildOfAStoppedParentIsStoppedFromTheStart) {
  StopSource root;
  root.RequestStop(StopCode::kDrain);
  const StopSource child(root.token());
  EXPECT_EQ(child.reason().code, StopCode::kDrain);
}

TEST(StopSource, AChildMayDieBeforeItsParentStops) {
  StopSource root;
  {
    StopSource child(root.token());
  }
  root.RequestStop(StopCode::kUser);
  EXPECT_TRUE(root.stopped());
}

TEST(StopCode, EveryCodeHasItsOwnName) {
  std::vector<absl::string_view> names;
  for (int code = 0; code <= static_cast<int>(StopCode::kOwnerDone); ++code) {
    const absl::string_view name = StopCodeName(static_cast<StopCode>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << name;
    names.push_back(name);
  }
}

TEST(StopSourceDeathTest, DyingBeforeThoseWhoWaitOnItIsABug) {
  EXPECT_DEATH(
      {
        std::vector<std::string> log;
        Recorder recorder(&log, "x");
        StopSource source;
        recorder.ArmOn(source.token());
      },
      "died before those who wait");
}

}  // namespace
}  // namespace headrace
