// Whole runs of several workers, each with a RedisPoolStore of its own in one real redis-server, in
// virtual time against providers that reject what is too much.
//
// HEADRACE_QUOTA_SEEDS=N runs seeds 1 to N of each instead of one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/async/virtual_reactor.h"
#include "tests/integration/quota/redis_at_work.h"
#include "tests/unit/common/quota/matches.h"

namespace headrace::quota {
namespace {

using simulator::WorldOptions;
using simulator::WorldResult;

int Seeds() {
  const char* text = std::getenv("HEADRACE_QUOTA_SEEDS");
  int seeds = 1;
  if (text != nullptr && !absl::SimpleAtoi(text, &seeds)) ADD_FAILURE() << "no number: " << text;
  return seeds;
}

class RedisWorlds : public testing::Test {
 protected:
  void SetUp() override {
    if (!redis::HasRedisServer()) GTEST_SKIP() << "redis-server is not installed";
  }

  static WorldOptions Shared(const Match& match, uint64_t seed, int workers) {
    WorldOptions options = World(&MakeRedisStore, match, seed);
    options.store_per_worker = true;
    options.workers = workers;
    return options;
  }
  static WorldResult Run(const WorldOptions& options) {
    ShareNextAccount();
    return simulator::RunWorld(options);
  }
  static int64_t LeftOpen(const WorldOptions& options) {
    VirtualReactor reactor;
    return SharedSnapshot(&reactor, options.pool).in_flight;
  }
};

TEST_F(RedisWorlds, I2NothingIsRejectedAndNothingStaysOpen) {
  const int seeds = Seeds();
  for (int seed = 1; seed <= seeds; ++seed) {
    Random random(static_cast<uint64_t>(seed) + 100);
    for (const Match& match : Matches(&random)) {
      for (const bool refunds : {false, true}) {
        for (const bool counts_failed : {false, true}) {
          SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", match.name, refunds ? ", refunds" : "",
                                    counts_failed ? ", counts failed" : ""));
          WorldOptions options = Shared(match, static_cast<uint64_t>(seed), 2 + seed % 5);
          options.provider_refunds = refunds;
          options.counts_failed = counts_failed;
          options.over_estimate = refunds ? 0.3 : 0;
          options.duration = absl::Minutes(0.75);
          const WorldResult result = Run(options);
          EXPECT_EQ(result.rejected, 0);
          EXPECT_EQ(result.never, 0);
          EXPECT_EQ(LeftOpen(options), 0);
          EXPECT_GT(result.accepted, 50);
        }
      }
    }
  }
}

TEST_F(RedisWorlds, I3EightWorkersUseAQuotaToNinetyNinePercent) {
  Random random(7);
  for (const Match& match : Matches(&random)) {
    if (!match.fills) continue;
    SCOPED_TRACE(match.name);
    WorldOptions options = Shared(match, 1, 8);
    options.duration = absl::Minutes(5);
    options.warm_up = absl::Minutes(1);
    const WorldResult result = Run(options);
    // What a window cannot give to one worker it has given to none a moment later.
    EXPECT_GE(result.used, match.pool[0].mechanics == Mechanics::kBucket ? 0.99 : 0.985);
    EXPECT_LE(result.used, 1.0);
    EXPECT_EQ(result.rejected, 0);
  }
}

TEST_F(RedisWorlds, I16TheRateFollowsWhatSomebodyElseLeaves) {
  Random random(1);
  const Match bucket = Matches(&random)[0];
  WorldOptions options = Shared(bucket, 1, 4);
  options.headers = true;
  options.outsider = 0.4;
  options.outsider_from = absl::Minutes(1);
  options.duration = absl::Minutes(4);
  options.warm_up = absl::Minutes(2);
  const WorldResult result = Run(options);
  EXPECT_GT(result.used, 0.55);
  EXPECT_LT(result.used, 0.63);
  ASSERT_GT(result.first_signal, 0);
  EXPECT_LT(result.last_rejection, result.first_signal + 3);
}

TEST_F(RedisWorlds, I21RoundTripsFollowCallsAndTimeNotThoseThatWait) {
  Random random(1);
  const Match bucket = Matches(&random)[0];
  for (const int workers : {1, 16}) {
    double few = 0;  // a call, with few that wait
    for (const int streams : {200, 1'000}) {
      WorldOptions options = Shared(bucket, 1, workers);
      options.streams = streams;
      options.duration = absl::Minutes(2);
      const WorldResult result = Run(options);
      const auto calls = static_cast<double>(result.accepted);
      const double time = calls * options.median * 1.1 / (kTokensPerMinute / 60.0);
      const auto trips = static_cast<double>(RoundTrips());
      // For each worker a beat a second, a question for what became free, and a settlement that
      // found neither; settlements of who asks often need no trip of their own.
      EXPECT_LE(trips, 0.7 * calls + 2.5 * workers * time) << workers << " workers, " << streams;
      RecordProperty(absl::StrCat("w", workers, "_", streams), absl::StrCat(trips / calls));
      if (few == 0) few = trips / calls;
      EXPECT_LE(trips / calls, 1.2 * few) << workers << " workers";
      if (workers == 1) EXPECT_LE(trips / calls, 0.8);
    }
  }
}

}  // namespace
}  // namespace headrace::quota
