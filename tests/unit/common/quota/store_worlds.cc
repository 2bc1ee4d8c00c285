// Invariants of whole runs: workers, one store, and a provider that meters what really arrives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "tests/unit/common/quota/harness.h"
#include "tests/unit/common/quota/matches.h"
#include "tests/unit/common/quota/store_invariants.h"

namespace headrace::quota {
namespace {

using simulator::RunWorld;
using simulator::WorldOptions;
using simulator::WorldResult;

TEST_P(StoreInvariants, I2AProviderThatCountsAsThePoolSaysRejectsNothing) {
  for (int seed = 1; seed <= std::min(GetParam().seeds, 2); ++seed) {
    Random random(static_cast<uint64_t>(seed));
    for (const Match& match : Matches(&random)) {
      for (const bool refunds : {false, true}) {
        for (const bool counts_failed : {false, true}) {
          SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", match.name, refunds ? ", refunds" : "",
                                    counts_failed ? ", counts failed" : ""));
          WorldOptions options = World(GetParam().make, match, static_cast<uint64_t>(seed));
          options.duration *= GetParam().length;
          options.provider_refunds = refunds;
          options.counts_failed = counts_failed;
          options.over_estimate = refunds ? 0.3 : 0;
          options.workers = 1 + seed % 3;
          if (options.workers > 1) options.round_trip = absl::Milliseconds(1);
          const WorldResult result = RunWorld(options);
          EXPECT_EQ(result.rejected, 0);
          EXPECT_EQ(result.never, 0);
          EXPECT_EQ(result.left_open, 0);
          EXPECT_GT(result.accepted, 200);
        }
      }
    }
  }
}

TEST_P(StoreInvariants, I1NoIntervalSeesMoreThanRateBurstAndOneRequest) {
  for (int seed = 1; seed <= std::min(GetParam().seeds, 2); ++seed) {
    Random random(static_cast<uint64_t>(seed));
    for (const Match& match : Matches(&random)) {
      if (match.pool[0].mechanics == Mechanics::kGauge || match.name == "ramp") continue;
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", match.name));
      WorldOptions options = World(GetParam().make, match, static_cast<uint64_t>(seed));
      options.duration *= GetParam().length;
      options.record = true;
      options.workers = 3;
      options.round_trip = absl::Milliseconds(1);
      WorldResult result = RunWorld(options);
      if (match.pool[0].mechanics == Mechanics::kBucket) {
        // What is not drained at the full rate, before each send, is at most the burst.
        double level = 0;
        double last = 0;
        for (const simulator::Send& send : result.sends) {
          level = std::max(0.0, level - (send.arrived - last) * kTokensPerMinute / 60);
          last = send.arrived;
          level += static_cast<double>(send.costs[1]);
          ASSERT_LE(level - 2 * static_cast<double>(options.most),
                    kTokensPerMinute / 60 * (0.25 + 0.035));
        }
        continue;
      }
      std::sort(result.sends.begin(), result.sends.end(),
                [](const auto& a, const auto& b) { return a.arrived < b.arrived; });
      const double width = absl::ToDoubleSeconds(match.pool[0].window);
      const auto most = static_cast<int64_t>(kTokensPerMinute * width / 60);
      size_t from = 0;
      int64_t sum = 0;
      for (const simulator::Send& send : result.sends) {
        sum += send.costs[1];
        while (result.sends[from].arrived <= send.arrived - width) {
          sum -= result.sends[from++].costs[1];
        }
        ASSERT_LE(sum, most) << send.arrived;
      }
    }
  }
}

TEST_P(StoreInvariants, I3ABackloggedQuotaIsUsedToNinetyNinePercent) {
  Random random(7);
  for (const Match& match : Matches(&random)) {
    if (!match.fills) continue;
    for (const int workers : {1, 4}) {
      SCOPED_TRACE(absl::StrCat(match.name, ", ", workers, " workers"));
      WorldOptions options = World(GetParam().make, match, 1);
      options.duration = absl::Minutes(12 * std::max(0.5, GetParam().length));
      options.warm_up = absl::Minutes(2);
      options.workers = workers;
      if (workers > 1) options.round_trip = absl::Milliseconds(1);
      const WorldResult result = RunWorld(options);
      EXPECT_GE(result.used, 0.99);
      EXPECT_LE(result.used, 1.0);
      EXPECT_EQ(result.rejected, 0);
    }
  }
}

TEST_P(StoreInvariants, I16TheRateFollowsWhatSomebodyElseLeaves) {
  for (int seed = 1; seed <= std::min(GetParam().seeds, 2); ++seed) {
    Random random(static_cast<uint64_t>(seed));
    for (const Match& match : Matches(&random)) {
      if (!match.fills || match.name == "sliding 60 s") continue;  // says no level to go by
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", match.name));
      WorldOptions options = World(GetParam().make, match, static_cast<uint64_t>(seed));
      options.headers = true;
      options.outsider = 0.4;
      options.outsider_from = absl::Minutes(2);
      options.duration = absl::Minutes(8);
      options.warm_up = absl::Minutes(4);
      const WorldResult result = RunWorld(options);
      EXPECT_GT(result.used, 0.5);
      // Where a window is full, the other one gets nothing more either.
      EXPECT_LT(result.used, match.name == "fixed 60 s" ? 0.72 : 0.63);
      if (match.name == "bucket of 60 s") {
        // A minute's credit is time enough to follow.
        EXPECT_EQ(result.rejected, 0);
      } else {
        EXPECT_LE(result.rejected, result.accepted / 50);
      }
    }
  }
}

