#include "common/async/wait.h"

#include <memory>
#include <string>
#include <vector>

#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

// --- Sleep ---

TEST(Sleep, OnAStoppedTokenFailsAtOnceEveryTime) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    StopSource source;
    source.RequestStop(StopCode::kUser);
    const MonoTime start = r->Now();
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(co_await Sleep(r, absl::Seconds(1), source.token()));
    EXPECT_EQ(r->Now(), start);
  }(&reactor));
}

TEST(Sleep, TakesItsTimeAndNoMore) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    const MonoTime start = r->Now();
    EXPECT_TRUE(co_await Sleep(r, absl::Seconds(90), StopToken()));
    EXPECT_EQ(r->Now() - start, absl::Seconds(90));
    EXPECT_TRUE(co_await Sleep(r, -absl::Seconds(1), StopToken()));
    EXPECT_EQ(r->Now() - start, absl::Seconds(90));
  }(&reactor));
}

TEST(Sleep, WithoutEndWaitsForItsStop) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    DeadlineSource deadline(r, r->Now() + absl::Hours(1), StopToken());
    const MonoTime start = r->Now();
    EXPECT_FALSE(co_await Sleep(r, absl::InfiniteDuration(), deadline.token()));
    EXPECT_EQ(r->Now() - start, absl::Hours(1));
  }(&reactor));
}

// A stop and the end of the sleep at one time: the one that was armed first fires first, and wins.
TEST(Sleep, OfAStopAndAnEndInOneTurnTheFirstWins) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    const MonoTime when = r->Now() + absl::Seconds(1);
    {
      DeadlineSource first(r, when, StopToken());
      EXPECT_FALSE(co_await Sleep(r, when, first.token()));
    }
    const MonoTime later = r->Now() + absl::Seconds(1);
    auto sleeper = [](Reactor* reactor_, MonoTime until, StopToken stop,
                      bool* whole) -> Task<void> {
      *whole = co_await Sleep(reactor_, until, stop);
    };
    StopSource source;
    bool whole = false;
    TaskScope scope(r, StopToken());
    scope.Spawn(sleeper(r, later, source.token(), &whole));
    co_await Yield(r);  // the sleep's timer is armed before ours
    co_await Yield(r);
    co_await Sleep(r, later, StopToken());
    source.RequestStop(StopCode::kUser);
    co_await scope.Join();
    EXPECT_TRUE(whole);
  }(&reactor));
}

// --- Event ---

Task<void> AwaitEvent(Event* event, StopToken stop, std::vector<std::string>* log,
                      std::string name) {
  const bool set = co_await event->Wait(stop);
  log->push_back(name + (set ? " set" : " stopped"));
}

TEST(Event, OneSetBeforeTheWaitIsNotLost) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Event event(r);
    event.Set();
    EXPECT_TRUE(co_await event.Wait(StopToken()));
    event.Reset();
    StopSource source;
    source.RequestStop(StopCode::kUser);
    EXPECT_FALSE(co_await event.Wait(source.token()));
  }(&reactor));
}

TEST(Event, WakesAllWhoWaitInTheirOrder) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Event event(r);
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    for (const char* name : {"a", "b", "c"}) {
      scope.Spawn(AwaitEvent(&event, scope.token(), &log, name));
    }
    co_await Yield(r);
    event.Set();
    event.Reset();
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("a set", "b set", "c set"));
  }(&reactor));
}

TEST(Event, AStoppedWaiterLeavesTheOthersWaiting) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Event event(r);
    StopSource only_b;
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    scope.Spawn(AwaitEvent(&event, scope.token(), &log, "a"));
    scope.Spawn(AwaitEvent(&event, only_b.token(), &log, "b"));
    co_await Yield(r);
    only_b.RequestStop(StopCode::kUser);
    co_await Yield(r);
    EXPECT_THAT(log, ElementsAre("b stopped"));
    event.Set();
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("b stopped", "a set"));
  }(&reactor));
}

// --- Semaphore ---

Task<void> Take(Semaphore* semaphore, int64_t permits, StopToken stop,
                std::vector<std::string>* log, std::string name) {
  const bool taken = co_await semaphore->Acquire(stop, permits);
  log->push_back(name + (taken ? "" : " gave up"));
}

TEST(Semaphore, OnAStoppedTokenTakesNothing) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 1);
    StopSource source;
    source.RequestStop(StopCode::kUser);
    EXPECT_FALSE(co_await semaphore.Acquire(source.token()));
    EXPECT_EQ(semaphore.in_use(), 0);
  }(&reactor));
}

TEST(Semaphore, GrantsInTheOrderOfAsking) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 1);
    EXPECT_TRUE(co_await semaphore.Acquire(StopToken()));
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    for (const char* name : {"a", "b", "c"}) {
      scope.Spawn(Take(&semaphore, 1, scope.token(), &log, name));
    }
    co_await Yield(r);
    EXPECT_EQ(semaphore.waiting(), 3u);
    EXPECT_FALSE(semaphore.TryAcquire());
    for (int i = 0; i < 3; ++i) {
      semaphore.Release();
      // Nobody overtakes one who was granted but has not run yet.
      EXPECT_FALSE(semaphore.TryAcquire());
      co_await Yield(r);
    }
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("a", "b", "c"));
    EXPECT_EQ(semaphore.in_use(), 1);
    semaphore.Release();
  }(&reactor));
}

