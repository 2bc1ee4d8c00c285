#include "common/async/virtual_reactor.h"

#include <chrono>
#include <vector>

#include "common/async/scope.h"
#include "common/async/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

std::vector<int> OrderUnder(uint64_t seed, bool shuffle) {
  VirtualReactor reactor(seed, shuffle);
  std::vector<int> order;
  reactor.Run([](Reactor* r, std::vector<int>* out) -> Task<void> {
    auto child = [](Reactor* reactor_, int id, std::vector<int>* log) -> Task<void> {
      for (int i = 0; i < 3; ++i) {
        log->push_back(id);
        co_await Yield(reactor_);
      }
    };
    TaskScope scope(r, StopToken());
    for (int id = 0; id < 20; ++id) scope.Spawn(child(r, id, out));
    co_await scope.Join();
  }(&reactor, &order));
  return order;
}

TEST(VirtualReactor, JumpsOverTimeInWhichNothingHappens) {
  VirtualReactor reactor;
  const MonoTime start = reactor.Now();
  const absl::Time wall = reactor.WallNow();
  reactor.Run([](Reactor* r) -> Task<void> {
    co_await Sleep(r, absl::Hours(24 * 365), StopToken());
  }(&reactor));
  EXPECT_EQ(reactor.Now() - start, absl::Hours(24 * 365));
  EXPECT_EQ(reactor.WallNow() - wall, absl::Hours(24 * 365));
}

TEST(VirtualReactor, WithoutShuffleTheOrderIsThatOfBecomingReady) {
  const std::vector<int> order = OrderUnder(1, false);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i % 20));
}

TEST(VirtualReactor, ASeedRepeatsItsOrderAndAnotherGivesAnother) {
  EXPECT_EQ(OrderUnder(7, true), OrderUnder(7, true));
  EXPECT_NE(OrderUnder(7, true), OrderUnder(8, true));
  EXPECT_NE(OrderUnder(7, true), OrderUnder(7, false));
}

TEST(VirtualReactor, PostedFunctionsRunInOrderInALaterTurn) {
  VirtualReactor reactor;
  std::vector<int> log;
  reactor.Run([](VirtualReactor* r, std::vector<int>* out) -> Task<void> {
    r->Post([r, out] {
      out->push_back(1);
      r->Post([out] { out->push_back(3); });
    });
    r->Post([out] { out->push_back(2); });
    EXPECT_TRUE(out->empty());
    co_await Yield(r);
    EXPECT_THAT(*out, ElementsAre(1, 2));
    co_await Yield(r);
  }(&reactor, &log));
  EXPECT_THAT(log, ElementsAre(1, 2, 3));
}

TEST(VirtualReactor, TheStepHookSeesEveryResumption) {
  VirtualReactor reactor;
  std::vector<uint64_t> steps;
  reactor.set_step_hook([&steps](uint64_t step) { steps.push_back(step); });
  reactor.Run([](Reactor* r) -> Task<void> {
    co_await Yield(r);
    co_await Sleep(r, absl::Seconds(1), StopToken());
  }(&reactor));
  EXPECT_THAT(steps, ElementsAre(0, 1, 2));
  EXPECT_EQ(reactor.steps(), 3u);
}

struct Hook : EndOfTurn {
  void OnEndOfTurn() override { ++calls; }
  int calls = 0;
};

TEST(VirtualReactor, AHookAskedForTwiceInATurnIsCalledOnceAtItsEnd) {
  VirtualReactor reactor;
  Hook hook;
  reactor.Run([](Reactor* r, Hook* h) -> Task<void> {
    r->RequestEndOfTurn(h);
    r->RequestEndOfTurn(h);
    EXPECT_EQ(h->calls, 0);
    co_await Yield(r);
    EXPECT_EQ(h->calls, 1);
    co_await Yield(r);
    EXPECT_EQ(h->calls, 1);
  }(&reactor, &hook));
}

TEST(VirtualReactor, AHookThatDiesBeforeTheEndOfItsTurnIsNotCalled) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    {
      Hook hook;
      r->RequestEndOfTurn(&hook);
    }
    co_await Yield(r);
  }(&reactor));
}

TEST(VirtualReactorDeathTest, WaitingForWhatCanNeverComeIsABug) {
  EXPECT_DEATH(
      {
        VirtualReactor reactor;
        Event event(&reactor);
        reactor.Run([](Event* e) -> Task<void> { co_await e->Wait(StopToken()); }(&event));
      },
      "can never come");
}

}  // namespace
}  // namespace headrace
