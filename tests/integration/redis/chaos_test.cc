// Many callers under random faults of one real server: nothing hangs, nothing is mixed up, and what
// "it surely did not run" and "it may have run" promise is true.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/redis/client.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

constexpr int kCallers = 20;
constexpr absl::Duration kChaosTime = absl::Seconds(3);

struct Counts {
  int64_t ok = 0;
  int64_t may_have_run = 0;
  int64_t did_not_run = 0;
};

struct World {
  Reactor* reactor;
  RedisServer* server;
  Client* client;
  const Script* script;
  MonoTime end;
  uint64_t seed;
  Counts once;        // calls that are sent once
  Counts idempotent;  // calls that may be sent again
};

Task<void> Call(World* world, uint64_t caller) {
  Random random(world->seed + caller);
  const bool idempotent = caller % 2 == 0;
  Counts* const counts = idempotent ? &world->idempotent : &world->once;
  for (int i = 0; world->reactor->Now() < world->end; ++i) {
    const std::string own = absl::StrCat(caller, "-", i);
    const MonoTime start = world->reactor->Now();
    const absl::Duration limit = absl::Milliseconds(random.Between(int64_t{5}, int64_t{600}));
    const Outcome outcome =
        co_await world->client->Eval(world->script, {idempotent ? "repeated" : "once"}, {own},
                                     Within(world->reactor, limit, idempotent));
    // Far past the limit even where the machine is busy.
    EXPECT_LT(world->reactor->Now() - start, limit + absl::Seconds(3));
    if (outcome.ok()) {
      ++counts->ok;
      EXPECT_EQ(outcome.reply.text, own);
    } else {
      ++(outcome.may_have_run ? counts->may_have_run : counts->did_not_run);
      EXPECT_TRUE(outcome.error == Error::kDeadline || outcome.error == Error::kLost ||
                  outcome.error == Error::kUnreachable || outcome.error == Error::kOutOfMemory)
          << ErrorName(outcome.error) << ": " << outcome.text;
    }
  }
}

Task<void> Disturb(World* world) {
  Random random(world->seed);
  const auto pause = [&](int64_t low, int64_t high) {
    return Sleep(world->reactor, absl::Milliseconds(random.Between(low, high)), StopToken());
  };
  while (world->reactor->Now() < world->end) {
    co_await pause(5, 60);
    switch (random.Below(5)) {
      case 0:
      case 1:
        world->server->Admin({"CLIENT", "KILL", "TYPE", "normal"});
        break;
      case 2:
        world->server->Admin({"SCRIPT", "FLUSH"});
        break;
      case 3:
        world->server->Admin({"CONFIG", "SET", "maxmemory", "1"});
        co_await pause(1, 20);
        world->server->Admin({"CONFIG", "SET", "maxmemory", "0"});
        break;
      case 4:
        world->server->Pause();
        co_await pause(1, 300);
        world->server->Resume();
        break;
    }
  }
}

Task<void> Chaos(Reactor* reactor, RedisServer* server, uint64_t seed) {
  ClientOptions options;
  options.command_timeout = absl::Milliseconds(150);
  options.connect_timeout = absl::Milliseconds(200);
  options.backoff = {.first_delay = absl::Milliseconds(2),
                     .max_delay = absl::Milliseconds(50),
                     .jitter = absl::Milliseconds(10)};
  options.seed = seed;
  auto client = StartClient(reactor, server->url(), options);
  const Script script("redis.call('INCR', KEYS[1]) return ARGV[1]");
  World world{reactor, server, client.get(), &script, reactor->Now() + kChaosTime, seed, {}, {}};
  TaskScope scope(reactor, StopToken());
  for (uint64_t i = 0; i < kCallers; ++i) scope.Spawn(Call(&world, i));
  scope.Spawn(Disturb(&world));
  co_await scope.Join();
  const Health health = client->health();
  co_await client->Stop();

  // What was given up runs before this, because the server is awake and serves its sockets in turn.
  co_await Sleep(reactor, absl::Milliseconds(100), StopToken());
  const int64_t once = server->Admin({"GET", "once"}).AsInteger().value_or(0);
  const int64_t repeated = server->Admin({"GET", "repeated"}).AsInteger().value_or(0);
  EXPECT_GE(once, world.once.ok);
  EXPECT_LE(once, world.once.ok + world.once.may_have_run);
  EXPECT_GE(repeated, world.idempotent.ok);
  // The world was as bad as it was meant to be, and still most went well.
  EXPECT_GT(health.connects, 3);
  EXPECT_GT(world.once.may_have_run, 0);
  EXPECT_GT(world.once.ok, world.once.may_have_run);
  EXPECT_EQ(health.pending, 0u);
}

TEST(RedisChaos, EveryCallEndsInTimeWithItsOwnReplyOrAnHonestError) {
  if (!HasRedisServer()) GTEST_SKIP() << "redis-server is not installed: scripts/setup does it";
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  RedisServer server;
  RunOnReactor(&Chaos, &server, seed);
}

}  // namespace
}  // namespace headrace::redis
