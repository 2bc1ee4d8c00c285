// Pools in Redis as workers use them: on a real reactor, against a real redis-server, in good and
// bad days.
#include "common/quota/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/quota/redis_start.h"
#include "tests/integration/quota/redis_trial.h"

namespace headrace::quota {
namespace {

using redis::RedisServer;
using redis::RunOnReactor;
using ::testing::HasSubstr;

using Fault = Task<void> (*)(Reactor* reactor, RedisServer* server);

// Eight clients that share 200 requests a second and 50 at once in a server that writes nothing to
// disk, unless a test says otherwise.
class RedisStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
    server_ = std::make_unique<RedisServer>(std::vector<std::string>{"--save", ""});
    trial_.server = server_.get();
    trial_.spec = Requests(12'000);
  }

  void Run(double seconds, Fault fault = nullptr) {
    trial_.seconds = seconds;
    trial_.fault = fault;
    RunOnReactor(&RunTrial, &trial_);
    EXPECT_EQ(trial_.sends.failed, 0);
  }
  // Whatever happened. A busy machine wakes calls late, and one that is half a second late still
  // goes: together with those of its time.
  void ExpectNoBurst() { EXPECT_LE(MostWithin(trial_.sends.at, absl::Seconds(1)), 200 + 100 + 50); }
  int64_t Sent(double from, double to) { return SentBetween(trial_, from, to); }

