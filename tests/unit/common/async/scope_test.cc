#include "common/async/scope.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/async/virtual_reactor.h"
#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

// Writes its name when a child's frame, with its parameters, is gone.
struct FrameMark {
  FrameMark(std::vector<std::string>* l, std::string n) : log(l), name(std::move(n)) {}
  FrameMark(FrameMark&& other) noexcept
      : log(std::exchange(other.log, nullptr)), name(std::move(other.name)) {}
  ~FrameMark() {
    if (log != nullptr) log->push_back(name);
  }
  std::vector<std::string>* log;
  std::string name;
};

Task<void> SleepThenCount(Reactor* reactor, absl::Duration duration, StopToken stop, int* finished,
                          int* stopped) {
  const bool whole = co_await Sleep(reactor, duration, stop);
  ++*(whole ? finished : stopped);
}

Task<void> HoldFrame(Reactor* reactor, FrameMark mark) { co_await Yield(reactor); }

TEST(TaskScope, RefusesToSpawnAfterAStopAndDropsTheChildUnstarted) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    std::vector<std::string> log;
    scope.RequestStop({StopCode::kPolicy, "too many failures"});
    const bool spawned = scope.Spawn(HoldFrame(r, FrameMark(&log, "dropped")));
    EXPECT_FALSE(spawned);
    EXPECT_THAT(log, ElementsAre("dropped"));
    EXPECT_EQ(scope.live(), 0u);
    co_await scope.Join();
  }(&reactor));
}

TEST(TaskScope, RefusesToSpawnOnceJoined) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    co_await scope.Join();
    int finished = 0, stopped = 0;
    EXPECT_FALSE(
        scope.Spawn(SleepThenCount(r, absl::Seconds(1), scope.token(), &finished, &stopped)));
  }(&reactor));
}

TEST(TaskScope, UnderAStoppedParentItIsStoppedFromTheStart) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    StopSource parent;
    parent.RequestStop(StopCode::kShutdown);
    TaskScope scope(r, parent.token());
    EXPECT_TRUE(scope.stopped());
    EXPECT_EQ(scope.reason().code, StopCode::kShutdown);
    co_await scope.Join();
  }(&reactor));
}

TEST(TaskScope, JoinWaitsForTheLastChild) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    const MonoTime start = r->Now();
    int finished = 0, stopped = 0;
    for (int seconds : {3, 1, 2}) {
      scope.Spawn(SleepThenCount(r, absl::Seconds(seconds), scope.token(), &finished, &stopped));
    }
    EXPECT_EQ(scope.live(), 3u);
    co_await scope.Join();
    EXPECT_EQ(finished, 3);
    EXPECT_EQ(scope.live(), 0u);
    EXPECT_EQ(r->Now() - start, absl::Seconds(3));
  }(&reactor));
}

TEST(TaskScope, AStopEndsEverySleepAtOnceAndTheFirstReasonIsKept) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    const MonoTime start = r->Now();
    int finished = 0, stopped = 0;
    for (int i = 0; i < 100; ++i) {
      scope.Spawn(SleepThenCount(r, absl::Hours(1), scope.token(), &finished, &stopped));
    }
    co_await Yield(r);
    scope.RequestStop({StopCode::kLeaseLost, "first"});
    scope.RequestStop({StopCode::kDeadline, "second"});
    co_await scope.Join();
    EXPECT_EQ(stopped, 100);
    EXPECT_EQ(r->Now(), start);
    EXPECT_EQ(scope.reason().code, StopCode::kLeaseLost);
    EXPECT_EQ(scope.reason().text, "first");
  }(&reactor));
}

TEST(TaskScope, AStoppedScopeLeavesItsParentAndSiblingsAlone) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    StopSource parent;
    TaskScope left(r, parent.token());
    TaskScope right(r, parent.token());
    int finished = 0, stopped = 0;
    left.Spawn(SleepThenCount(r, absl::Seconds(5), left.token(), &finished, &stopped));
    right.Spawn(SleepThenCount(r, absl::Seconds(5), right.token(), &finished, &stopped));
    co_await Yield(r);
    left.RequestStop({StopCode::kPolicy, ""});
    EXPECT_FALSE(parent.stopped());
    co_await left.Join();
    co_await right.Join();
    EXPECT_EQ(stopped, 1);
    EXPECT_EQ(finished, 1);
  }(&reactor));
}

TEST(TaskScope, EveryFrameIsGoneBeforeLiveIsZero) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    std::vector<std::string> log;
    scope.Spawn(HoldFrame(r, FrameMark(&log, "a")));
    scope.Spawn(HoldFrame(r, FrameMark(&log, "b")));
    while (scope.live() != 0) co_await Yield(r);
    EXPECT_THAT(log, ElementsAre("a", "b"));
    co_await scope.Join();
  }(&reactor));
}

