// The timer heap of the reactor.
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

struct TestTimer {
  explicit TestTimer(Reactor* r) : reactor(r) {}
  ~TestTimer() { reactor->Cancel(&timer); }
  void Arm(MonoTime when) {
    reactor->Arm(&timer, when, [](void* self) { static_cast<TestTimer*>(self)->Fire(); }, this);
  }
  void Fire() {
    EXPECT_FALSE(timer.armed());
    fired->emplace_back(reactor->Now(), id);
    if (cancels != nullptr) reactor->Cancel(&cancels->timer);
    if (rearms-- > 0) Arm(reactor->Now());
  }

  Reactor* const reactor;
  int id = 0;
  std::vector<std::pair<MonoTime, int>>* fired = nullptr;
  TestTimer* cancels = nullptr;
  int rearms = 0;
  Timer timer;
};

class TimerTest : public ::testing::Test {
 protected:
  TestTimer* Make() {
    timers_.push_back(std::make_unique<TestTimer>(&reactor_));
    timers_.back()->id = static_cast<int>(timers_.size()) - 1;
    timers_.back()->fired = &fired_;
    return timers_.back().get();
  }
  void RunUntil(MonoTime until) {
    reactor_.Run([](Reactor* r, MonoTime t) -> Task<void> { co_await Sleep(r, t, StopToken()); }(
                                                &reactor_, until));
  }
  std::vector<int> Ids() const {
    std::vector<int> ids;
    for (const auto& [when, id] : fired_) ids.push_back(id);
    return ids;
  }

  VirtualReactor reactor_;
  const MonoTime start_ = reactor_.Now();
  std::vector<std::pair<MonoTime, int>> fired_;
  std::vector<std::unique_ptr<TestTimer>> timers_;
};

TEST_F(TimerTest, EqualTimesFireInTheOrderOfArming) {
  for (int i = 0; i < 5; ++i) Make();
  for (int i : {3, 0, 4, 1, 2}) timers_[i]->Arm(start_ + absl::Seconds(1));
  RunUntil(start_ + absl::Seconds(2));
  EXPECT_THAT(Ids(), ElementsAre(3, 0, 4, 1, 2));
}

TEST_F(TimerTest, OneCancelledByAnotherOfTheSameTimeDoesNotFire) {
  TestTimer* first = Make();
  TestTimer* second = Make();
  first->cancels = second;
  first->Arm(start_ + absl::Seconds(1));
  second->Arm(start_ + absl::Seconds(1));
  RunUntil(start_ + absl::Seconds(2));
  EXPECT_THAT(Ids(), ElementsAre(0));
}

TEST_F(TimerTest, OneThatReArmsItselfInThePastDoesNotStarveTheLoop) {
  TestTimer* greedy = Make();
  greedy->rearms = 1'000'000'000;
  greedy->Arm(start_);
  reactor_.Run([](Reactor* r) -> Task<void> { co_await Yield(r); }(&reactor_));
  EXPECT_LT(fired_.size(), 10u);
}

TEST_F(TimerTest, MovingAnArmedTimerForgetsItsOldTime) {
  TestTimer* timer = Make();
  timer->Arm(start_ + absl::Seconds(1));
  timer->Arm(start_ + absl::Seconds(3));
  RunUntil(start_ + absl::Seconds(2));
  EXPECT_TRUE(fired_.empty());
  timer->Arm(start_ + absl::Milliseconds(2500));
  RunUntil(start_ + absl::Seconds(4));
  EXPECT_THAT(fired_, ElementsAre(std::pair(start_ + absl::Milliseconds(2500), 0)));
}

TEST_F(TimerTest, ATimeOfMaxNeverFiresAndDisarms) {
  TestTimer* timer = Make();
  timer->Arm(MonoTime::Max());
  EXPECT_FALSE(timer->timer.armed());
  timer->Arm(start_ + absl::Seconds(1));
  timer->Arm(MonoTime::Max());
  EXPECT_EQ(reactor_.timer_count(), 0u);
}

// Against a multimap of what is armed, which fires by (time, order of arming).
TEST_F(TimerTest, TheHeapDoesWhatANaiveModelDoes) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 60; ++i) Make();
  std::map<std::pair<MonoTime, uint64_t>, int> model;
  std::vector<std::pair<MonoTime, uint64_t>> armed_as(60);
  std::vector<std::pair<MonoTime, int>> expected;
  uint64_t sequence = 0;
  for (int round = 0; round < 300; ++round) {
    for (int change = 0; change < 20; ++change) {
      const auto i = static_cast<size_t>(random.Below(60));
      model.erase(armed_as[i]);
      if (random.Chance(0.3)) {
        reactor_.Cancel(&timers_[i]->timer);
        continue;
      }
      armed_as[i] = {reactor_.Now() + absl::Milliseconds(random.Between(0, 20)), ++sequence};
      model[armed_as[i]] = static_cast<int>(i);
      timers_[i]->Arm(armed_as[i].first);
    }
    ASSERT_EQ(reactor_.timer_count(), model.size());
    // One more than the model's times, so that the sleep's own timer is never among equals.
    const MonoTime until =
        reactor_.Now() + absl::Milliseconds(random.Between(0, 8)) + absl::Nanoseconds(1);
    RunUntil(until);
    while (!model.empty() && model.begin()->first.first <= until) {
      expected.emplace_back(model.begin()->first.first, model.begin()->second);
      model.erase(model.begin());
    }
    // Virtual time stops at each timer, but those armed in the past fire "now".
    ASSERT_EQ(Ids().size(), expected.size()) << "round " << round;
    for (size_t k = 0; k < expected.size(); ++k) {
      ASSERT_EQ(fired_[k].second, expected[k].second) << "round " << round << ", firing " << k;
      ASSERT_GE(fired_[k].first, expected[k].first);
    }
    expected.clear();
    fired_.clear();
  }
}

TEST(TimerDeathTest, DestroyingAnArmedTimerIsABug) {
  EXPECT_DEATH(
      {
        VirtualReactor reactor;
        Timer timer;
        reactor.Arm(&timer, reactor.Now(), [](void*) {}, nullptr);
      },
      "destroyed while armed");
}

}  // namespace
}  // namespace headrace