  std::unique_ptr<RedisServer> server_;
  Trial trial_;
};

TEST_F(RedisStore, EightClientsShareARate) {
  Run(4);
  EXPECT_LE(MostWithin(trial_.sends.at, absl::Seconds(2)), 400 + 50 + 100);
  EXPECT_GE(trial_.sends.at.size(), 500u);
}

TEST_F(RedisStore, EightClientsShareSlotsAndFreedOnesAreUsedAtOnce) {
  trial_.spec = Slots(20);
  trial_.hold = absl::Milliseconds(50);
  Run(3);
  EXPECT_LE(trial_.sends.most_in_flight, 20);
  EXPECT_GE(trial_.sends.most_in_flight, 15);
  EXPECT_GE(trial_.sends.at.size(), 200u);
}

TEST_F(RedisStore, ACallTakesAtMostOneRoundTrip) {
  trial_.spec = Requests(600'000);
  trial_.clients = 1;
  trial_.streams = 50;
  trial_.hold = absl::Milliseconds(100);
  Run(3);
  ASSERT_GT(trial_.sends.at.size(), 200u);
  EXPECT_LE(static_cast<double>(trial_.stats.calls),
            1.0 * static_cast<double>(trial_.sends.at.size()) + 10);
}

// Settlements wait for the next question or the next beat, so that they need none of their own.
TEST_F(RedisStore, ABackloggedWorkerAsksFarLessThanOncePerCall) {
  trial_.clients = 1;
  trial_.streams = 800;  // more than the horizon takes
  Run(4);
  EXPECT_GE(trial_.sends.at.size(), 500u);
  EXPECT_LE(static_cast<double>(trial_.stats.calls),
            0.5 * static_cast<double>(trial_.sends.at.size()));
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

// The Sentinels notice, and promote the replica.
Task<void> Die(Reactor* reactor, RedisServer* server) {
  co_await Sleep(reactor, absl::Seconds(1), StopToken());
  server->Kill();
}

TEST_F(RedisStore, ARestartThatLosesEverythingIsNoBurstAndTrafficGoesOn) {
  Run(5, &Restart);
  ExpectNoBurst();
  EXPECT_GE(Sent(3.5, 5), 150);
}

TEST_F(RedisStore, AReplicaThatTakesOverIsFollowedWithoutABurst) {
  RedisServer replica({"--save", "", "--replicaof", "127.0.0.1", absl::StrCat(server_->port()),
                       "--repl-diskless-sync-delay", "0"});
  replica.AwaitAdmin({"INFO", "replication"}, "master_link_status:up");
  RedisServer sentinel({"--sentinel"}, redis::SentinelConfig(*server_, "pools"));
  sentinel.AwaitAdmin({"SENTINEL", "replicas", "pools"}, absl::StrCat(replica.port()));
  trial_.url = absl::StrCat("redis+sentinel://", sentinel.host_port(), "/pools");
  Run(9, &Die);
  ExpectNoBurst();
  EXPECT_GE(Sent(7.5, 9), 150);
  EXPECT_THAT(replica.Admin({"INFO", "replication"}).text, HasSubstr("role:master"));
}

TEST_F(RedisStore, APoolThatIsFlushedIsNoBurstAndTrafficGoesOn) {
  Run(4, &ForgetAll);
  ExpectNoBurst();
  EXPECT_GE(Sent(2, 4), 200);
}

TEST_F(RedisStore, FlushedSlotsAreHeldByWhoHasThem) {
  trial_.spec = Slots(20);
  trial_.hold = absl::Milliseconds(600);
  Run(4, &ForgetAll);
  EXPECT_LE(trial_.sends.most_in_flight, 20);
  EXPECT_GE(Sent(2, 4), 20);
}

TEST_F(RedisStore, ScriptsThatAreFlushedAreSentAgain) {
  Run(3, &ForgetScripts);
  ExpectNoBurst();
  EXPECT_GE(Sent(1, 3), 200);
  EXPECT_EQ(trial_.stats.failed, 0);
}

TEST_F(RedisStore, AStallOfTwoSecondsIsSurvivedWithoutABurst) {
  Run(6, &Stall);
  ExpectNoBurst();
  EXPECT_GE(Sent(4.5, 6), 150);
}

TEST_F(RedisStore, FullMemoryAdmitsNothingThatIsNotCounted) {
  Run(4, &FullMemory);
  ExpectNoBurst();
  EXPECT_GE(Sent(2.5, 4), 150);
}

TEST_F(RedisStore, WithoutRedisWorkersGoOnWithASafeShareAndSaySo) {
  Run(7, &LongOutage);
  ExpectNoBurst();
  // From 2 s on each of eight has an eleventh and a bit: 0.8 / 9 of the limit.
  const int64_t alone = Sent(2.2, 4);
  EXPECT_GE(alone, 60);
  EXPECT_LE(alone, 0.8 * 200 * 1.8 * 8 / 9 + 8 + 20);
  EXPECT_GE(Sent(5.5, 7), 150);
  EXPECT_THAT(trial_.notice, HasSubstr("is not reached for"));
  EXPECT_THAT(trial_.notice, HasSubstr("running on a local share of 8% of the limits"));
}

TEST_F(RedisStore, AWorkerThatStartsDuringAnOutageSendsNothingUntilItHasHeardFromRedis) {
  server_->Kill();
  trial_.clients = 2;
  Run(
      5, +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        co_await Sleep(reactor, absl::Milliseconds(2'500), StopToken());
        s->Start();
      });
  EXPECT_EQ(Sent(0, 2.4), 0);
  EXPECT_GE(Sent(4, 5), 10);
  EXPECT_THAT(trial_.notice, HasSubstr("sending nothing until it is"));
}

// F10: a key that is made inside the script works with one server and fails in a cluster.
TEST_F(RedisStore, AClusterKeepsAPoolAsOneServerDoes) {
  RedisServer node({"--save", "", "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                    "--cluster-port", absl::StrCat(redis::FreePort())});
  node.Admin({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  node.AwaitAdmin({"CLUSTER", "INFO"}, "cluster_state:ok");
  trial_.server = &node;
  trial_.url = absl::StrCat("redis+cluster://", node.host_port());
  Run(3);
  ExpectNoBurst();
  EXPECT_GE(trial_.sends.at.size(), 300u);
  EXPECT_EQ(trial_.stats.failed, 0);
}

// F11: an evicted pool begins empty, so nothing is exceeded, but it would happen again and again.
TEST_F(RedisStore, AServerThatMayEvictAPoolIsWarnedOfAtTheStart) {
  RedisStart start = CheckRedis(server_->url(), absl::Seconds(5));
  EXPECT_TRUE(start.status.ok()) << start.status;
  EXPECT_EQ(start.warning, "");
  server_->Admin({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  EXPECT_EQ(CheckRedis(server_->url(), absl::Seconds(5)).warning, "");  // without a limit: never
  server_->Admin({"CONFIG", "SET", "maxmemory", "100mb"});
  start = CheckRedis(server_->url(), absl::Seconds(5));
  EXPECT_TRUE(start.status.ok()) << start.status;
  EXPECT_THAT(start.warning, HasSubstr("maxmemory-policy is allkeys-lru"));
  EXPECT_THAT(start.warning, HasSubstr("set it to noeviction"));
}

}  // namespace
}  // namespace headrace::quota