TEST(Semaphore, ALargeRequestIsNotStarvedBySmallOnes) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 10);
    EXPECT_TRUE(co_await semaphore.Acquire(StopToken(), 5));
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    scope.Spawn(Take(&semaphore, 10, scope.token(), &log, "large"));
    scope.Spawn(Take(&semaphore, 1, scope.token(), &log, "small"));
    co_await Yield(r);
    EXPECT_FALSE(semaphore.TryAcquire(1)) << "five are free, but a larger request came first";
    co_await Yield(r);
    EXPECT_TRUE(log.empty());
    semaphore.Release(5);
    co_await Yield(r);
    EXPECT_THAT(log, ElementsAre("large"));
    semaphore.Release(10);
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("large", "small"));
    semaphore.Release(1);
  }(&reactor));
}

TEST(Semaphore, OneThatGivesUpUnblocksTheNext) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 10);
    EXPECT_TRUE(co_await semaphore.Acquire(StopToken(), 5));
    StopSource impatient;
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    scope.Spawn(Take(&semaphore, 10, impatient.token(), &log, "large"));
    scope.Spawn(Take(&semaphore, 1, scope.token(), &log, "small"));
    co_await Yield(r);
    impatient.RequestStop(StopCode::kTimeout);
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("large gave up", "small"));
    EXPECT_EQ(semaphore.in_use(), 6);
    EXPECT_EQ(semaphore.waiting(), 0u);
    semaphore.Release(6);
  }(&reactor));
}

TEST(Semaphore, APermitGrantedBeforeTheStopIsKept) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 1);
    EXPECT_TRUE(semaphore.TryAcquire());
    StopSource source;
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    scope.Spawn(Take(&semaphore, 1, source.token(), &log, "a"));
    co_await Yield(r);
    semaphore.Release();
    source.RequestStop(StopCode::kUser);
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("a"));
    EXPECT_EQ(semaphore.in_use(), 1);
    semaphore.Release();
  }(&reactor));
}

TEST(Semaphore, ALowerCapacityWaitsForReleasesAndAHigherGrantsAtOnce) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Semaphore semaphore(r, 2);
    EXPECT_TRUE(semaphore.TryAcquire(2));
    semaphore.SetCapacity(1);
    semaphore.Release();
    EXPECT_FALSE(semaphore.TryAcquire());
    std::vector<std::string> log;
    TaskScope scope(r, StopToken());
    scope.Spawn(Take(&semaphore, 2, scope.token(), &log, "two"));
    co_await Yield(r);
    semaphore.SetCapacity(3);
    co_await scope.Join();
    EXPECT_THAT(log, ElementsAre("two"));
    EXPECT_EQ(semaphore.in_use(), 3);
    semaphore.Release(3);
  }(&reactor));
}

TEST(Semaphore, NeverGrantsMoreThanItsCapacityWhateverStops) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  VirtualReactor reactor(seed, /*shuffle=*/true);
  reactor.Run([](Reactor* r, uint64_t s) -> Task<void> {
    auto worker = [](Reactor* reactor_, Semaphore* semaphore, Random* random,
                     int* granted) -> Task<void> {
      const int64_t permits = random->Between(1, 7);
      DeadlineSource patience(
          reactor_,
          reactor_->Now() + random->Between(absl::Milliseconds(1), absl::Milliseconds(400)),
          StopToken());
      if (!co_await semaphore->Acquire(patience.token(), permits)) co_return;
      ++*granted;
      EXPECT_LE(semaphore->in_use(), 7);
      co_await Sleep(reactor_, random->Between(absl::ZeroDuration(), absl::Milliseconds(10)),
                     StopToken());
      semaphore->Release(permits);
    };
    Random random(s);
    Semaphore semaphore(r, 7);
    TaskScope scope(r, StopToken());
    int granted = 0;
    for (int i = 0; i < 500; ++i) scope.Spawn(worker(r, &semaphore, &random, &granted));
    co_await scope.Join();
    EXPECT_EQ(semaphore.in_use(), 0);
    EXPECT_EQ(semaphore.waiting(), 0u);
    EXPECT_GT(granted, 20);
    EXPECT_LT(granted, 500);
  }(&reactor, seed));
}

TEST(SemaphoreDeathTest, ReleasingWhatWasNotTakenIsABug) {
  VirtualReactor reactor;
  Semaphore semaphore(&reactor, 1);
  EXPECT_DEATH(semaphore.Release(), "more permits were released");
}

// --- DeadlineSource ---

TEST(DeadlineSource, StopsAtItsTimeWithItsCode) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    const MonoTime start = r->Now();
    DeadlineSource deadline(r, start + absl::Seconds(5), StopToken(), StopCode::kTimeout);
    EXPECT_FALSE(co_await Sleep(r, absl::Hours(1), deadline.token()));
    EXPECT_EQ(r->Now() - start, absl::Seconds(5));
    EXPECT_EQ(deadline.token().reason().code, StopCode::kTimeout);
  }(&reactor));
}

TEST(DeadlineSource, TheParentsReasonWinsWhenItComesFirst) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    StopSource parent;
    DeadlineSource deadline(r, r->Now() + absl::Seconds(5), parent.token());
    parent.RequestStop(StopCode::kDrain);
    EXPECT_TRUE(deadline.token().stopped());
    co_await Sleep(r, absl::Seconds(10), StopToken());
    EXPECT_EQ(deadline.token().reason().code, StopCode::kDrain);
    EXPECT_TRUE(parent.stopped());
  }(&reactor));
}

TEST(DeadlineSource, DyingBeforeItsTimeDisarmsIt) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    {
      DeadlineSource deadline(r, r->Now() + absl::Seconds(5), StopToken());
    }
    EXPECT_EQ(r->timer_count(), 0u);
    DeadlineSource never(r, MonoTime::Max(), StopToken());
    EXPECT_EQ(r->timer_count(), 0u);
    co_return;
  }(&reactor));
}

}  // namespace
}  // namespace headrace
