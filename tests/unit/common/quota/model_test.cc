#include "common/quota/model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

using Kind = ReserveAnswer::Kind;
constexpr absl::Duration kHorizon = absl::Seconds(2);

MonoTime At(double seconds) {
  return MonoTime::FromNanos(static_cast<int64_t>(1e15) + static_cast<int64_t>(seconds * 1e9));
}
// So that a pool has saved up its burst when a test begins at 0.
const MonoTime kLongAgo = At(-3600);
double Seconds(MonoTime time) { return static_cast<double>(time.nanos() - 1e15) / 1e9; }

ReserveRequest Request(uint64_t id, Costs costs, uint64_t job = 1) {
  ReserveRequest request;
  request.id = ReservationId(id);
  request.job_id = job;
  request.costs = costs;
  return request;
}

Penalty Rate(absl::Duration retry_after, MonoTime sent_at) {
  Penalty penalty;
  penalty.dimension = Dimension::kTokens;
  penalty.retry_after = retry_after;
  penalty.sent_at = sent_at;
  return penalty;
}

// Everything that admission depends on.
std::vector<int64_t> StateOf(const PoolModel& model, MonoTime now) {
  std::vector<int64_t> state;
  for (const RateLimit& limit : model.limits()) {
    state.push_back(limit.bucket().tat_us());
    state.push_back(limit.bucket().tat_ticks());
    if (limit.windowed()) state.push_back(limit.ring().Used(now.nanos() / 1000));
  }
  for (const int64_t charged : model.Snapshot(now).charged_last_minute) state.push_back(charged);
  state.push_back(model.open());
  return state;
}

TEST(PoolModel, ARequestLargerThanTheBurstIsAdmittedAndDelaysTheNext) {
  // cases.md F2: a limit of 60,000 a minute cut into slices of 1,000 never admits 1,500.
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  const ReserveAnswer first = model.Reserve(At(0), Request(1, Tokens(1500)), kHorizon);
  EXPECT_EQ(first.kind, Kind::kSendAt);
  EXPECT_EQ(first.at, At(0));
  const ReserveAnswer second = model.Reserve(At(0), Request(2, Tokens(1500)), kHorizon);
  EXPECT_EQ(second.kind, Kind::kSendAt);
  EXPECT_EQ(second.at, At(1.25));
  EXPECT_EQ(second.binding, Dimension::kTokens);
}