TEST(TaskScope, AChildMaySpawnSiblingsUntilTheScopeIsJoined) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    int finished = 0, stopped = 0;
    bool late = true;
    auto spawner = [](Reactor* reactor_, TaskScope* s, int* f, int* st, bool* l) -> Task<void> {
      EXPECT_TRUE(s->Spawn(SleepThenCount(reactor_, absl::Seconds(1), s->token(), f, st)));
      co_await Sleep(reactor_, absl::Seconds(2), s->token());
      *l = s->Spawn(SleepThenCount(reactor_, absl::Seconds(1), s->token(), f, st));
    };
    scope.Spawn(spawner(r, &scope, &finished, &stopped, &late));
    co_await Sleep(r, absl::Seconds(1), StopToken());
    co_await scope.Join();
    EXPECT_EQ(finished, 1);
    EXPECT_FALSE(late);
  }(&reactor));
}

TEST(TaskScope, WaitIdleKeepsTheScopeOpen) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    int finished = 0, stopped = 0;
    for (int round = 1; round <= 3; ++round) {
      EXPECT_TRUE(
          scope.Spawn(SleepThenCount(r, absl::Seconds(1), scope.token(), &finished, &stopped)));
      co_await scope.WaitIdle();
      EXPECT_EQ(finished, round);
    }
    co_await scope.Join();
  }(&reactor));
}

struct StopAtResult {
  int spawned = 0;
  int refused = 0;
  int finished = 0;
  int stopped = 0;
  uint64_t steps = 0;
  size_t timers = 0;
  size_t ready = 0;
};

Task<void> SpawnFiveOverTime(Reactor* reactor, StopToken stop, StopAtResult* result) {
  TaskScope scope(reactor, stop);
  for (int i = 0; i < 5; ++i) {
    const bool spawned = scope.Spawn(SleepThenCount(reactor, absl::Seconds(i % 3), scope.token(),
                                                    &result->finished, &result->stopped));
    ++*(spawned ? &result->spawned : &result->refused);
    co_await Sleep(reactor, absl::Milliseconds(700), stop);
  }
  co_await scope.Join();
}

StopAtResult RunWithStopAt(uint64_t stop_at) {
  VirtualReactor reactor(/*seed=*/5, /*shuffle=*/true);
  StopSource outside;
  StopAtResult result;
  reactor.set_step_hook([&outside, stop_at](uint64_t step) {
    if (step == stop_at) outside.RequestStop(StopCode::kUser);
  });
  reactor.Run(SpawnFiveOverTime(&reactor, outside.token(), &result));
  result.steps = reactor.steps();
  result.timers = reactor.timer_count();
  result.ready = reactor.ready_count();
  return result;
}

TEST(TaskScope, AStopAtEveryStepLosesNoChildAndLeavesNoTimer) {
  const StopAtResult whole = RunWithStopAt(UINT64_MAX);
  EXPECT_EQ(whole.finished, 5);
  EXPECT_GT(whole.steps, 10u);
  for (uint64_t stop_at = 0; stop_at < whole.steps; ++stop_at) {
    SCOPED_TRACE(stop_at);
    const StopAtResult result = RunWithStopAt(stop_at);
    EXPECT_EQ(result.spawned + result.refused, 5);
    EXPECT_EQ(result.finished + result.stopped, result.spawned);
    EXPECT_EQ(result.timers, 0u);
    EXPECT_EQ(result.ready, 0u);
  }
}

TEST(TaskScope, TensOfThousandsOfChildrenEndInOneScope) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    TaskScope scope(r, StopToken());
    int finished = 0, stopped = 0;
    for (int i = 0; i < 30'000; ++i) {
      scope.Spawn(
          SleepThenCount(r, absl::Milliseconds(i % 977), scope.token(), &finished, &stopped));
    }
    co_await scope.Join();
    EXPECT_EQ(finished, 30'000);
  }(&reactor));
}

Task<void> Throws() {
  throw std::runtime_error("a bug in a child");
  co_return;
}

TEST(TaskScopeDeathTest, AChildThatThrowsAbortsWithWhatItThrew) {
  EXPECT_DEATH(
      {
        VirtualReactor reactor;
        reactor.Run([](Reactor* r) -> Task<void> {
          TaskScope scope(r, StopToken());
          scope.Spawn(Throws());
          co_await scope.Join();
        }(&reactor));
      },
      "a child of a scope threw: a bug in a child");
}

TEST(TaskScopeDeathTest, DestroyingAScopeWithLiveChildrenAborts) {
  EXPECT_DEATH(
      {
        VirtualReactor reactor;
        reactor.Run([](Reactor* r) -> Task<void> {
          static int finished, stopped;
          TaskScope scope(r, StopToken());
          scope.Spawn(SleepThenCount(r, absl::Seconds(1), StopToken(), &finished, &stopped));
          co_return;
        }(&reactor));
      },
      "1 children outlive their scope");
}

}  // namespace
}  // namespace headrace
