// Limits that are counted in windows, by the day, and behind a ramp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/random.h"
#include "common/quota/model.h"
#include "common/quota/ring.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = ReserveAnswer::Kind;
constexpr absl::Duration kHorizon = absl::Seconds(2);
constexpr int64_t kSecond = 1'000'000;

MonoTime At(double seconds) {
  return MonoTime::FromNanos(static_cast<int64_t>(1e15) + static_cast<int64_t>(seconds * 1e9));
}
double Seconds(MonoTime time) { return static_cast<double>(time.nanos() - 1e15) / 1e9; }

DimensionSpec Window(Dimension dimension, int64_t limit, absl::Duration window = absl::Minutes(1),
                     absl::Duration guard = absl::ZeroDuration()) {
  DimensionSpec spec = PerMinute(dimension, limit);
  spec.mechanics = Mechanics::kWindow;
  spec.window = window;
  spec.guard = guard;
  spec.burst = std::min(window / 2, absl::Seconds(5));
  return spec;
}

DimensionSpec PerDay(Dimension dimension, int64_t limit) {
  DimensionSpec spec = PerMinute(dimension, limit);
  spec.mechanics = Mechanics::kDay;
  return spec;
}

ReserveRequest Request(uint64_t id, Costs costs) {
  ReserveRequest request;
  request.id = ReservationId(id);
  request.costs = costs;
  return request;
}

TEST(Ring, AnyWindowLiesWithinItsSpanWhereverItStarts) {
  for (const int64_t width_us : {kSecond, 10 * kSecond, 60 * kSecond, 3600 * kSecond}) {
    for (const int64_t guard_us : {int64_t{0}, int64_t{50'000}, int64_t{250'000}}) {
      const Ring ring(100, width_us, guard_us);
      const int64_t last = (width_us + guard_us + ring.cell_us() - 1) / ring.cell_us();
      EXPECT_GE(ring.span(), last + 1) << width_us << " " << guard_us;
      EXPECT_LE(ring.span(), 259) << width_us;
    }
  }
}