TEST(PoolModel, TheWholeLimitInOneRequestFitsAndOneMoreNeverDoes) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  EXPECT_EQ(model.Reserve(At(0), Request(1, Tokens(60'001)), kHorizon).kind, Kind::kNeverFits);
  EXPECT_EQ(model.Reserve(At(0), Request(2, Tokens(60'000)), kHorizon).kind, Kind::kSendAt);
}

// With a quota divided among workers, a request larger than one worker's part is not larger than
// the provider's limit.
TEST(PoolModel, ARequestLargerThanAWorkersPartOfTheLimitFitsUpToTheWholeLimit) {
  DimensionSpec part = PerMinute(Dimension::kTokens, 6'000);
  part.whole_limit = 60'000;
  PoolModel model(Pool({part}), kLongAgo);
  EXPECT_EQ(model.Reserve(At(0), Request(1, Tokens(60'000)), kHorizon).kind, Kind::kSendAt);
  EXPECT_EQ(model.Reserve(At(0), Request(2, Tokens(60'001)), kHorizon).kind, Kind::kNeverFits);
}

TEST(PoolModel, BeyondTheHorizonNothingIsTakenAndTheTimeToAskAgainIsSaid) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(10'000)), kHorizon);
  const std::vector<int64_t> before = StateOf(model, At(0));
  const ReserveAnswer answer = model.Reserve(At(0), Request(2, Tokens(1)), kHorizon);
  EXPECT_EQ(answer.kind, Kind::kRetryAt);
  // Due at 9.75 s: bookable from 7.75 s on, asked for an eighth of the horizon later.
  EXPECT_EQ(answer.at, At(8.0));
  EXPECT_EQ(StateOf(model, At(0)), before);
  EXPECT_EQ(model.Reserve(At(8), Request(2, Tokens(1)), kHorizon).at, At(9.75));
}

TEST(PoolModel, ARefusalByOneLimitLeavesTheOthersUntouched) {
  // cases.md F13: what was admitted on limit 1 and refused by limit 2 must not be rolled back from
  // an old snapshot.
  PoolModel model(Pool({PerMinute(Dimension::kRequests, 6000),
                        PerMinute(Dimension::kTokens, 60'000), Slots(2)}),
                  kLongAgo);
  EXPECT_EQ(model.Reserve(At(0), Request(1, Tokens(100)), kHorizon).kind, Kind::kSendAt);
  EXPECT_EQ(model.Reserve(At(0), Request(2, Tokens(100)), kHorizon).kind, Kind::kSendAt);
  const std::vector<int64_t> before = StateOf(model, At(0));
  const ReserveAnswer full = model.Reserve(At(0), Request(3, Tokens(100)), kHorizon);
  EXPECT_EQ(full.kind, Kind::kRetryAt);
  EXPECT_EQ(full.binding, Dimension::kInFlight);
  EXPECT_EQ(model.Reserve(At(0), Request(4, Tokens(70'000)), kHorizon).kind, Kind::kNeverFits);
  EXPECT_EQ(StateOf(model, At(0)), before);
  EXPECT_TRUE(model.Settle(At(0), ReservationId(1), Settlement::kCharged, Tokens(100)));
  EXPECT_EQ(model.Reserve(At(0), Request(3, Tokens(100)), kHorizon).kind, Kind::kSendAt);
}

TEST(PoolModel, RequestTokenInputOutputAndSlotLimitsAreKeptApart) {
  // cases.md F12: an output-token limit that is not modelled.
  PoolModel model(
      Pool({PerMinute(Dimension::kRequests, 60'000), PerMinute(Dimension::kInputTokens, 1'000'000),
            PerMinute(Dimension::kOutputTokens, 80'000)}),
      kLongAgo);
  const Costs costs = {1, 1200, 200, 1000, 1};
  model.Reserve(At(0), Request(1, costs), kHorizon);
  const ReserveAnswer second = model.Reserve(At(0), Request(2, costs), kHorizon);
  EXPECT_EQ(second.binding, Dimension::kOutputTokens);
  EXPECT_EQ(second.at, At(0.5));  // 1,000 of 80,000 a minute is 750 ms, less 250 ms of burst
  EXPECT_EQ(model.Snapshot(At(0)).limited_by, Dimension::kOutputTokens);
  EXPECT_EQ(model.Snapshot(At(6)).limited_by, std::nullopt);
}

TEST(PoolModel, ABookingOfTheBindingLimitDoesNotPileUpOnAnother) {
  // Large requests are booked ahead by tokens; small ones behind them must still respect requests.
  PoolModel model(
      Pool({PerMinute(Dimension::kRequests, 600), PerMinute(Dimension::kTokens, 60'000)}),
      kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(2000)), kHorizon);
  std::vector<double> at;
  for (uint64_t id = 2; id < 8; ++id) {
    const ReserveAnswer answer = model.Reserve(At(0), Request(id, Tokens(1)), kHorizon);
    ASSERT_EQ(answer.kind, Kind::kSendAt);
    at.push_back(Seconds(answer.at));
  }
  // 600 a minute: a burst of three at 1.75 s, then one per 100 ms.
  for (size_t i = 0; i < at.size(); ++i) {
    EXPECT_NEAR(at[i], i < 3 ? 1.75 : 1.5 + 0.1 * static_cast<double>(i), 0.01) << i;
  }
}

TEST(PoolModel, NotSentRefundsExactly) {
  PoolModel model(
      Pool({PerMinute(Dimension::kRequests, 997), PerMinute(Dimension::kTokens, 777'777)}, 0.995),
      kLongAgo);
  for (uint64_t id = 1; id <= 20; ++id) {
    model.Reserve(At(0), Request(id, Tokens(1000 + static_cast<int64_t>(id))), kHorizon);
  }
  const std::vector<int64_t> before = StateOf(model, At(0));
  for (uint64_t id = 21; id <= 25; ++id) {
    ASSERT_EQ(model.Reserve(At(0), Request(id, Tokens(777)), kHorizon).kind, Kind::kSendAt);
  }
  for (uint64_t id = 21; id <= 25; ++id) {
    model.Settle(At(0), ReservationId(id), Settlement::kNotSent, Costs{});
  }
  std::vector<int64_t> after = StateOf(model, At(0));
  // Requests were not binding: charged from the booked send times, they keep up to those.
  EXPECT_EQ(after[2], before[2]);
  EXPECT_EQ(after[3], before[3]);
  EXPECT_EQ(after.back(), before.back());
}

TEST(PoolModel, AWithdrawnBookingLeavesNoGapInFrontOfTheNext) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(1000)), kHorizon);
  model.Reserve(At(0), Request(2, Tokens(1000)), kHorizon);
  EXPECT_EQ(model.Reserve(At(0), Request(3, Tokens(1000)), kHorizon).at, At(1.75));
  model.Settle(At(0), ReservationId(3), Settlement::kNotSent, Costs{});
  model.Settle(At(0), ReservationId(2), Settlement::kNotSent, Costs{});
  EXPECT_EQ(model.Reserve(At(0), Request(4, Tokens(1000)), kHorizon).at, At(0.75));
}

TEST(PoolModel, WhatASettlementGivesBackIsUsedBehindTheBookedSends) {
  // In front of them it would double the rate until the last of them is out.
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(1500)), kHorizon);
  EXPECT_EQ(model.Reserve(At(0), Request(2, Tokens(600)), kHorizon).at, At(1.25));
  model.Settle(At(0.1), ReservationId(1), Settlement::kCharged, Tokens(1000));
  EXPECT_EQ(model.Reserve(At(0.1), Request(3, Tokens(600)), kHorizon).at, At(1.35));
  EXPECT_EQ(model.Reserve(At(0.2), Request(4, Tokens(600)), kHorizon).at, At(1.95));
  // Given back beyond that: never before what is booked.
  model.Settle(At(1.4), ReservationId(2), Settlement::kCharged, Tokens(1));
  model.Settle(At(1.4), ReservationId(3), Settlement::kCharged, Tokens(1));
  EXPECT_EQ(model.Reserve(At(1.4), Request(5, Tokens(600)), kHorizon).at, At(1.95));
}

TEST(PoolModel, ReserveAndSettleAreIdempotent) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PoolModel once(Pool({PerMinute(Dimension::kTokens, 600'000), Slots(50)}), kLongAgo);
    PoolModel often(Pool({PerMinute(Dimension::kTokens, 600'000), Slots(50)}), kLongAgo);
    std::vector<uint64_t> sent;
    double now = 0;
    for (uint64_t id = 1; id <= 500; ++id) {
      now += random.Unit() * 0.2;
      const Costs costs = Tokens(random.Between(int64_t{1}, int64_t{4000}));
      const ReserveAnswer expected = once.Reserve(At(now), Request(id, costs), kHorizon);
      for (int i = 0; i < 2; ++i) {
        const ReserveAnswer answer = often.Reserve(At(now), Request(id, costs), kHorizon);
        EXPECT_EQ(answer.kind, expected.kind);
        EXPECT_EQ(answer.at, expected.at);
      }
      if (expected.kind == Kind::kSendAt) sent.push_back(id);
      if (sent.empty()) continue;
      const ReservationId settled(sent[random.Below(sent.size())]);
      const Costs actual = Tokens(random.Between(int64_t{1}, int64_t{4000}));
      once.Settle(At(now), settled, Settlement::kCharged, actual);
      for (int i = 0; i < 3; ++i) {
        often.Settle(At(now), settled, Settlement::kCharged, actual);
        // The late twin of a question that was answered and settled long ago takes nothing.
        EXPECT_EQ(often.Reserve(At(now), Request(settled.value(), costs), kHorizon).kind,
                  Kind::kSendAt);
      }
      ASSERT_EQ(StateOf(once, At(now)), StateOf(often, At(now)));
    }
  }
}

TEST(PoolModel, ACancellationThatOvertakesItsQuestionWins) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  model.Settle(At(0), ReservationId(7), Settlement::kNotSent, Costs{});
  model.Reserve(At(0), Request(7, Tokens(5000)), kHorizon);
  EXPECT_EQ(model.open(), 0);
  EXPECT_EQ(model.Snapshot(At(0)).charged_last_minute, Costs{});
}

TEST(PoolModel, SettlementConservesWhatActualCostsKnownInAdvanceWouldHaveCharged) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PoolModel estimated(Pool({PerMinute(Dimension::kTokens, 777'777)}, 0.995), kLongAgo);
    PoolModel known(Pool({PerMinute(Dimension::kTokens, 777'777)}, 0.995), kLongAgo);
    // Backlogged: a debt of ten seconds stands in front, so that no credit is ever floored.
    const Costs debt = Tokens(130'000);
    estimated.Reserve(At(0), Request(1, debt), absl::Seconds(60));
    known.Reserve(At(0), Request(1, debt), absl::Seconds(60));
    std::vector<Costs> actual;
    for (uint64_t id = 2; id < 40; ++id) {
      actual.push_back(Tokens(random.Between(int64_t{1}, int64_t{3000})));
      const Costs estimate = Tokens(random.Between(int64_t{1}, int64_t{3000}));
      estimated.Reserve(At(0), Request(id, estimate), absl::Seconds(60));
      known.Reserve(At(0), Request(id, actual.back()), absl::Seconds(60));
    }
    for (uint64_t id = 2; id < 40; ++id) {
      estimated.Settle(At(0), ReservationId(id), Settlement::kCharged, actual[id - 2]);
    }
    EXPECT_EQ(estimated.limits()[0].bucket().tat_us(), known.limits()[0].bucket().tat_us());
    EXPECT_EQ(estimated.limits()[0].bucket().tat_ticks(), known.limits()[0].bucket().tat_ticks());
    EXPECT_EQ(estimated.Snapshot(At(0)).charged_last_minute,
              known.Snapshot(At(0)).charged_last_minute);
  }
}

TEST(PoolModel, ARejectedAttemptKeepsItsRequestAndReleasesItsTokens) {
  PoolModel model(
      Pool({PerMinute(Dimension::kRequests, 600), PerMinute(Dimension::kTokens, 60'000)}),
      kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(1000)), kHorizon);
  model.Settle(At(0), ReservationId(1), Settlement::kRejected, Costs{});
  const Costs charged = model.Snapshot(At(0)).charged_last_minute;
  EXPECT_EQ(charged[static_cast<size_t>(Dimension::kRequests)], 1);
  EXPECT_EQ(charged[static_cast<size_t>(Dimension::kTokens)], 0);
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), At(0.1).nanos() / 1000);
  EXPECT_EQ(model.limits()[1].bucket().tat_us(), At(0).nanos() / 1000);
}

TEST(PoolModel, AnAttemptOfUnknownFateStaysCharged) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000), Slots(1)}), kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(1000)), kHorizon);
  const int64_t tat_us = model.limits()[0].bucket().tat_us();
  model.Settle(At(5), ReservationId(1), Settlement::kUnknown, Costs{});
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), tat_us);
  EXPECT_EQ(model.open(), 0);
}

TEST(PoolModel, AClockThatStepsBackOrLeapsGrantsNoMoreThanTheBurst) {
  // cases.md F9: an older time moves the last refill back, and the bucket is filled twice.
  PoolModel model(Pool({PerMinute(Dimension::kRequests, 600)}), kLongAgo);
  uint64_t id = 0;
  for (const double now : {0.0, -5.0, 3600.0, 3000.0, 0.0}) {
    int at_once = 0;
    const double effective = now >= 3600 || now == 3000 || id > 10 ? 3600 : 0;
    while (true) {
      const ReserveAnswer answer = model.Reserve(At(now), Request(++id, Tokens(1)), kHorizon);
      if (answer.kind != Kind::kSendAt || Seconds(answer.at) > effective) break;
      ++at_once;
    }
    EXPECT_LE(at_once, 3) << now;
    if (now == 3600.0) EXPECT_EQ(at_once, 3);
  }
}

TEST(PoolModel, WhatNobodySettlesExpiresStaysChargedAndFreesItsSlot) {
  PoolSpec spec = Pool({PerMinute(Dimension::kTokens, 60'000), Slots(1)});
  spec.reservation_timeout = absl::Seconds(90);
  PoolModel model(spec, kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(1000)), kHorizon);
  EXPECT_EQ(model.Reserve(At(89), Request(2, Tokens(1)), kHorizon).kind, Kind::kRetryAt);
  const int64_t tat_us = model.limits()[0].bucket().tat_us();
  EXPECT_EQ(model.Reserve(At(90), Request(2, Tokens(0)), kHorizon).kind, Kind::kSendAt);
  EXPECT_EQ(model.Snapshot(At(90)).expired, 1);
  EXPECT_GE(model.limits()[0].bucket().tat_us(), tat_us);
  // Too late: it is not refunded, and does not free another's slot.
  model.Settle(At(91), ReservationId(1), Settlement::kNotSent, Costs{});
  EXPECT_EQ(model.open(), 1);
}

TEST(PoolModel, AGateNeverShortensAndOpensWithoutABurst) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  EXPECT_TRUE(model.Penalize(At(10), Rate(absl::Seconds(5), At(9))));
  EXPECT_FALSE(model.Penalize(At(11), Rate(absl::Seconds(1), At(9))));
  const ReserveAnswer gated = model.Reserve(At(12), Request(1, Tokens(100)), kHorizon);
  EXPECT_EQ(gated.kind, Kind::kRetryAt);
  EXPECT_EQ(gated.at, At(15));
  EXPECT_EQ(gated.binding, Dimension::kTokens);
  double last = 0;
  for (uint64_t id = 1; id <= 10; ++id) {
    const ReserveAnswer answer = model.Reserve(At(15), Request(id, Tokens(100)), kHorizon);
    ASSERT_EQ(answer.kind, Kind::kSendAt);
    last = Seconds(answer.at);
    EXPECT_GE(last, 15 + 0.1 * static_cast<double>(id - 1) - 0.001);
  }
  EXPECT_NEAR(last, 15.9, 0.03);  // the rate was cut by 2 %
}

TEST(PoolModel, AGateTakesBackTheChargesOfBookedSendsOnce) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  for (uint64_t id = 1; id <= 4; ++id) model.Reserve(At(0), Request(id, Tokens(600)), kHorizon);
  // At 0.1 s the first is out; 2, 3 and 4 are booked at 0.35, 0.95 and 1.55 s.
  model.Penalize(At(0.1), Rate(absl::Seconds(5), At(0)));
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), At(0.6).nanos() / 1000);
  model.Settle(At(0.1), ReservationId(2), Settlement::kNotSent, Costs{});
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), At(0.6).nanos() / 1000);
  // One that was sent all the same is charged in full.
  model.Settle(At(0.2), ReservationId(3), Settlement::kCharged, Tokens(600));
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), At(1.2).nanos() / 1000);
  model.Settle(At(0.2), ReservationId(4), Settlement::kUnknown, Costs{});
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), At(1.8).nanos() / 1000);
  EXPECT_EQ(model.open(), 1);
}

TEST(PoolModel, OneCongestionEventCutsTheRateOnceAndItGrowsBack) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  Penalty ramp;
  ramp.kind = Penalty::Kind::kRamp;
  ramp.sent_at = At(0);
  for (int i = 0; i < 64; ++i) model.Penalize(At(1 + 0.01 * i), ramp);
  EXPECT_NEAR(model.Snapshot(At(2)).rate_share, 0.8, 0.004);
  EXPECT_EQ(model.Snapshot(At(2)).penalties, 64);
  ramp.sent_at = At(3);
  for (int i = 0; i < 3; ++i) model.Penalize(At(4), ramp);
  EXPECT_NEAR(model.Snapshot(At(4)).rate_share, 0.64, 0.01);
  EXPECT_NEAR(model.Snapshot(At(4 + 60)).rate_share, 0.667, 0.01);
  EXPECT_EQ(model.Snapshot(At(4 + 3600)).rate_share, 1);
  // However often it is cut, a sixteenth stays.
  for (int i = 0; i < 64; ++i) {
    ramp.sent_at = At(4000 + 2 * i);
    for (int k = 0; k < 3; ++k) model.Penalize(At(4001 + 2 * i), ramp);
  }
  EXPECT_NEAR(model.Snapshot(At(4127)).rate_share, 1.0 / 16, 0.004);
}

TEST(PoolModel, AnOverloadCutsWhatIsInFlightAndLeavesTheQuotaAlone) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 6'000'000), Slots(1000)}), kLongAgo);
  uint64_t id = 0;
  for (int i = 0; i < 100; ++i) model.Reserve(At(0), Request(++id, Tokens(1)), kHorizon);
  const int64_t tat_us = model.limits()[0].bucket().tat_us();
  Penalty overload;
  overload.kind = Penalty::Kind::kCapacity;
  overload.sent_at = At(0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(model.Penalize(At(1), overload));
  EXPECT_EQ(model.limits()[0].bucket().tat_us(), tat_us);
  EXPECT_EQ(model.Snapshot(At(1)).rate_share, 1);
  for (uint64_t settled = 1; settled <= 31; ++settled) {
    model.Settle(At(1), ReservationId(settled), Settlement::kCharged, Tokens(1));
  }
  EXPECT_EQ(model.Hint().free_slots, 0);  // 69 in flight, 70 % of 100 allowed, counted down
  model.Settle(At(1), ReservationId(32), Settlement::kCharged, Tokens(1));
  EXPECT_EQ(model.Hint().free_slots, 1);
  model.Reserve(At(300), Request(++id, Tokens(1)), kHorizon);
  EXPECT_EQ(model.Hint().free_slots, 1000 - 69);
}

TEST(PoolModel, StrayFailuresCutNothing) {
  // One call in a hundred fails at any speed; cutting for each of them would end at the floor.
  for (const bool limited : {false, true}) {
    PoolModel model(limited ? Pool({PerMinute(Dimension::kTokens, 60'000'000), Slots(1000)})
                            : Pool({Slots(1000)}),
                    kLongAgo);
    Random random(1);
    double now = 0;
    for (uint64_t id = 1; id <= 50'000; ++id) {
      now += 0.01;
      ASSERT_EQ(model.Reserve(At(now), Request(id, Tokens(10)), kHorizon).kind, Kind::kSendAt);
      if (!random.Chance(0.01)) {
        model.Settle(At(now), ReservationId(id), Settlement::kCharged, Tokens(10));
        continue;
      }
      model.Settle(At(now), ReservationId(id), Settlement::kRejected, Costs{});
      Penalty penalty;
      penalty.kind = random.Chance(0.5) ? Penalty::Kind::kCapacity : Penalty::Kind::kRate;
      penalty.sent_at = At(now - 0.005);
      model.Penalize(At(now), penalty);
    }
    EXPECT_EQ(model.Snapshot(At(now)).capacity_share, 1);
    EXPECT_EQ(model.Snapshot(At(now)).rate_share, 1);
  }
}

TEST(PoolModel, AStoppedAccountAnswersClosedWithTheReason) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  Penalty stop;
  stop.kind = Penalty::Kind::kStop;
  stop.text = "no credit left";
  EXPECT_TRUE(model.Penalize(At(0), stop));
  const ReserveAnswer answer = model.Reserve(At(0), Request(1, Tokens(1)), kHorizon);
  EXPECT_EQ(answer.kind, Kind::kClosed);
  EXPECT_EQ(answer.text, "no credit left");
  EXPECT_TRUE(model.Snapshot(At(0)).closed);
}

TEST(PoolModel, AChangeOfLimitsMintsNoCreditAndForgivesNoDebt) {
  PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
  model.Reserve(At(0), Request(1, Tokens(5000)), kHorizon);
  // A debt of 5,000 tokens: five seconds of the old rate, ten of the new one.
  model.Reconfigure(At(0), Pool({PerMinute(Dimension::kTokens, 30'000)}));
  EXPECT_EQ(model.Reserve(At(0), Request(2, Tokens(1)), absl::Seconds(60)).at, At(9.5));
  model.Settle(At(0), ReservationId(2), Settlement::kNotSent, Costs{});
  model.Reconfigure(At(0), Pool({PerMinute(Dimension::kTokens, 60'000)}));
  EXPECT_EQ(model.Reserve(At(0), Request(3, Tokens(1)), absl::Seconds(60)).at, At(4.75));
}

TEST(PoolModel, HoweverOftenLimitsChangeNoMoreThanTheLargestRateIsSent) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PoolModel model(Pool({PerMinute(Dimension::kTokens, 60'000)}), kLongAgo);
    double now = 0;
    int64_t sent = 0;
    uint64_t id = 0;
    while (now < 30) {
      now += 0.01 + random.Unit() * 0.1;
      model.Reconfigure(
          At(now),
          Pool({PerMinute(Dimension::kTokens, 6'000 * random.Between(int64_t{1}, int64_t{10}))}));
      // Nothing is booked ahead: what is sent is sent now.
      while (model.Reserve(At(now), Request(++id, Tokens(50)), absl::ZeroDuration()).kind ==
             Kind::kSendAt) {
        sent += 50;
      }
    }
    EXPECT_LE(static_cast<double>(sent), 1000 * (now + 0.25) + 50);
    EXPECT_GT(sent, 5'000);
  }
}

TEST(PoolModel, EveryNumberOfItsStateStaysExactInADouble) {
  // The widest spec: a month, the largest limit, the smallest share, an absurd actual cost.
  DimensionSpec spec = PerMinute(Dimension::kTokens, 1'000'000'000'000);
  spec.period = absl::Hours(24 * 31);
  for (const int64_t limit : {int64_t{1}, int64_t{7}, int64_t{1'000'000'000'000}}) {
    spec.limit = limit;
    const Bucket bucket(spec, 0.1);
    const int64_t ticks = bucket.Ticks(std::numeric_limits<int64_t>::max(), kMinShare);
    EXPECT_GT(ticks, 0);
    EXPECT_LT(ticks, int64_t{1} << 53);
    EXPECT_LT(bucket.Ticks(1, kFullShare) * kFullShare, int64_t{1} << 53);
  }
}

}  // namespace
}  // namespace headrace::quota
