#include "simulator/tick_wheel.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/base/random.h"

namespace headrace::simulator {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(2);

// Notes when it fires, and fires `more` times again, `again` apart.
class Probe final : public WheelNode {
 public:
  void OnTick(MonoTime now) override {
    fired.push_back(now);
    if (more-- > 0) wheel->Add(this, now + again);
  }
  TickWheel* wheel = nullptr;
  int more = 0;
  absl::Duration again;
  std::vector<MonoTime> fired;
};

Task<void> SleepFor(Reactor* reactor, absl::Duration duration) {
  co_await Sleep(reactor, duration, StopToken());
}

TEST(TickWheel, FiresInTheFirstTickThatIsNotBeforeTheTime) {
  const uint64_t seed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  VirtualReactor reactor;
  TickWheel wheel(&reactor, kTick);
  Random random(seed);
  std::vector<Probe> probes(500);
  std::vector<MonoTime> due;
  for (Probe& probe : probes) {
    // Up to three rounds of the wheel.
    due.push_back(reactor.Now() + random.Between(absl::ZeroDuration(), absl::Seconds(6)));
    wheel.Add(&probe, due.back());
  }
  reactor.Run(SleepFor(&reactor, absl::Seconds(7)));
  for (size_t i = 0; i < probes.size(); ++i) {
    ASSERT_EQ(probes[i].fired.size(), 1u);
    EXPECT_GE(probes[i].fired[0], due[i]);
    EXPECT_LE(probes[i].fired[0] - due[i], kTick);
  }
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(TickWheel, ANodeThatAddsItselfAgainFiresInALaterTick) {
  VirtualReactor reactor;
  TickWheel wheel(&reactor, kTick);
  Probe probe;
  probe.wheel = &wheel;
  probe.more = 3;
  probe.again = absl::ZeroDuration();
  wheel.Add(&probe, reactor.Now());
  reactor.Run(SleepFor(&reactor, absl::Seconds(1)));
  ASSERT_EQ(probe.fired.size(), 4u);
  for (size_t i = 1; i < probe.fired.size(); ++i) EXPECT_GT(probe.fired[i], probe.fired[i - 1]);
}

TEST(TickWheel, ANodeThatLeftDoesNotFire) {
  VirtualReactor reactor;
  TickWheel wheel(&reactor, kTick);
  Probe stays;
  {
    Probe leaves;
    wheel.Add(&stays, reactor.Now() + absl::Milliseconds(10));
    wheel.Add(&leaves, reactor.Now() + absl::Milliseconds(10));
    EXPECT_EQ(wheel.size(), 2u);
  }
  EXPECT_EQ(wheel.size(), 1u);
  reactor.Run(SleepFor(&reactor, absl::Seconds(1)));
  EXPECT_EQ(stays.fired.size(), 1u);
}

TEST(TickWheel, AddingAgainMovesANode) {
  VirtualReactor reactor;
  TickWheel wheel(&reactor, kTick);
  Probe probe;
  const MonoTime late = reactor.Now() + absl::Milliseconds(500);
  wheel.Add(&probe, reactor.Now() + absl::Milliseconds(10));
  wheel.Add(&probe, late);
  reactor.Run(SleepFor(&reactor, absl::Seconds(1)));
  ASSERT_EQ(probe.fired.size(), 1u);
  EXPECT_GE(probe.fired[0], late);
}

}  // namespace
}  // namespace headrace::simulator
