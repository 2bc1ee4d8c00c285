// A cluster of three masters and a replica: slots that move, nodes that die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/redis/client.h"
#include "common/redis/slots.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

class TestCluster {
 public:
  // Three masters, and a replica of the first.
  TestCluster() {
    for (int i = 0; i < 4; ++i) {
      bus_ports_.push_back(FreePort());
      nodes_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
          "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port",
          absl::StrCat(bus_ports_.back()), "--cluster-node-timeout", "1000",
          "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
          "--repl-diskless-sync-delay", "0"}));
      ids_.push_back(node(i).Admin({"CLUSTER", "MYID"}).text);
    }
    node(0).Admin({"CLUSTER", "ADDSLOTSRANGE", "0", "5460"});
    node(1).Admin({"CLUSTER", "ADDSLOTSRANGE", "5461", "10922"});
    node(2).Admin({"CLUSTER", "ADDSLOTSRANGE", "10923", "16383"});
    // Epochs of their own, so that nobody has to settle who is right.
    for (int i = 0; i < 4; ++i) {
      node(i).Admin({"CLUSTER", "SET-CONFIG-EPOCH", absl::StrCat(i + 1)});
    }
    for (int i = 1; i < 4; ++i) {
      node(i).Admin({"CLUSTER", "MEET", "127.0.0.1", absl::StrCat(node(0).port()),
                     absl::StrCat(bus_ports_[0])});
    }
    for (int i = 0; i < 4; ++i) {
      node(i).AwaitAdmin({"CLUSTER", "INFO"}, "cluster_known_nodes:4");
      node(i).AwaitAdmin({"CLUSTER", "INFO"}, "cluster_slots_ok:16384");
      node(i).AwaitAdmin({"CLUSTER", "INFO"}, "cluster_state:ok");
    }
    node(3).Admin({"CLUSTER", "REPLICATE", ids_[0]});
    node(3).AwaitAdmin({"INFO", "replication"}, "master_link_status:up");
  }

  RedisServer& node(int i) const { return *nodes_[static_cast<size_t>(i)]; }
  const std::string& id(int i) const { return ids_[static_cast<size_t>(i)]; }
  std::string url() const {
    return absl::StrCat("redis+cluster://", node(1).host_port(), ",", node(2).host_port());
  }
  // A key with a tag, owned by master `i`.
  static std::string KeyOf(int i, const std::string& tail = "") {
    for (int n = 0;; ++n) {
      const std::string key = absl::StrCat("{", n, "}:pool", tail);
      if (std::min(HashSlot(key) / 5461, 2) == i) return key;
    }
  }

 private:
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::string> ids_;
  std::vector<int> bus_ports_;
};

class RedisCluster : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (HasRedisServer()) cluster_ = new TestCluster();
  }
  static void TearDownTestSuite() { delete cluster_; }
  void SetUp() override {
    if (!HasRedisServer()) GTEST_SKIP() << "redis-server is not installed: scripts/setup does it";
  }
  static const TestCluster* cluster_;
};

const TestCluster* RedisCluster::cluster_ = nullptr;

const Script& AddScript() {
  static const Script* const script = new Script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  return *script;
}

TEST_F(RedisCluster, KeysGoToTheirOwners) {
  RunOnReactor(
      +[](Reactor* reactor, const TestCluster* c) -> Task<void> {
        auto client = StartClient(reactor, c->url(), Patient());
        const absl::Status connected =
            co_await client->WaitConnected(reactor->Now() + kSoon, StopToken());
        EXPECT_TRUE(connected.ok()) << connected;
        for (int i = 0; i < 3; ++i) {
          const std::string key = TestCluster::KeyOf(i, ":owners");
          const Outcome outcome =
              co_await client->Eval(&AddScript(), {key}, {"7"}, Within(reactor, kSoon));
          EXPECT_EQ(outcome.reply, IntegerReply(7)) << outcome.text;
          EXPECT_EQ(c->node(i).Admin({"GET", key}).text, "7");
        }
        const Health health = client->health();
        EXPECT_TRUE(health.connected);
        EXPECT_EQ(health.redirects, 0);
        EXPECT_EQ(std::count(health.place.begin(), health.place.end(), ','), 2);
        co_await client->Stop();
      },
      cluster_);
}

TEST_F(RedisCluster, KeysOfTwoSlotsInOneScriptAreOurBug) {
  RunOnReactor(
      +[](Reactor* reactor, const TestCluster* c) -> Task<void> {
        auto client = StartClient(reactor, c->url(), Patient());
        const Outcome outcome =
            co_await client->Eval(&AddScript(), {TestCluster::KeyOf(0), TestCluster::KeyOf(1)},
                                  {"1"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kCrossSlot) << outcome.text;
        co_await client->Stop();
      },
      cluster_);
}

TEST_F(RedisCluster, APlainUrlToANodeOfAClusterSaysWhatToWrite) {
  RunOnReactor(
      +[](Reactor* reactor, const TestCluster* c) -> Task<void> {
        auto client = StartClient(reactor, c->node(0).url(), Patient());
        const Outcome outcome =
            co_await client->Run({"GET", TestCluster::KeyOf(1)}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kConfiguration);
        EXPECT_THAT(outcome.text, HasSubstr("redis+cluster://"));
        co_await client->Stop();
      },
      cluster_);
}

TEST_F(RedisCluster, AClusterUrlToAPlainServerSaysWhatToWrite) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client =
            StartClient(reactor, absl::StrCat("redis+cluster://", s->host_port()), Patient());
        const Outcome outcome = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kConfiguration);
        EXPECT_THAT(outcome.text, HasSubstr("write redis://"));
        const absl::Status status =
            co_await client->WaitConnected(reactor->Now() + kSoon, StopToken());
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        co_await client->Stop();
      },
      &server);
}

