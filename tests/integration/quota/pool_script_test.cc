// Facts of the script that the model does not have: what is lost, who dies, what is told twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/quota/script_store.h"

namespace headrace::quota {
namespace {

using ::testing::HasSubstr;
using Kind = ReserveAnswer::Kind;

PoolSpec TokensAndSlots(int64_t tokens, int64_t slots) {
  PoolSpec spec;
  spec.name = "p";
  spec.utilisation = 1;
  spec.dimensions = {Limit(Dimension::kTokens, Mechanics::kBucket, tokens),
                     Limit(Dimension::kInFlight, Mechanics::kGauge, slots)};
  return spec;
}

Costs Tokens(int64_t tokens) { return Costs{1, tokens, 0, 0, 1, 0, 0}; }

class PoolScriptFacts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
    server_ = std::make_unique<redis::RedisServer>(std::vector<std::string>{"--save", ""});
    redis_ = std::make_unique<BlockingRedis>(server_->port());
  }

  std::unique_ptr<ScriptStore> Open(PoolSpec spec, std::string worker = "w") {
    auto store = std::make_unique<ScriptStore>(nullptr, redis_.get(), std::move(spec), "a",
                                               std::move(worker), false, now_);
    stores_.push_back(store.get());
    return store;
  }
  void Pass(absl::Duration time) {
    now_ = now_ + time;
    for (ScriptStore* store : stores_) store->set_now(now_);
  }
  ReserveAnswer Ask(ScriptStore* store, uint64_t id, Costs costs,
                    absl::Duration horizon = absl::Seconds(2)) {
    ReserveRequest request;
    request.id = ReservationId(id);
    request.job_id = 1;
    request.costs = costs;
    return *store->ReserveNow("p", request, horizon);
  }
  static PoolOps Beat() {
    PoolOps ops;
    ops.Beat();
    return ops;
  }

  MonoTime now_ = MonoTime::FromNanos(1'700'000'000'000'000'000);
  std::vector<ScriptStore*> stores_;
  std::unique_ptr<redis::RedisServer> server_;
  std::unique_ptr<BlockingRedis> redis_;
};

