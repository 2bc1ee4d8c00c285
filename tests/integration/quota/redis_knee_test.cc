// Workers that find together, through a real Redis, how many calls in flight pay. In virtual time:
// Redis is asked synchronously and told the reactor's clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/async/virtual_reactor.h"
#include "common/quota/redis_store.h"
#include "tests/integration/quota/script_store.h"
#include "tests/integration/redis/redis_server.h"
#include "tests/support/flight_crowd.h"

namespace headrace::quota {
namespace {

using ::testing::HasSubstr;

// Answers at once; drops every `lossy`-th answer, as a connection that breaks behind the call.
class SyncServer final : public PoolServer {
 public:
  SyncServer(BlockingRedis* redis, int lossy) : redis_(redis), lossy_(lossy) {}

  Task<redis::Outcome> Eval(const redis::Script* script, std::vector<std::string> keys,
                            std::vector<std::string> args, redis::CallOptions options) override {
    std::vector<std::string> argv = {"EVALSHA", script->sha(), absl::StrCat(keys.size())};
    for (std::string& key : keys) argv.push_back(std::move(key));
    for (std::string& arg : args) argv.push_back(std::move(arg));
    redis::Outcome outcome;
    outcome.reply = redis_->Run(argv);
    if (outcome.reply.is_error() && absl::StrContains(outcome.reply.text, "NOSCRIPT")) {
      argv[0] = "EVAL";
      argv[1] = script->text();
      outcome.reply = redis_->Run(argv);
    }
    EXPECT_FALSE(outcome.reply.is_error()) << outcome.reply.ToString();
    if (lossy_ > 0 && ++calls_ % lossy_ == 0) {
      co_return redis::Failed(redis::Error::kLost, "no answer", true);
    }
    co_return outcome;
  }
  int64_t connects() const override { return 1; }
  std::string place() const override { return "here"; }
  std::shared_ptr<redis::Subscription> Subscribe(std::vector<std::string>) override {
    return nullptr;
  }
  Task<void> Stop() override { co_return; }

 private:
  BlockingRedis* const redis_;
  const int lossy_;
  int calls_ = 0;
};

struct Trial {
  explicit Trial(int port) : redis(port) {}

  void Open(int workers, const std::string& account, FlightCrowdOptions options, int lossy) {
    PoolSpec spec;
    spec.name = "p";
    spec.auto_in_flight = true;
    std::vector<PoolStore*> pools;
    for (int i = 0; i < workers; ++i) {
      RedisStoreOptions store;
      store.worker = absl::StrCat("w", i);
      store.test_clock = true;
      store.seed = static_cast<uint64_t>(i);
      stores.push_back(
          std::make_unique<RedisPoolStore>(&reactor, std::make_unique<SyncServer>(&redis, lossy),
                                           std::vector<SharedPool>{{spec, account}}, store));
      pools.push_back(stores.back().get());
    }
    crowd = std::make_unique<FlightCrowd>(&reactor, options, pools,
                                          [this](size_t worker, const FlightSample& sample) {
                                            stores[worker]->AddSample("p", sample);
                                          });
  }
  static Task<void> Main(Trial* self, absl::Duration duration) {
    co_await self->crowd->Run(duration);
    for (const auto& store : self->stores) {
      self->found.push_back(store->Snapshot("p"));
      co_await store->Stop();
    }
  }
  void Run(absl::Duration duration) { reactor.Run(Main(this, duration)); }

  BlockingRedis redis;
  VirtualReactor reactor{1};
  std::vector<std::unique_ptr<RedisPoolStore>> stores;
  std::unique_ptr<FlightCrowd> crowd;
  std::vector<PoolSnapshot> found;
};

class RedisKnee : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
  }
};

