// A master with a replica under Sentinels, and its failover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/redis/client.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

class RedisSentinel : public RedisTest {};

struct Servers {
  RedisServer* master;
  RedisServer* replica;
  RedisServer* sentinel;
  int dead_port;
};

Task<void> FailOver(Reactor* reactor, const Servers* servers) {
  // The first Sentinel of the list is away.
  const std::string url = absl::StrCat("redis+sentinel://127.0.0.1:", servers->dead_port, ",",
                                       servers->sentinel->host_port(), "/pools");
  auto client = StartClient(reactor, url, Patient());
  const Outcome before = co_await client->Run({"SET", "k", "1"}, Within(reactor, kSoon));
  EXPECT_TRUE(before.ok()) << before.text;
  EXPECT_EQ(client->health().place, servers->master->host_port());
  auto hints = client->Subscribe({"gate"});
  std::optional<Hint> hint = co_await Subscription::Next(hints, StopToken());
  EXPECT_TRUE(hint->missed);

  servers->replica->AwaitAdmin({"GET", "k"}, "1");
  servers->master->Kill();
  const Outcome after = co_await client->Run(
      {"SET", "k", "2"}, Within(reactor, absl::Seconds(20), /*idempotent=*/true));
  EXPECT_TRUE(after.ok()) << after.text;
  EXPECT_EQ(client->health().place, servers->replica->host_port());
  EXPECT_EQ(servers->replica->Admin({"GET", "k"}).text, "2");

  // The subscription follows to the new master, and says that it may have missed something.
  hint = co_await Subscription::Next(hints, StopToken());
  EXPECT_TRUE(hint.has_value() && hint->missed);
  co_await client->Run({"PUBLISH", "gate", "open"}, Within(reactor, kSoon));
  hint = co_await Subscription::Next(hints, StopToken());
  EXPECT_TRUE(hint.has_value() && hint->payload == "open");

  // The old master comes back, still a master until the Sentinels demote it; the client stays.
  servers->master->Start();
  const Outcome later = co_await client->Run({"SET", "k", "3"}, Within(reactor, kSoon));
  EXPECT_TRUE(later.ok()) << later.text;
  EXPECT_EQ(client->health().place, servers->replica->host_port());
  co_await client->Stop();
}

TEST_F(RedisSentinel, AFailoverIsFollowed) {
  RedisServer master;
  RedisServer replica(
      {"--replicaof", "127.0.0.1", absl::StrCat(master.port()), "--repl-diskless-sync-delay", "0"});
  replica.AwaitAdmin({"INFO", "replication"}, "master_link_status:up");
  RedisServer sentinel({"--sentinel"}, SentinelConfig(master, "pools"));
  sentinel.AwaitAdmin({"SENTINEL", "replicas", "pools"}, absl::StrCat(replica.port()));
  const Servers servers = {&master, &replica, &sentinel, FreePort()};
  RunOnReactor(&FailOver, &servers);
}

Task<void> WrongName(Reactor* reactor, const RedisServer* sentinel) {
  auto client = StartClient(
      reactor, absl::StrCat("redis+sentinel://", sentinel->host_port(), "/other"), Patient());
  const Outcome outcome = co_await client->Run({"PING"}, Within(reactor, kSoon));
  EXPECT_EQ(outcome.error, Error::kConfiguration);
  EXPECT_THAT(outcome.text, HasSubstr("no Sentinel knows a master named other"));
  co_await client->Stop();

  auto plain = StartClient(reactor, absl::StrCat("redis://", sentinel->host_port()), Patient());
  const absl::Status status = co_await plain->WaitConnected(reactor->Now() + kSoon, StopToken());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("redis+sentinel://"));
  co_await plain->Stop();
}

TEST_F(RedisSentinel, AWrongNameOrASentinelAsTheServerIsAConfigurationError) {
  RedisServer master;
  RedisServer sentinel({"--sentinel"}, SentinelConfig(master, "pools"));
  const RedisServer* argument = &sentinel;
  RunOnReactor(&WrongName, argument);
}

Task<void> NoSentinel(Reactor* reactor, const RedisServer* master) {
  auto client = StartClient(
      reactor, absl::StrCat("redis+sentinel://", master->host_port(), "/pools"), Patient());
  const Outcome outcome = co_await client->Run({"PING"}, Within(reactor, absl::Seconds(1)));
  EXPECT_EQ(outcome.error, Error::kConfiguration);
  EXPECT_THAT(outcome.text, HasSubstr("is no Sentinel"));
  co_await client->Stop();
}

TEST_F(RedisSentinel, APlainServerInPlaceOfASentinelSaysSo) {
  RedisServer master;
  const RedisServer* argument = &master;
  RunOnReactor(&NoSentinel, argument);
}

}  // namespace
}  // namespace headrace::redis