TEST_F(PoolScriptFacts, APoolThatNobodyDescribedIsAskedFor) {
  auto store = Open(TokensAndSlots(60'000, 10));
  redis_->Run({"FLUSHALL"});
  PoolOps ops;
  ops.Settle(ReservationId(1), Settlement::kNotSent, Costs{});
  EXPECT_TRUE(store->Call(std::move(ops)).unknown_pool);
  EXPECT_EQ(redis_->Run({"DBSIZE"}).integer, 0);
}

TEST_F(PoolScriptFacts, AForgottenPoolStartsAsAnEmptyBucketAndSaysThatItIsAnother) {
  auto store = Open(TokensAndSlots(60'000, 10));
  Pass(absl::Minutes(2));
  EXPECT_EQ(Ask(store.get(), 1, Tokens(100)).at, now_);
  const int64_t before = store->Call(Beat()).incarnation;
  // The state alone is gone, as when its time ran out; its description is kept.
  redis_->Run({"DEL", store->keys()[0]});
  Pass(absl::Seconds(1));
  const PoolReply reply = store->Call(Beat());
  EXPECT_NE(reply.incarnation, before);
  EXPECT_EQ(reply.open, 0);
  // No credit: the second of two small ones waits for its pay.
  EXPECT_EQ(Ask(store.get(), 2, Tokens(250)).at, now_);
  EXPECT_EQ(Ask(store.get(), 3, Tokens(250)).at, now_ + absl::Milliseconds(250));
}

TEST_F(PoolScriptFacts, ARingThatWasEvictedIsFullNotEmpty) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = {Limit(Dimension::kTokens, Mechanics::kWindow, 60'000)};
  auto store = Open(spec);
  Pass(absl::Minutes(3));
  ASSERT_EQ(Ask(store.get(), 1, Tokens(20'000)).kind, Kind::kSendAt);
  redis_->Run({"DEL", store->keys()[9]});
  Pass(absl::Seconds(20));
  EXPECT_EQ(Ask(store.get(), 2, Tokens(20'000)).kind, Kind::kRetryAt);
}

TEST_F(PoolScriptFacts, AnotherServerMeansNoCredit) {
  auto store = Open(TokensAndSlots(60'000, 10));
  store->Call(Beat(), absl::Seconds(2), /*new_connection=*/true);
  Pass(absl::Minutes(2));
  const PoolReply same = store->Call(Beat(), absl::Seconds(2), true);
  // As after a restart from a snapshot: the run id of the server is another.
  redis_->Run({"EVAL",
               "local s = cmsgpack.unpack(redis.call('GET', KEYS[1])) s.boot = 'other' "
               "return redis.call('SET', KEYS[1], cmsgpack.pack(s))",
               "1", store->keys()[0]});
  const PoolReply other = store->Call(Beat(), absl::Seconds(2), true);
  EXPECT_NE(other.incarnation, same.incarnation);
  EXPECT_NE(other.epoch, same.epoch);
  EXPECT_EQ(Ask(store.get(), 2, Tokens(250)).at, now_);
  EXPECT_EQ(Ask(store.get(), 3, Tokens(250)).at, now_ + absl::Milliseconds(250));
}

TEST_F(PoolScriptFacts, ADeadWorkersBookingsAreTakenBackAndWhatItSentStaysCharged) {
  auto alive = Open(TokensAndSlots(60'000, 4), "alive");
  auto dead = Open(TokensAndSlots(60'000, 4), "dead");
  Pass(absl::Minutes(2));
  alive->Call(Beat());
  dead->Call(Beat());
  EXPECT_EQ(Ask(dead.get(), 1, Tokens(5'000), absl::Seconds(20)).at, now_);
  EXPECT_GT(Ask(dead.get(), 2, Tokens(5'000), absl::Seconds(20)).at, now_ + absl::Seconds(4));
  EXPECT_GT(Ask(dead.get(), 3, Tokens(5'000), absl::Seconds(20)).at, now_ + absl::Seconds(9));
  Pass(absl::Seconds(2));
  EXPECT_EQ(alive->Call(Beat()).open, 3);
  Pass(absl::Milliseconds(1'500));
  const PoolReply reply = alive->Call(Beat());
  EXPECT_EQ(reply.open, 1);
  EXPECT_EQ(reply.workers, 1);
  // Where the first of the taken back ones was.
  const ReserveAnswer next = Ask(alive.get(), 4, Tokens(100), absl::Seconds(20));
  EXPECT_EQ(absl::ToInt64Milliseconds(next.at - now_), 5'000 - 250 - 3'500);
  // Who was taken for dead and is not learns it.
  EXPECT_FALSE(dead->Call(Beat()).worker_known);
  // What it settles now is known already.
  dead->Settle("p", ReservationId(2), Settlement::kNotSent, Costs{});
  dead->Settle("p", ReservationId(1), Settlement::kCharged, Tokens(5'000));
  EXPECT_EQ(alive->Call(Beat()).open, 1);
}

TEST_F(PoolScriptFacts, ACallThatIsSentTwicePenalisesOnce) {
  auto store = Open(TokensAndSlots(60'000, 4));
  PoolCall call;
  call.test_clock_us = std::to_string(now_.nanos() / 1000);
  call.worker = "w";
  call.number = 1'000;
  Penalty penalty;
  penalty.retry_after = absl::Seconds(2);
  call.ops.Penalize(penalty, {0});
  const std::vector<std::string> args = PoolArgs(std::move(call));
  EXPECT_TRUE(redis_->Eval(PoolScript(), store->keys(), args).is_array());
  EXPECT_TRUE(redis_->Eval(PoolScript(), store->keys(), args).is_array());
  EXPECT_EQ(store->Snapshot("p").penalties, 1);
}

TEST_F(PoolScriptFacts, WhatIsNoOperationChangesNothing) {
  auto store = Open(TokensAndSlots(60'000, 4));
  const std::string before = store->Dump();
  PoolOps ops;
  ReserveRequest request;
  request.id = ReservationId(5);
  ops.Reserve(request);
  std::vector<std::string> args = {std::to_string(now_.nanos() / 1000), "", "w", "", "0", ""};
  for (std::string& arg : ops.Take()) args.push_back(std::move(arg));
  args.insert(args.end(), {"R", "6", "1", "nonsense"});
  EXPECT_THAT(redis_->Eval(PoolScript(), store->keys(), args).text, HasSubstr("is no integer"));
  EXPECT_EQ(store->Dump(), before);
}

TEST_F(PoolScriptFacts, AServerClockThatFallsFarBackIsAnotherClock) {
  // The pool has lived an hour ahead of the server's clock.
  now_ = MonoTime::FromNanos(absl::ToUnixNanos(absl::Now() + absl::Hours(1)));
  auto store = Open(TokensAndSlots(60'000, 4));
  ASSERT_EQ(Ask(store.get(), 1, Tokens(10'000)).kind, Kind::kSendAt);
  ScriptStore real(nullptr, redis_.get(), TokensAndSlots(60'000, 4), "a", "w", true, now_);
  PoolOps ops;
  ReserveRequest request;
  request.id = ReservationId(2);
  request.costs = Tokens(100);
  ops.Reserve(request);
  const PoolReply reply = real.Call(std::move(ops));
  const absl::StatusOr<ReadAnswer> answer = ReadReserveAnswer(*reply.answers.at(0), "p");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->answer.kind, Kind::kSendAt);
  EXPECT_LT(answer->at_us, absl::ToUnixMicros(absl::Now() + absl::Minutes(1)));
}

TEST_F(PoolScriptFacts, EveryKeyButTheDescriptionAndTheWorkersHasATimeToLive) {
  PoolSpec spec = TokensAndSlots(60'000, 4);
  spec.dimensions.push_back(Limit(Dimension::kRequests, Mechanics::kWindow, 600));
  auto store = Open(spec);
  Pass(absl::Minutes(2));
  store->Call(Beat());
  for (uint64_t id = 1; id < 5; ++id) Ask(store.get(), id, Tokens(1));
  store->Settle("p", ReservationId(1), Settlement::kCharged, Tokens(1));
  Pass(absl::Minutes(2));
  store->Call(Beat());
  for (const redis::Reply& key : redis_->Run({"KEYS", "*"}).elements) {
    const int64_t ttl = redis_->Run({"PTTL", key.text}).integer;
    if (key.text == store->keys()[1]) {
      EXPECT_EQ(ttl, -1) << key.text;
    } else {
      EXPECT_GT(ttl, 3'600'000) << key.text;
    }
    EXPECT_THAT(key.text, HasSubstr("{a}"));
  }
}

// F3: a key that lives for ever, or one that dies too early.
TEST_F(PoolScriptFacts, AKeyThatLostItsTimeToLiveGetsItBack) {
  PoolSpec spec = TokensAndSlots(60'000, 4);
  spec.dimensions.push_back(Limit(Dimension::kRequests, Mechanics::kWindow, 600));
  auto store = Open(spec);
  store->Call(Beat());
  Ask(store.get(), 1, Tokens(1));
  for (const redis::Reply& key : redis_->Run({"KEYS", "*"}).elements) {
    redis_->Run({"PERSIST", key.text});
  }
  Pass(absl::Seconds(61));
  store->Call(Beat());
  for (const redis::Reply& key : redis_->Run({"KEYS", "*"}).elements) {
    if (key.text == store->keys()[1]) continue;
    EXPECT_GT(redis_->Run({"PTTL", key.text}).integer, 3'600'000) << key.text;
  }
}

// F9: workers tell the script no time, but servers whose clocks differ follow each other.
TEST_F(PoolScriptFacts, ClocksThatDifferRefillNothingTwice) {
  auto ahead = Open(TokensAndSlots(60'000, 1'000), "ahead");
  auto behind = Open(TokensAndSlots(60'000, 1'000), "behind");
  int64_t sent = 0;
  uint64_t id = 0;
  for (int tick = 0; tick < 100; ++tick) {
    Pass(absl::Milliseconds(100));
    behind->set_now(now_ - absl::Seconds(1));
    for (ScriptStore* store : stores_) {
      while (Ask(store, ++id, Tokens(50), absl::ZeroDuration()).kind == Kind::kSendAt) sent += 50;
    }
  }
  EXPECT_LE(sent, 10'000 + 250 + 50);
  EXPECT_GE(sent, 9'500);
}

TEST_F(PoolScriptFacts, WhatWasSentWithoutRedisIsDebtAndItsSlotsAreHeld) {
  auto store = Open(TokensAndSlots(60'000, 4));
  Pass(absl::Minutes(2));
  PoolOps ops;
  Costs debt{};
  debt[1] = 2'000;
  ops.ReportLocal(debt, {});
  ops.Adopt(ReservationId(9), 1, 0, {now_.nanos() / 1000});
  const PoolReply reply = store->Call(std::move(ops));
  EXPECT_EQ(reply.open, 1);
  EXPECT_EQ(Ask(store.get(), 10, Tokens(1), absl::Seconds(10)).at, now_ + absl::Seconds(2));
  store->Settle("p", ReservationId(9), Settlement::kCharged, Tokens(500));
  EXPECT_EQ(store->Snapshot("p").in_flight, 1);
}

}  // namespace
}  // namespace headrace::quota
