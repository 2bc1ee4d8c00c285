// Invariants of single calls: what a store answers and what it keeps. The numbers are those of the
// quota design.
#include "tests/unit/common/quota/store_invariants.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "common/base/random.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = ReserveAnswer::Kind;

DimensionSpec Window(Dimension dimension, int64_t limit, absl::Duration window = absl::Minutes(1)) {
  DimensionSpec spec = PerMinute(dimension, limit);
  spec.mechanics = Mechanics::kWindow;
  spec.window = window;
  spec.burst = std::min(window / 4, absl::Seconds(5));
  return spec;
}

// The kinds of pools that every property is tried on.
std::vector<PoolSpec> Pools() {
  DimensionSpec ramped = PerMinute(Dimension::kTokens, 600'000);
  ramped.ramp_start = 200'000;
  return {Pool({PerMinute(Dimension::kRequests, 900), PerMinute(Dimension::kTokens, 600'000)}),
          Pool({PerMinute(Dimension::kInputTokens, 400'000),
                PerMinute(Dimension::kOutputTokens, 300'000), Slots(40)},
               0.995),
          Pool({Window(Dimension::kTokens, 600'000), Slots(60)}),
          Pool({Window(Dimension::kRequests, 900, absl::Seconds(10)),
                Window(Dimension::kTokens, 600'000, absl::Seconds(1))}),
          Pool({ramped, Slots(50)}),
          Pool({Slots(10)})};
}

Costs Draw(Random* random) {
  const int64_t input = random->Between(int64_t{1}, int64_t{2'000});
  const int64_t output = random->Between(int64_t{1}, int64_t{1'000});
  return Costs{1, input + output, input, output, 1, 0, 0};
}

Penalty Throttled(absl::Duration retry_after, MonoTime sent_at) {
  Penalty penalty;
  penalty.retry_after = retry_after;
  penalty.sent_at = sent_at;
  return penalty;
}

bool Same(const ReserveAnswer& a, const ReserveAnswer& b) {
  return a.kind == b.kind && a.at == b.at;
}

TEST_P(StoreInvariants, I4ADenialChangesNothing) {
  // One store is asked for things that it denies, its twin is not.
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const PoolSpec& spec : Pools()) {
      if (spec.dimensions[0].mechanics == Mechanics::kGauge) continue;  // denies no size
      SCOPED_TRACE(testing::Message() << "seed " << seed << " limit " << spec.dimensions[0].limit);
      Random random(static_cast<uint64_t>(seed));
      StoreAtWork asked(GetParam(), spec);
      StoreAtWork twin(GetParam(), spec);
      for (uint64_t id = 1; id <= 120; ++id) {
        const Costs costs = Draw(&random);
        const Costs huge = {1, 600'001, 600'001, 600'001, 1, 0, 0};
        ASSERT_EQ(asked.Ask(1'000'000 + id, huge).kind, Kind::kNeverFits);
        const ReserveAnswer a = asked.Ask(id, costs);
        const ReserveAnswer b = twin.Ask(id, costs);
        ASSERT_TRUE(Same(a, b)) << id;
        ASSERT_EQ(asked.Snapshot().in_flight, twin.Snapshot().in_flight);
        ASSERT_EQ(asked.Snapshot().charged_last_minute, twin.Snapshot().charged_last_minute);
        if (random.Chance(0.5)) {
          asked.Settle(id, Settlement::kCharged, costs);
          twin.Settle(id, Settlement::kCharged, costs);
        }
        const absl::Duration pause = absl::Milliseconds(200) * random.Unit();
        asked.Pass(pause);
        twin.Pass(pause);
      }
    }
  }
}

// An operation that a client sends, and may send again.
struct Operation {
  bool reserve = false;
  uint64_t id = 0;
  Costs costs{};
  Settlement settlement = Settlement::kCharged;
};

TEST_P(StoreInvariants, I5RepeatedAndLateOperationsAreTheSameAsOne) {
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const PoolSpec& spec : Pools()) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " limit " << spec.dimensions[0].limit);
      Random random(static_cast<uint64_t>(seed) * 77);
      StoreAtWork once(GetParam(), spec);
      StoreAtWork often(GetParam(), spec);
      std::map<uint64_t, MonoTime> sent;
      std::vector<Operation> done;
      for (uint64_t id = 1; id <= 150; ++id) {
        const absl::Duration pause = absl::Milliseconds(150) * random.Unit();
        once.Pass(pause);
        often.Pass(pause);
        Operation reserve{.reserve = true, .id = id, .costs = Draw(&random)};
        const ReserveAnswer answer = once.Ask(id, reserve.costs);
        ASSERT_TRUE(Same(often.Ask(id, reserve.costs), answer));
        if (answer.kind == Kind::kSendAt) {
          sent[id] = answer.at;
          done.push_back(reserve);
        }
        if (!sent.empty() && random.Chance(0.7)) {
          auto it = sent.begin();
          std::advance(it, static_cast<int64_t>(random.Below(sent.size())));
          constexpr Settlement kAll[] = {Settlement::kCharged, Settlement::kUnknown,
                                         Settlement::kRejected, Settlement::kNotSent};
          Operation settle{
              .id = it->first, .costs = Draw(&random), .settlement = kAll[random.Below(4)]};
          once.Settle(settle.id, settle.settlement, settle.costs);
          often.Settle(settle.id, settle.settlement, settle.costs);
          done.push_back(settle);
          sent.erase(it);
        }
        // Duplicates of anything that was done before, in any order.
        for (int i = 0; i < 3 && !done.empty(); ++i) {
          const Operation& again = done[random.Below(done.size())];
          if (again.reserve) {
            ASSERT_EQ(often.Ask(again.id, again.costs).kind, Kind::kSendAt);
          } else {
            often.Settle(again.id, again.settlement, again.costs);
          }
        }
        ASSERT_EQ(once.Snapshot().in_flight, often.Snapshot().in_flight) << id;
        ASSERT_EQ(once.Snapshot().charged_last_minute, often.Snapshot().charged_last_minute) << id;
      }
      // What they will admit is the same too.
      for (uint64_t id = 1'000; id < 1'020; ++id) {
        const Costs costs = Draw(&random);
        ASSERT_TRUE(Same(once.Ask(id, costs), often.Ask(id, costs)));
      }
    }
  }
}

TEST_P(StoreInvariants, I5AnAnswerThatWasLostIsGivenAgain) {
  StoreAtWork store(GetParam(), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  store.Ask(1, Tokens(1'000));
  const ReserveAnswer lost = store.Ask(2, Tokens(1'000));
  store.Pass(absl::Milliseconds(300));
  const ReserveAnswer again = store.Ask(2, Tokens(1'000));
  EXPECT_EQ(again.at, lost.at);
  EXPECT_EQ(store.Snapshot().in_flight, 2);
  EXPECT_EQ(store.Snapshot().charged_last_minute[1], 2'000);
}

TEST_P(StoreInvariants, I6WhatIsOpenIsWhatWasBookedAndNotSettled) {
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const PoolSpec& spec : Pools()) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " limit " << spec.dimensions[0].limit);
      Random random(static_cast<uint64_t>(seed) * 13);
      StoreAtWork store(GetParam(), spec);
      std::vector<uint64_t> open;
      for (uint64_t id = 1; id <= 200; ++id) {
        store.Pass(absl::Milliseconds(100) * random.Unit());
        if (store.Ask(id, Draw(&random)).kind == Kind::kSendAt) open.push_back(id);
        if (!open.empty() && random.Chance(0.6)) {
          const size_t i = random.Below(open.size());
          store.Settle(open[i], random.Chance(0.5) ? Settlement::kCharged : Settlement::kNotSent,
                       Draw(&random));
          open.erase(open.begin() + static_cast<int64_t>(i));
        }
        if (random.Chance(0.02)) {
          store.Penalize(Throttled(absl::Milliseconds(300), store.Now()));
        }
        ASSERT_EQ(store.Snapshot().in_flight, static_cast<int64_t>(open.size()));
      }
      for (const uint64_t id : open) store.Settle(id, Settlement::kUnknown);
      EXPECT_EQ(store.Snapshot().in_flight, 0);
    }
  }
}

TEST_P(StoreInvariants, I7SettlementsEndWhereKnownCostsWouldHave) {
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const bool window : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << (window ? " window" : " bucket"));
      Random random(static_cast<uint64_t>(seed));
      const PoolSpec spec = Pool(
          {window ? Window(Dimension::kTokens, 777'777) : PerMinute(Dimension::kTokens, 777'777)},
          0.995);
      StoreAtWork estimated(GetParam(), spec);
      StoreAtWork known(GetParam(), spec);
      std::vector<Costs> actual;
      uint64_t booked = 0;
      for (uint64_t id = 1; id <= 40; ++id) {
        actual.push_back(Draw(&random));
        const Kind kind = estimated.Ask(id, Draw(&random), absl::Seconds(60)).kind;
        ASSERT_EQ(known.Ask(id, actual.back(), absl::Seconds(60)).kind, kind);
        if (kind != Kind::kSendAt) break;
        ++booked;
      }
      ASSERT_GT(booked, 20u);
      for (uint64_t id = 1; id <= booked; ++id) {
        estimated.Settle(id, Settlement::kCharged, actual[id - 1]);
        known.Settle(id, Settlement::kCharged, actual[id - 1]);
      }
      // Behind what is gone by now, so that the order of the bookings no longer shows.
      estimated.Pass(absl::Milliseconds(1));
      known.Pass(absl::Milliseconds(1));
      const ReserveAnswer a = estimated.Ask(100, Tokens(10'000), absl::Seconds(60));
      const ReserveAnswer b = known.Ask(100, Tokens(10'000), absl::Seconds(60));
      ASSERT_EQ(a.kind, b.kind);
      EXPECT_LE(absl::AbsDuration(a.at - b.at), absl::Microseconds(40));
    }
  }
}

TEST_P(StoreInvariants, I8ALateSettlementOfAnotherWindowGivesNothing) {
  StoreAtWork settled(GetParam(), Pool({Window(Dimension::kTokens, 60'000)}));
  StoreAtWork twin(GetParam(), Pool({Window(Dimension::kTokens, 60'000)}));
  for (StoreAtWork* store : {&settled, &twin}) {
    store->Ask(1, Tokens(30'000), absl::Seconds(60));
    store->Pass(absl::Seconds(62));
    store->Ask(2, Tokens(30'000), absl::Seconds(60));
  }
  settled.Settle(1, Settlement::kCharged, Tokens(1));
  twin.Settle(1, Settlement::kUnknown);
  EXPECT_TRUE(Same(settled.Ask(3, Tokens(20'000), absl::Seconds(60)),
                   twin.Ask(3, Tokens(20'000), absl::Seconds(60))));
  EXPECT_TRUE(Same(settled.Ask(4, Tokens(20'000), absl::Seconds(60)),
                   twin.Ask(4, Tokens(20'000), absl::Seconds(60))));
}

// What can be sent at this moment, one token at a time.
int64_t SentAtOnce(StoreAtWork* store, uint64_t* id, int64_t tokens) {
  int64_t sent = 0;
  for (int i = 0; i < 100'000; ++i) {
    const Costs costs = {1, tokens, tokens, tokens, 1, 0, 0};
    const ReserveAnswer answer = store->Ask(++*id, costs, absl::ZeroDuration());
    if (answer.kind != Kind::kSendAt) break;
    store->Settle(*id, Settlement::kCharged, costs);
    sent += tokens;
  }
  return sent;
}

TEST_P(StoreInvariants, I9HoweverFarTheClockLeapsNoMoreThanTheBurstIsFree) {
  StoreAtWork store(GetParam(), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  uint64_t id = 0;
  for (const double leap : {0.0, 1.0, 60.0, 3'600.0, 86'400.0 * 30}) {
    store.Pass(absl::Seconds(leap));
    EXPECT_LE(SentAtOnce(&store, &id, 10), 260) << leap;
  }
}

TEST_P(StoreInvariants, I10EveryCostUpToTheLimitIsAdmittedInTheEndAndNoneAbove) {
  for (const bool window : {false, true}) {
    for (const int64_t large : {5'000, 30'000, 60'000}) {
      SCOPED_TRACE(testing::Message() << large << (window ? " window" : " bucket"));
      StoreAtWork store(GetParam(), Pool({window ? Window(Dimension::kTokens, 60'000)
                                                 : PerMinute(Dimension::kTokens, 60'000)}));
      const ReserveAnswer never = store.Ask(1'000'000, Tokens(60'001));
      EXPECT_EQ(never.kind, Kind::kNeverFits);
      EXPECT_NE(never.text.find("60001"), std::string::npos) << never.text;
      EXPECT_NE(never.text.find("60000"), std::string::npos) << never.text;
      // Small ones stand behind it, as many as fit, and are asked for after it.
      uint64_t id = 1;
      bool admitted = false;
      while (store.Since() < 200 && !admitted) {
        std::vector<ReserveRequest> batch(9);
        batch[0].id = ReservationId(1);
        batch[0].costs = Tokens(large);
        for (size_t i = 1; i < batch.size(); ++i) {
          batch[i].id = ReservationId(++id);
          batch[i].costs = Tokens(100);
        }
        // The small ones are first in line elsewhere.
        std::rotate(batch.begin(), batch.begin() + 1, batch.end());
        const std::vector<ReserveAnswer> answers = store.Ask(batch);
        admitted = answers.back().kind == Kind::kSendAt;
        store.Pass(absl::Milliseconds(250));
      }
      EXPECT_TRUE(admitted);
      EXPECT_LT(store.Since(), 130);
    }
  }
}

TEST_P(StoreInvariants, I12OneEventIsOneCutAndNothingGoesInsideAGate) {
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const PoolSpec& spec : Pools()) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " limit " << spec.dimensions[0].limit);
      Random random(static_cast<uint64_t>(seed));
      StoreAtWork one(GetParam(), spec);
      StoreAtWork many(GetParam(), spec);
      for (uint64_t id = 1; id <= 20; ++id) {
        const Costs costs = Draw(&random);
        one.Ask(id, costs);
        many.Ask(id, costs);
      }
      const MonoTime sent = one.Now();
      one.Pass(absl::Milliseconds(50));
      many.Pass(absl::Milliseconds(50));
      one.Penalize(Throttled(absl::Seconds(5), sent));
      for (int i = 0; i < 64; ++i) {
        many.Penalize(Throttled(absl::Seconds(random.Between(int64_t{1}, int64_t{5})), sent));
      }
      many.Penalize(Throttled(absl::Seconds(5), sent));
      if (spec.dimensions[0].mechanics != Mechanics::kGauge) {
        EXPECT_EQ(one.Snapshot().rate_share, many.Snapshot().rate_share);
      }
      const MonoTime gate = many.Snapshot().gate_until;
      EXPECT_EQ(gate, many.Now() + absl::Seconds(5));
      many.Penalize(Throttled(absl::Seconds(1), sent));
      EXPECT_EQ(many.Snapshot().gate_until, gate);
      for (uint64_t id = 100; id <= 150; ++id) {
        const ReserveAnswer answer = many.Ask(id, Draw(&random));
        ASSERT_GE(answer.at, gate) << id;
        many.Pass(absl::Milliseconds(90));
      }
    }
  }
}

TEST_P(StoreInvariants, I12AfterAGateTrafficStartsPacedWithoutABurst) {
  for (const bool window : {false, true}) {
    StoreAtWork store(GetParam(), Pool({window ? Window(Dimension::kTokens, 60'000)
                                               : PerMinute(Dimension::kTokens, 60'000)}));
    store.Penalize(Throttled(absl::Seconds(5), store.Now()));
    store.Pass(absl::Seconds(5));
    std::vector<double> at;
    for (uint64_t id = 1; id <= 15; ++id) {
      const ReserveAnswer answer = store.Ask(id, Tokens(100));
      ASSERT_EQ(answer.kind, Kind::kSendAt);
      at.push_back(store.Since(answer.at));
    }
    for (size_t i = 1; i < at.size(); ++i) EXPECT_GE(at[i] - at[i - 1], 0.099) << i;
  }
}

TEST_P(StoreInvariants, I13WhatADeadWorkerHeldComesBackAtItsDeadlineAndOnlyOnce) {
  PoolSpec spec = Pool({PerMinute(Dimension::kTokens, 600'000), Slots(10)});
  spec.reservation_timeout = absl::Seconds(90);
  for (int killed = 0; killed <= 10; ++killed) {
    StoreAtWork store(GetParam(), spec);
    for (uint64_t id = 1; id <= 10; ++id) {
      ASSERT_EQ(store.Ask(id, Tokens(100)).kind, Kind::kSendAt);
    }
    // The first `killed` belong to the worker that dies.
    for (uint64_t id = static_cast<uint64_t>(killed) + 1; id <= 10; ++id) {
      store.Settle(id, Settlement::kCharged, Tokens(100));
    }
    store.Pass(absl::Seconds(89));
    EXPECT_EQ(store.Snapshot().in_flight, killed);
    store.Pass(absl::Seconds(3));
    int admitted = 0;
    for (uint64_t id = 101; id <= 115; ++id) {
      admitted += store.Ask(id, Tokens(100)).kind == Kind::kSendAt ? 1 : 0;
    }
    EXPECT_EQ(admitted, 10);
    EXPECT_EQ(store.Snapshot().expired, killed);
    // It was not dead after all.
    for (uint64_t id = 1; id <= 10; ++id) store.Settle(id, Settlement::kNotSent);
    EXPECT_EQ(store.Snapshot().in_flight, 10);
  }
}

TEST_P(StoreInvariants, I19HoweverTheLimitsChangeNoCreditIsMinted) {
  for (int seed = 1; seed <= GetParam().seeds; ++seed) {
    for (const bool window : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << (window ? " window" : " bucket"));
      Random random(static_cast<uint64_t>(seed));
      const auto make = [&](int64_t limit) {
        return Pool(
            {window ? Window(Dimension::kTokens, limit) : PerMinute(Dimension::kTokens, limit)});
      };
      StoreAtWork store(GetParam(), make(60'000));
      int64_t sent = 0;
      uint64_t id = 0;
      const double burst = window ? 5 : 0.25;
      while (store.Since() < 60) {
        store.Pass(absl::Milliseconds(10) + absl::Milliseconds(400) * random.Unit());
        ASSERT_TRUE(store.Reconfigure(make(6'000 * random.Between(int64_t{1}, int64_t{10}))).ok());
        sent += SentAtOnce(&store, &id, 50);
        ASSERT_LE(static_cast<double>(sent), 1'000 * (store.Since() + burst) + 50);
      }
      EXPECT_GT(sent, 10'000);
    }
  }
}

TEST_P(StoreInvariants, I20AColdStoreIsAnEmptyBucketNeverAFullOne) {
  for (const PoolSpec& spec : Pools()) {
    if (spec.dimensions[0].mechanics == Mechanics::kGauge) continue;
    SCOPED_TRACE(spec.dimensions[0].limit);
    StoreAtWork store(GetParam(), spec, /*cold=*/true);
    uint64_t id = 0;
    int64_t sent = 0;
    // Never more than what the rate has given since; one request may always go ahead of its pay.
    while (store.Since() < 20) {
      sent += SentAtOnce(&store, &id, 100);
      ASSERT_LE(static_cast<double>(sent), 10'000 * (store.Since() + 0.25) + 100) << store.Since();
      store.Pass(absl::Milliseconds(100));
    }
    EXPECT_GT(sent, 20'000);
  }
}

TEST_P(StoreInvariants, AStoppedAccountLetsOneProbeThroughAndOpensWhenItSucceeds) {
  StoreAtWork store(GetParam(), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  Penalty stop;
  stop.kind = Penalty::Kind::kStop;
  stop.text = "no credit left";
  store.Penalize(stop);
  EXPECT_EQ(store.Ask(1, Tokens(1)).kind, Kind::kClosed);
  EXPECT_EQ(store.Ask(1, Tokens(1)).text, "no credit left");
  store.Pass(absl::Seconds(31));
  EXPECT_EQ(store.Ask(2, Tokens(1)).kind, Kind::kSendAt);
  EXPECT_EQ(store.Ask(3, Tokens(1)).kind, Kind::kClosed);
  // The probe was refused too: closed for as long again.
  store.Penalize(stop);
  store.Settle(2, Settlement::kRejected);
  EXPECT_EQ(store.Ask(4, Tokens(1)).kind, Kind::kClosed);
  store.Pass(absl::Seconds(31));
  EXPECT_EQ(store.Ask(5, Tokens(1)).kind, Kind::kSendAt);
  EXPECT_TRUE(store.Snapshot().closed);
  store.Settle(5, Settlement::kCharged, Tokens(1));
  EXPECT_FALSE(store.Snapshot().closed);
  EXPECT_EQ(store.Ask(6, Tokens(1)).kind, Kind::kSendAt);
}

TEST_P(StoreInvariants, I16ALimitThatTheProviderLowersHoldsAtOnceAndOpensSlowly) {
  StoreAtWork store(GetParam(), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  Observation observation;
  observation.dimension = Dimension::kTokens;
  observation.limit = 30'000;
  observation.sent_at = store.Now();
  store.Observe(observation);
  EXPECT_NEAR(store.Snapshot().rate_share, 0.5, 0.005);
  uint64_t id = 0;
  int64_t sent = 0;
  while (store.Since() < 60) {
    sent += SentAtOnce(&store, &id, 50);
    store.Pass(absl::Milliseconds(100));
  }
  EXPECT_NEAR(static_cast<double>(sent), 30'000, 600);
  observation.limit = 60'000;
  store.Observe(observation);
  EXPECT_NEAR(store.Snapshot().rate_share, 0.5, 0.005);
  store.Pass(absl::Minutes(5));
  EXPECT_NEAR(store.Snapshot().rate_share, 0.5 + 5 * 7 / 256.0, 0.02);
  // A limit above ours is none of ours.
  observation.limit = 600'000;
  store.Observe(observation);
  store.Pass(absl::Minutes(30));
  EXPECT_EQ(store.Snapshot().rate_share, 1);
}

TEST_P(StoreInvariants, I16WhatSomebodyElseUsedIsChargedOnce) {
  StoreAtWork store(GetParam(), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  const ReserveAnswer answer = store.Ask(1, Tokens(100));
  ASSERT_EQ(answer.kind, Kind::kSendAt);
  EXPECT_EQ(answer.used[1], 100);
  store.Pass(absl::Milliseconds(500));
  Observation observation;
  observation.dimension = Dimension::kTokens;
  observation.used = 5'100;
  observation.expected = answer.used[1];
  observation.sent_at = answer.at;
  // Two workers saw it, in answers to requests of the same time.
  store.Observe(observation);
  store.Observe(observation);
  EXPECT_EQ(store.Snapshot().outside[1], 5'000);
  const ReserveAnswer next = store.Ask(2, Tokens(100), absl::Seconds(60));
  EXPECT_NEAR(store.Since(next.at), 0.5 + 5 - 0.25, 0.01);
  // Less than expected, and noise, change nothing.
  observation.sent_at = store.Now() + absl::Milliseconds(1);
  store.Pass(absl::Milliseconds(2));
  observation.used = 50;
  store.Observe(observation);
  observation.used = 300;
  store.Observe(observation);
  EXPECT_EQ(store.Snapshot().outside[1], 5'000);
}

}  // namespace
}  // namespace headrace::quota