TEST(Ring, StartsFullAndBecomesFreeEvenly) {
  Ring ring(1000, 60 * kSecond, 0);
  const int64_t now = 1'000'000 * kSecond;
  ring.Fill(now);
  EXPECT_EQ(ring.Used(now), 1000);
  EXPECT_EQ(ring.FitAt(now, 1, 1000), now + 250'000);
  EXPECT_EQ(ring.FitAt(now, 100, 1000), now + 6 * kSecond);
  EXPECT_EQ(ring.FitAt(now, 1000, 1000), now + 60 * kSecond);
  ring.Roll(now + 30 * kSecond);
  EXPECT_EQ(ring.Used(now + 30 * kSecond), 500);
}

TEST(Ring, ACostAboveItsRoomFitsAlone) {
  Ring ring(100, kSecond, 0);
  const int64_t now = 1'000'000 * kSecond;
  ring.Roll(now);
  EXPECT_EQ(ring.FitAt(now, 500, 100), now);
  ring.Add(now, 500);
  EXPECT_EQ(ring.FitAt(now, 1, 100), now + ring.span() * ring.cell_us());
}

TEST(Ring, AgreesWithANaiveListOfWhatWasSent) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Ring ring(1000, 10 * kSecond, 100'000);
    std::map<int64_t, int64_t> cells;
    int64_t now = 5'000 * kSecond;
    ring.Roll(now);
    const auto held = [&](int64_t at) {
      int64_t sum = 0;
      for (const auto& [cell, units] : cells) {
        if (cell >= at / ring.cell_us() - ring.span() + 1) sum += units;
      }
      return sum;
    };
    for (int step = 0; step < 400; ++step) {
      now += random.Between(int64_t{0}, int64_t{400'000});
      ring.Roll(now);
      const int64_t cost = random.Between(int64_t{1}, int64_t{300});
      const int64_t asked = now + random.Between(int64_t{0}, 2 * kSecond);
      const int64_t at = ring.FitAt(asked, cost, 1000);
      ASSERT_GE(at, asked);
      ASSERT_LE(held(at) + cost, 1000);
      if (at > asked) {
        ASSERT_GT(held(at - 1) + cost, 1000);
      }
      ASSERT_EQ(ring.Used(asked), held(asked));
      if (at > now + 4 * kSecond) continue;
      ring.Add(at, cost);
      cells[at / ring.cell_us()] += cost;
    }
  }
}

TEST(Window, NoMoreThanTheLimitIsSentInAnyMinute) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PoolModel model(Pool({Window(Dimension::kTokens, 60'000)}), At(0));
    std::vector<std::pair<double, int64_t>> sent;
    uint64_t id = 0;
    for (double now = 0; now < 400; now += 0.2 * random.Unit()) {
      const int64_t cost = random.Between(int64_t{1}, int64_t{4'000});
      const ReserveAnswer answer = model.Reserve(At(now), Request(++id, Tokens(cost)), kHorizon);
      if (answer.kind != Kind::kSendAt) continue;
      sent.emplace_back(Seconds(answer.at), cost);
      model.Settle(At(now), ReservationId(id), Settlement::kCharged, Tokens(cost));
    }
    size_t from = 0;
    int64_t sum = 0;
    int64_t all = 0;
    for (const auto& [at, cost] : sent) {
      sum += cost;
      all += cost;
      while (sent[from].first <= at - 60) sum -= sent[from++].second;
      ASSERT_LE(sum, 60'000) << at;
    }
    EXPECT_GT(all, 370'000);
  }
}

TEST(Window, ARequestThatFitsGoesBeforeALargeOneThatDoesNotButNotForEver) {
  PoolModel model(Pool({Window(Dimension::kTokens, 60'000)}), At(0));
  // From a full ring 250 tokens a cell become free.
  const ReserveAnswer large = model.Reserve(At(10), Request(1, Tokens(30'000)), kHorizon);
  ASSERT_EQ(large.kind, Kind::kRetryAt);
  EXPECT_EQ(large.binding, Dimension::kTokens);
  EXPECT_EQ(model.Reserve(At(10), Request(2, Tokens(4'000)), kHorizon).kind, Kind::kSendAt);
  // It keeps asking; small ones are served until its patience is over.
  uint64_t id = 2;
  int64_t before = 0;
  double served = 0;
  for (double now = 10; now < 60 && served == 0; now += 0.25) {
    const ReserveAnswer answer = model.Reserve(At(now), Request(1, Tokens(30'000)), kHorizon);
    if (answer.kind == Kind::kSendAt) served = Seconds(answer.at);
    const Kind small = model.Reserve(At(now), Request(++id, Tokens(200)), kHorizon).kind;
    if (small == Kind::kSendAt && served == 0) ++before;
    if (now > 14 && served == 0) {
      EXPECT_EQ(small, Kind::kRetryAt) << now;
    }
  }
  EXPECT_GT(before, 10);
  // 30,000 of what becomes free at 1,000 a second, and what the small ones took until 14 s.
  EXPECT_GT(served, 35);
  EXPECT_LT(served, 40);
}

TEST(Window, AClaimOfOneThatNoLongerAsksHoldsNobodyUp) {
  PoolModel model(Pool({Window(Dimension::kTokens, 60'000)}), At(0));
  ASSERT_EQ(model.Reserve(At(5), Request(1, Tokens(30'000)), kHorizon).kind, Kind::kRetryAt);
  EXPECT_EQ(model.Reserve(At(20), Request(2, Tokens(200)), kHorizon).kind, Kind::kSendAt);
}

TEST(Window, ALateSettlementOfAnEarlierWindowGivesNothingBack) {
  PoolModel model(Pool({Window(Dimension::kTokens, 60'000)}), At(-120));
  model.Reserve(At(0), Request(1, Tokens(20'000)), kHorizon);
  model.Reserve(At(0), Request(2, Tokens(20'000)), kHorizon);
  const int64_t tat_us = model.limits()[0].bucket().tat_us();
  model.Settle(At(10), ReservationId(1), Settlement::kCharged, Tokens(1));
  EXPECT_EQ(model.limits()[0].ring().Used(At(10).nanos() / 1000),
            model.limits()[0].ring().Used(At(0).nanos() / 1000));
  EXPECT_LT(model.limits()[0].bucket().tat_us(), tat_us);
  const int64_t later_us = model.limits()[0].bucket().tat_us();
  model.Settle(At(70), ReservationId(2), Settlement::kCharged, Tokens(1));
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), later_us);
}

TEST(Window, CellsOfASecondTakeOneLargeRequestAlone) {
  // DashScope: 60,000 tokens a minute are also 1,000 a second.
  PoolModel model(Pool({Window(Dimension::kTokens, 60'000, absl::Seconds(1))}), At(-60));
  const ReserveAnswer first = model.Reserve(At(0), Request(1, Tokens(600)), kHorizon);
  const ReserveAnswer large = model.Reserve(At(0), Request(2, Tokens(2'500)), kHorizon);
  ASSERT_EQ(first.kind, Kind::kSendAt);
  EXPECT_EQ(large.kind, Kind::kRetryAt);
  const ReserveAnswer again = model.Reserve(At(4.1), Request(2, Tokens(2'500)), kHorizon);
  ASSERT_EQ(again.kind, Kind::kSendAt);
  EXPECT_GE(Seconds(again.at) - Seconds(first.at), 1);
  EXPECT_EQ(model.Reserve(At(0), Request(3, Tokens(60'001)), kHorizon).kind, Kind::kNeverFits);
}

TEST(Day, ABudgetOfTheDayIsFreeAtOnceAndThenUsedUp) {
  PoolModel model(Pool({PerDay(Dimension::kRequestsPerDay, 50)}), At(0));
  for (uint64_t id = 1; id <= 50; ++id) {
    ASSERT_EQ(model.Reserve(At(0), Request(id, Tokens(10)), kHorizon).kind, Kind::kSendAt);
  }
  const ReserveAnswer over = model.Reserve(At(1), Request(51, Tokens(10)), kHorizon);
  EXPECT_EQ(over.kind, Kind::kRetryAt);
  EXPECT_EQ(over.binding, Dimension::kRequestsPerDay);
  EXPECT_EQ(model.Reserve(At(86'000), Request(52, Tokens(10)), kHorizon).kind, Kind::kRetryAt);
  EXPECT_EQ(model.Reserve(At(86'800), Request(53, Tokens(10)), kHorizon).kind, Kind::kSendAt);
}

TEST(Day, TokensOfTheDayCountInputAndOutput) {
  PoolModel model(Pool({PerDay(Dimension::kTokensPerDay, 1'000)}), At(0));
  EXPECT_EQ(model.Reserve(At(0), Request(1, Costs{1, 0, 700, 200, 1, 0, 0}), kHorizon).kind,
            Kind::kSendAt);
  EXPECT_EQ(model.Reserve(At(0), Request(2, Costs{1, 101, 0, 0, 1, 0, 0}), kHorizon).kind,
            Kind::kRetryAt);
  EXPECT_EQ(model.Reserve(At(0), Request(3, Costs{1, 100, 0, 0, 1, 0, 0}), kHorizon).kind,
            Kind::kSendAt);
  EXPECT_EQ(model.Reserve(At(0), Request(4, Costs{1, 1'001, 0, 0, 1, 0, 0}), kHorizon).kind,
            Kind::kNeverFits);
}

TEST(Ramp, TrafficGrowsByTheProvidersRuleWhileItIsUsed) {
  DimensionSpec spec = PerMinute(Dimension::kTokens, 6'000'000);
  spec.ramp_start = 3'000'000;
  spec.ramp_growth = 0.1;
  PoolModel model(Pool({spec}), At(0));
  uint64_t id = 0;
  std::vector<int64_t> per_minute(20, 0);
  for (double now = 0; now < 1200; now += 0.1) {
    while (true) {
      const ReserveAnswer answer =
          model.Reserve(At(now), Request(++id, Tokens(2'000)), absl::ZeroDuration());
      if (answer.kind != Kind::kSendAt) break;
      per_minute[static_cast<size_t>(now / 60)] += 2'000;
      model.Settle(At(now), ReservationId(id), Settlement::kCharged, Tokens(2'000));
    }
  }
  EXPECT_NEAR(static_cast<double>(per_minute[0]), 3.15e6, 0.1e6);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_NEAR(static_cast<double>(per_minute[i]) / static_cast<double>(per_minute[i - 1]), 1.1,
                0.02)
        << i;
  }
  EXPECT_NEAR(static_cast<double>(per_minute[12]), 6e6, 0.05e6);
  // A ramp penalty cuts once, and it grows again.
  Penalty penalty;
  penalty.kind = Penalty::Kind::kRamp;
  penalty.sent_at = At(1200);
  for (int i = 0; i < 30; ++i) model.Penalize(At(1201), penalty);
  EXPECT_NEAR(model.Snapshot(At(1201)).rate_share, 0.8, 0.01);
  // After a quarter of an hour without traffic it starts again.
  model.Reserve(At(3000), Request(++id, Tokens(1)), kHorizon);
  EXPECT_NEAR(model.Snapshot(At(3000)).rate_share, 0.5, 0.01);
}

TEST(Ramp, WhatIsNotUsedDoesNotGrow) {
  DimensionSpec spec = PerMinute(Dimension::kTokens, 6'000'000);
  spec.ramp_start = 3'000'000;
  spec.ramp_growth = 0.1;
  PoolModel model(Pool({spec}), At(0));
  uint64_t id = 0;
  for (double now = 1; now < 600; now += 1) {
    model.Reserve(At(now), Request(++id, Tokens(2'000)), kHorizon);
  }
  EXPECT_NEAR(model.Snapshot(At(600)).rate_share, 0.5, 0.02);
}

}  // namespace
}  // namespace headrace::quota