// ASK and TRYAGAIN while a slot moves, MOVED after it has moved.
Task<void> Migrate(Reactor* reactor, const TestCluster* c) {
  auto client = StartClient(reactor, c->url(), Patient());
  const std::string here = TestCluster::KeyOf(1, ":here");
  const std::string gone = TestCluster::KeyOf(1, ":gone");
  const std::string slot = absl::StrCat(HashSlot(here));
  for (const std::string& key : {here, gone}) {
    const Outcome set = co_await client->Run({"SET", key, "10"}, Within(reactor, kSoon));
    EXPECT_TRUE(set.ok()) << set.text;
  }
  const RedisServer& from = c->node(1);
  const RedisServer& to = c->node(2);
  const auto move = [&](const std::string& key) {
    return from.Admin({"MIGRATE", "127.0.0.1", absl::StrCat(to.port()), key, "0", "1000"});
  };
  to.Admin({"CLUSTER", "SETSLOT", slot, "IMPORTING", c->id(1)});
  from.Admin({"CLUSTER", "SETSLOT", slot, "MIGRATING", c->id(2)});
  EXPECT_EQ(move(gone).text, "OK");
  // One key has moved, the other has not; no answer may make the owner of the slot change.
  for (int i = 0; i < 2; ++i) {
    const Outcome asked =
        co_await client->Eval(&AddScript(), {gone}, {"1"}, Within(reactor, kSoon));
    EXPECT_EQ(asked.reply, IntegerReply(11 + i)) << asked.text;
    const Outcome stays =
        co_await client->Eval(&AddScript(), {here}, {"1"}, Within(reactor, kSoon));
    EXPECT_EQ(stays.reply, IntegerReply(11 + i)) << stays.text;
  }
  EXPECT_GE(client->health().redirects, 2);
  const Script both("return redis.call('INCRBY', KEYS[1], 1) + redis.call('INCRBY', KEYS[2], 1)");
  const Outcome split =
      co_await client->Eval(&both, {here, gone}, {}, Within(reactor, absl::Seconds(1)));
  EXPECT_EQ(split.error, Error::kTryAgain) << split.text;
  EXPECT_FALSE(split.may_have_run);

  EXPECT_EQ(move(here).text, "OK");
  for (const int node : {2, 1, 0}) {
    c->node(node).Admin({"CLUSTER", "SETSLOT", slot, "NODE", c->id(2)});
  }
  const Outcome moved = co_await client->Eval(&both, {here, gone}, {}, Within(reactor, kSoon));
  EXPECT_EQ(moved.reply, IntegerReply(26)) << moved.text;
  const int64_t redirects = client->health().redirects;
  const Outcome straight = co_await client->Eval(&both, {here, gone}, {}, Within(reactor, kSoon));
  EXPECT_EQ(straight.reply, IntegerReply(28)) << straight.text;
  EXPECT_EQ(client->health().redirects, redirects);
  co_await client->Stop();
}

TEST_F(RedisCluster, ASlotThatMovesIsFollowed) { RunOnReactor(&Migrate, cluster_); }

TEST_F(RedisCluster, ASubscriptionHearsWhatAnyNodeWasTold) {
  RunOnReactor(
      +[](Reactor* reactor, const TestCluster* c) -> Task<void> {
        auto client = StartClient(reactor, c->url(), Patient());
        auto hints = client->Subscribe({"gate"});
        std::optional<Hint> hint = co_await Subscription::Next(hints, StopToken());
        EXPECT_TRUE(hint->missed);
        const Outcome told =
            co_await client->Run({"PUBLISH", "gate", "shut"}, Within(reactor, kSoon));
        EXPECT_TRUE(told.ok()) << told.text;
        hint = co_await Subscription::Next(hints, StopToken());
        EXPECT_EQ(hint->channel, "gate");
        EXPECT_EQ(hint->payload, "shut");
        EXPECT_FALSE(hint->missed);
        co_await client->Stop();
      },
      cluster_);
}

// The last test: it takes a master away.
Task<void> LoseAMaster(Reactor* reactor, const TestCluster* c) {
  auto client = StartClient(reactor, c->url(), Patient());
  const std::string key = TestCluster::KeyOf(0, ":lost");
  const Outcome before = co_await client->Run({"SET", key, "1"}, Within(reactor, kSoon));
  EXPECT_TRUE(before.ok()) << before.text;
  c->node(3).AwaitAdmin({"INFO", "replication"}, "master_link_status:up");
  c->node(0).Kill();
  const Outcome dead =
      co_await client->Run({"SET", key, "2"}, Within(reactor, absl::Milliseconds(300)));
  EXPECT_FALSE(dead.ok());
  EXPECT_FALSE(client->health().connected);
  c->node(3).Admin({"CLUSTER", "FAILOVER", "TAKEOVER"});
  const Outcome after =
      co_await client->Run({"SET", key, "3"}, Within(reactor, absl::Seconds(10), true));
  EXPECT_TRUE(after.ok()) << after.text;
  EXPECT_THAT(client->health().place, HasSubstr(c->node(3).host_port()));
  const Outcome other =
      co_await client->Run({"SET", TestCluster::KeyOf(2), "x"}, Within(reactor, kSoon));
  EXPECT_TRUE(other.ok()) << other.text;
  co_await client->Stop();
}

TEST_F(RedisCluster, TheReplicaOfADeadMasterIsFound) { RunOnReactor(&LoseAMaster, cluster_); }

}  // namespace
}  // namespace headrace::redis
