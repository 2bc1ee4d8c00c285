// Pools in Redis as workers use them: on a real reactor, against a real redis-server, in good and
// bad days.
#include "common/quota/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/async/wait.h"
#include "tests/integration/quota/redis_trial.h"

namespace headrace::quota {
namespace {

using redis::RedisServer;
using redis::RunOnReactor;
using ::testing::HasSubstr;

class RedisStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
  }
};

TEST_F(RedisStore, EightClientsShareARate) {
  RedisServer server;
  Trial trial{.server = &server, .spec = Requests(12'000)};
  RunOnReactor(&RunTrial, &trial);
  EXPECT_EQ(trial.sends.failed, 0);
  // 200 a second and a burst of 50; wake-ups are as late as this machine is busy.
  EXPECT_LE(MostWithin(trial.sends.at, absl::Seconds(2)), 400 + 50 + 100);
  EXPECT_GE(trial.sends.at.size(), 500u);
}

TEST_F(RedisStore, EightClientsShareSlotsAndFreedOnesAreUsedAtOnce) {
  RedisServer server;
  Trial trial{.server = &server, .spec = Slots(20), .seconds = 3, .hold = absl::Milliseconds(50)};
  RunOnReactor(&RunTrial, &trial);
  EXPECT_EQ(trial.sends.failed, 0);
  EXPECT_LE(trial.sends.most_in_flight, 20);
  EXPECT_GE(trial.sends.most_in_flight, 15);
  EXPECT_GE(trial.sends.at.size(), 200u);
}

TEST_F(RedisStore, ACallTakesAboutOneRoundTrip) {
  RedisServer server;
  Trial trial{.server = &server,
              .spec = Requests(600'000),
              .clients = 1,
              .streams = 50,
              .seconds = 3,
              .hold = absl::Milliseconds(100)};
  RunOnReactor(&RunTrial, &trial);
  ASSERT_GT(trial.sends.at.size(), 200u);
  EXPECT_LE(static_cast<double>(trial.stats.calls),
            1.2 * static_cast<double>(trial.sends.at.size()) + 5);
}

// What happens to Redis, one second into the trial.

Task<void> Restart(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Kill();
  server->Start();
}

Task<void> ForgetAll(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Admin({"FLUSHALL"});
}

Task<void> ForgetScripts(Reactor* reactor, RedisServer* server) {
  for (int i = 0; i < 4; ++i) {
    co_await Sleep(reactor, absl::Milliseconds(500), StopToken());
    server->Admin({"SCRIPT", "FLUSH"});
  }
}

Task<void> Stall(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Pause();
  co_await Sleep(reactor, absl::Seconds(2), StopToken());
  server->Resume();
}

Task<void> FullMemory(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Admin({"CONFIG", "SET", "maxmemory", "1"});
  co_await Sleep(reactor, absl::Milliseconds(500), StopToken());
  server->Admin({"CONFIG", "SET", "maxmemory", "0"});
}

Task<void> LongOutage(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Kill();
  co_await Sleep(reactor, absl::Seconds(3), StopToken());
  server->Start();
}

// 200 a second with 50 at once, whatever happens; wake-ups are as late as this machine is busy.
void ExpectWithinBounds(const Trial& trial) {
  EXPECT_EQ(trial.sends.failed, 0);
  EXPECT_LE(MostWithin(trial.sends.at, absl::Seconds(1)), 200 + 50 + 60);
}

TEST_F(RedisStore, ARestartThatLosesEverythingIsNoBurstAndTrafficGoesOn) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 5, .fault = &Restart};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  EXPECT_GE(SentBetween(trial, 3.5, 5), 150);
}

TEST_F(RedisStore, APoolThatIsFlushedIsNoBurstAndTrafficGoesOn) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 4, .fault = &ForgetAll};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  EXPECT_GE(SentBetween(trial, 2, 4), 200);
}

TEST_F(RedisStore, FlushedSlotsAreHeldByWhoHasThem) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server,
              .spec = Slots(20),
              .seconds = 4,
              .hold = absl::Milliseconds(600),
              .fault = &ForgetAll};
  RunOnReactor(&RunTrial, &trial);
  EXPECT_EQ(trial.sends.failed, 0);
  EXPECT_LE(trial.sends.most_in_flight, 20);
  EXPECT_GE(SentBetween(trial, 2, 4), 20);
}

TEST_F(RedisStore, ScriptsThatAreFlushedAreSentAgain) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 3, .fault = &ForgetScripts};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  EXPECT_GE(SentBetween(trial, 1, 3), 200);
  EXPECT_EQ(trial.stats.failed, 0);
}

TEST_F(RedisStore, AStallOfTwoSecondsIsSurvivedWithoutABurst) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 6, .fault = &Stall};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  EXPECT_GE(SentBetween(trial, 4.5, 6), 150);
}

TEST_F(RedisStore, FullMemoryAdmitsNothingThatIsNotCounted) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 4, .fault = &FullMemory};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  EXPECT_GE(SentBetween(trial, 2.5, 4), 150);
}

TEST_F(RedisStore, WithoutRedisWorkersGoOnWithASafeShareAndSaySo) {
  RedisServer server({"--save", ""});
  Trial trial{.server = &server, .spec = Requests(12'000), .seconds = 7, .fault = &LongOutage};
  RunOnReactor(&RunTrial, &trial);
  ExpectWithinBounds(trial);
  // From 2 s on each of eight has an eleventh and a bit: 0.8 / 9 of the limit.
  const int64_t alone = SentBetween(trial, 2.2, 4);
  EXPECT_GE(alone, 60);
  EXPECT_LE(alone, 0.8 * 200 * 1.8 * 8 / 9 + 8 + 20);
  EXPECT_GE(SentBetween(trial, 5.5, 7), 150);
  EXPECT_THAT(trial.notice, HasSubstr("is not reached for"));
  EXPECT_THAT(trial.notice, HasSubstr("running on a local share of 8% of the limits"));
}

TEST_F(RedisStore, AWorkerThatStartsDuringAnOutageSendsNothingUntilItHasHeardFromRedis) {
  RedisServer server({"--save", ""});
  server.Kill();
  Trial trial{.server = &server,
              .spec = Requests(12'000),
              .clients = 2,
              .seconds = 5,
              .fault = +[](Reactor* reactor, RedisServer* s) -> Task<void> {
                co_await Sleep(reactor, absl::Milliseconds(2'500), StopToken());
                s->Start();
              }};
  RunOnReactor(&RunTrial, &trial);
  EXPECT_EQ(trial.sends.failed, 0);
  EXPECT_EQ(SentBetween(trial, 0, 2.4), 0);
  EXPECT_GE(SentBetween(trial, 4, 5), 10);
  EXPECT_THAT(trial.notice, HasSubstr("sending nothing until it is"));
}

}  // namespace
}  // namespace headrace::quota