TEST_P(StoreInvariants, I21QuestionsDoNotGrowWithThoseThatWait) {
  Random random(1);
  const Match bucket = Matches(&random)[0];
  for (const int workers : {2, 16}) {
    double few = 0;  // questions a call with few that wait
    for (const int streams : {1'000, 3'000}) {
      WorldOptions options = World(GetParam().make, bucket, 1);
      options.workers = workers;
      options.streams = streams;
      options.round_trip = absl::Milliseconds(1);
      const WorldResult result = RunWorld(options);
      // Those that wait at the end are served after it.
      const auto calls = static_cast<double>(result.accepted);
      const double time = calls * options.median * 1.1 / (kTokensPerMinute / 60.0);
      const auto questions = static_cast<double>(result.questions);
      EXPECT_LE(questions, 2 * (calls + workers * time / 2));
      if (few == 0) few = questions / calls;
      EXPECT_LE(questions / calls, 1.2 * few);
    }
  }
}

// One flow that always has requests waiting, from `from` to `until`.
struct Competitor {
  uint64_t job = 0;
  uint32_t model = 0;
  double job_weight = 1;
  double weight = 1;
  int64_t tokens = 100;
  double from = 0;
  double until = 1e9;
};

// Tokens that each was given, by second.
std::vector<std::vector<double>> Compete(const StoreParam& param, const PoolSpec& spec,
                                         const std::vector<Competitor>& all, int seconds) {
  StoreAtWork store(param, spec);
  std::vector<std::vector<double>> given(all.size(),
                                         std::vector<double>(static_cast<size_t>(seconds) + 10));
  std::vector<uint64_t> waiting(all.size(), 0);
  uint64_t id = 0;
  std::deque<std::pair<MonoTime, uint64_t>> open;
  while (store.Since() < seconds) {
    // Each asks in its own batch, as a worker of its own would; who is first changes.
    for (size_t k = 0; k < all.size(); ++k) {
      const size_t i = (k + static_cast<size_t>(id)) % all.size();
      const Competitor& one = all[i];
      if (store.Since() < one.from || store.Since() >= one.until) continue;
      for (int round = 0; round < 20; ++round) {
        if (waiting[i] == 0) waiting[i] = ++id;
        ReserveRequest request{
            ReservationId(waiting[i]), one.job, one.model, one.weight, one.job_weight,
            Tokens(one.tokens)};
        const ReserveAnswer answer = store.Ask(std::vector<ReserveRequest>{request}).front();
        if (answer.kind != ReserveAnswer::Kind::kSendAt) break;
        given[i][static_cast<size_t>(std::max(0.0, store.Since(answer.at)))] +=
            static_cast<double>(one.tokens);
        store.Settle(waiting[i], Settlement::kCharged, Tokens(one.tokens));
        waiting[i] = 0;
      }
    }
    store.Pass(absl::Milliseconds(50));
  }
  return given;
}

double Sum(const std::vector<double>& given, int from, int until) {
  double sum = 0;
  for (int i = from; i < until; ++i) sum += given[static_cast<size_t>(i)];
  return sum;
}

TEST_P(StoreInvariants, I11JobsAndTheirModelsShareByWeightAndALoneJobHasAll) {
  const PoolSpec spec = Pool({PerMinute(Dimension::kTokens, 60'000)});
  const std::vector<Competitor> all = {
      {.job = 1, .model = 0, .job_weight = 2, .weight = 1},
      {.job = 1, .model = 1, .job_weight = 2, .weight = 3, .until = 60},
      {.job = 2, .job_weight = 1, .tokens = 700},
      {.job = 3, .job_weight = 1, .tokens = 30, .from = 40},
      {.job = 4, .from = 120, .until = 121}};
  const auto given = Compete(GetParam(), spec, all, 120);
  // Two jobs: 2 to 1, and 1 to 3 within the first.
  EXPECT_NEAR(Sum(given[0], 5, 38), 33'000.0 * 2 / 3 / 4, 900);
  EXPECT_NEAR(Sum(given[1], 5, 38), 33'000.0 * 2 / 3 * 3 / 4, 1'200);
  EXPECT_NEAR(Sum(given[2], 5, 38), 33'000.0 / 3, 1'500);
  // A third comes: 2 to 1 to 1.
  EXPECT_NEAR(Sum(given[3], 44, 59), 15'000.0 / 4, 900);
  // A model leaves: its job keeps its half.
  EXPECT_NEAR(Sum(given[0], 64, 114), 50'000.0 / 2, 1'500);
  EXPECT_NEAR(Sum(given[2], 64, 114), 50'000.0 / 4, 1'800);
  for (int second = 6; second < 114; second += 9) {
    double sum = 0;
    for (const auto& one : given) sum += Sum(one, second, second + 5);
    EXPECT_NEAR(sum, 5'000, 1'000) << second;  // nothing idles
  }
}

TEST_P(StoreInvariants, I11TheDifferenceOfServiceStaysBounded) {
  // |s_i / w_i - s_j / w_j| <= window and the largest request, in seconds of the pool; what is
  // booked within the horizon comes on top.
  const PoolSpec spec = Pool({PerMinute(Dimension::kTokens, 60'000)});
  const std::vector<Competitor> all = {{.job = 1, .job_weight = 1, .tokens = 50},
                                       {.job = 2, .job_weight = 2, .tokens = 700},
                                       {.job = 3, .job_weight = 0.5, .tokens = 200}};
  const auto given = Compete(GetParam(), spec, all, 120);
  std::vector<double> shares(all.size(), 0);
  for (int second = 4; second < 116; ++second) {
    for (size_t i = 0; i < all.size(); ++i) {
      shares[i] += given[i][static_cast<size_t>(second)] / 1'000 / all[i].job_weight;
    }
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    ASSERT_LE(*most - *least, 0.25 + 0.7 + 0.4 + 1) << second;
  }
}

}  // namespace
}  // namespace headrace::quota