TEST_F(RedisKnee, WorkersFindOneNumberAndKeepToItExactly) {
  redis::RedisServer server;
  for (const int workers : {1, 4}) {
    SCOPED_TRACE(testing::Message() << workers << " workers");
    Trial trial(server.port());
    FlightCrowdOptions options;
    options.streams = 200 / workers;
    trial.Open(workers, absl::StrCat("account", workers), options, /*lossy=*/0);
    trial.Run(absl::Seconds(150));
    ASSERT_EQ(trial.found.size(), static_cast<size_t>(workers));
    std::cout << workers << " workers: " << trial.found[0].in_flight_limit << ": "
              << trial.found[0].in_flight_why << "\n";
    for (const PoolSnapshot& found : trial.found) {
      // The number during a probe is another than the one that was found.
      EXPECT_GE(found.in_flight_limit, 18);
      EXPECT_LE(found.in_flight_limit, 48);
      EXPECT_THAT(found.in_flight_why, HasSubstr("calls at"));
    }
    // It doubled from 16 to 64 at most: not once for each worker.
    EXPECT_LE(trial.crowd->most_in_flight, 64);
    EXPECT_GE(trial.crowd->answered, 150 * 30 * 7 / 10);
  }
}

TEST_F(RedisKnee, AnswersThatAreLostCountNothingTwice) {
  redis::RedisServer server;
  Trial trial(server.port());
  FlightCrowdOptions options;
  options.streams = 60;
  trial.Open(3, "lossy", options, /*lossy=*/23);
  trial.Run(absl::Seconds(150));
  std::cout << trial.found[0].in_flight_limit << ": " << trial.found[0].in_flight_why << "\n";
  EXPECT_GE(trial.found[0].in_flight_limit, 18);
  EXPECT_LE(trial.found[0].in_flight_limit, 48);
  EXPECT_LE(trial.crowd->most_in_flight, 70);
}

// The turn, in the script alone.

FlightSample Sample(int64_t answered) {
  FlightSample sample;
  sample.span_us = 1'000'000;
  for (int64_t i = 0; i < answered; ++i) sample.AddAnswer(0, absl::Seconds(1), 10);
  return sample;
}

struct Turns {
  explicit Turns(int port) : redis(port) {
    PoolSpec spec;
    spec.name = "p";
    spec.auto_in_flight = true;
    for (const char* worker : {"a", "b"}) {
      stores.push_back(std::make_unique<ScriptStore>(nullptr, &redis, spec, "turns", worker, false,
                                                     MonoTime::FromNanos(int64_t{1} << 50)));
    }
  }
  KneeAnswer Tell(int worker, double seconds, const FlightSample& sample) {
    ScriptStore& store = *stores[static_cast<size_t>(worker)];
    const auto nanos = static_cast<int64_t>(seconds * 1e9);
    store.set_now(MonoTime::FromNanos((int64_t{1} << 50) + nanos));
    PoolOps ops;
    ops.Beat();
    ops.Sample(sample);
    const PoolReply reply = store.Call(std::move(ops));
    EXPECT_EQ(reply.answers.size(), 1u);
    absl::StatusOr<KneeAnswer> answer = ReadKneeAnswer(*reply.answers[0]);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *std::move(answer);
  }
  BlockingRedis redis;
  std::vector<std::unique_ptr<ScriptStore>> stores;
};

TEST_F(RedisKnee, OneWorkerHasTheTurnAndTheSumOfAll) {
  redis::RedisServer server;
  Turns turns(server.port());
  const KneeAnswer first = turns.Tell(0, 1, Sample(3));
  ASSERT_TRUE(first.turn.has_value());
  EXPECT_EQ(first.limit, KneeFinder::kStart);
  EXPECT_EQ(first.turn->sample.ToNumbers(), Sample(3).ToNumbers());
  EXPECT_FALSE(turns.Tell(1, 1.5, Sample(4)).turn.has_value());
  EXPECT_FALSE(turns.Tell(1, 2.5, Sample(5)).turn.has_value()) << "the turn lasts three seconds";
  // It never came back: another one has the turn, with all that was seen since.
  const KneeAnswer second = turns.Tell(1, 4.5, Sample(0));
  ASSERT_TRUE(second.turn.has_value());
  EXPECT_EQ(second.turn->sample.answered, 12);
  EXPECT_EQ(second.turn->workers, 1) << "the other one is dead";
}

}  // namespace
}  // namespace headrace::quota
