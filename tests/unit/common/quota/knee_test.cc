// A KneeFinder against queues, many seeds each. What a seed does is repeated exactly.
#include "common/quota/knee.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/unit/common/quota/knee_world.h"

namespace headrace::quota {
namespace {

struct Seen {
  int seeds = 0;
  int within = 0;      // seeds that ended within 20 % of the knee
  double slowest = 0;  // seconds until the first number within 20 %, of the slowest seed
  double steady = 1;   // share of the time from then on within 20 %, of the worst seed
  double least = 10;   // of the numbers at the end, as shares of the knee
  double most = 0;
  int64_t least_answers = 0;  // in the second half of the time, per second
};

bool IsNear(int64_t base, double knee) {
  // One call more or less is more than 20 % of four.
  const double room = std::max(0.2 * knee, 1.0);
  return std::abs(static_cast<double>(base) - knee) <= room;
}

Seen Try(const KneeWorldOptions& options, double knee, int seconds, int seeds = 10) {
  Seen seen;
  for (int seed = 1; seed <= seeds; ++seed) {
    KneeWorld world(options, static_cast<uint64_t>(seed));
    KneeFinder finder;
    int first = -1;
    int near = 0;
    for (int t = 0; t < seconds; ++t) {
      const FlightSample sample = world.Run(finder.limit());
      finder.Step(static_cast<int64_t>(world.now() * 1e6), sample, options.workers);
      const bool is_near = !finder.growing() && IsNear(finder.base(), knee);
      if (is_near && first < 0) first = t;
      if (first >= 0) near += is_near;
    }
    ++seen.seeds;
    const double end = static_cast<double>(finder.base()) / knee;
    const bool within = IsNear(finder.base(), knee);
    seen.within += within;
    seen.least = std::min(seen.least, end);
    seen.most = std::max(seen.most, end);
    seen.slowest = std::max(seen.slowest, first < 0 ? 1e9 : static_cast<double>(first));
    if (first >= 0) {
      seen.steady =
          std::min(seen.steady, static_cast<double>(near) / static_cast<double>(seconds - first));
    }
    if (!within) {
      std::cout << "seed " << seed << " ended at " << finder.base() << ": " << finder.why() << "\n";
    }
  }
  std::cout << "within " << seen.within << " of " << seen.seeds << ", slowest " << seen.slowest
            << " s, steady " << seen.steady << ", ends " << seen.least << " to " << seen.most
            << " of the knee\n";
  return seen;
}

TEST(KneeFinder, FindsTheSlotsOfAQueueWithinAMinuteOrTwo) {
  for (const int64_t slots : {10, 100, 400, 1500}) {
    SCOPED_TRACE(testing::Message() << slots << " slots");
    KneeWorldOptions options;
    options.slots = slots;
    const Seen seen = Try(options, static_cast<double>(slots), 600, slots > 1000 ? 3 : 10);
    EXPECT_EQ(seen.within, seen.seeds);
    EXPECT_LE(seen.slowest, 120);
    EXPECT_GE(seen.steady, 0.95);
  }
}

TEST(KneeFinder, GoesDownToAServerThatTakesFewCalls) {
  for (const int64_t slots : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << slots << " slots");
    KneeWorldOptions options;
    options.slots = slots;
    options.latency = 0.5;
    const Seen seen = Try(options, static_cast<double>(slots), 900);
    EXPECT_EQ(seen.within, seen.seeds);
    EXPECT_LE(seen.slowest, 600);  // two calls a second are few to go by
  }
}

TEST(KneeFinder, IsNotFooledByNoiseWithoutTokenCounts) {
  KneeWorldOptions options;
  options.noise = 1;
  options.counts_tokens = false;
  const Seen seen = Try(options, 100, 1500);
  EXPECT_EQ(seen.within, seen.seeds);
  EXPECT_LE(seen.slowest, 900);
}

TEST(KneeFinder, IsNotFooledByLongAnswers) {
  KneeWorldOptions options;
  options.token_share = 0.95;
  options.token_noise = 1.2;
  options.noise = 0.2;
  const Seen seen = Try(options, 100, 900);
  EXPECT_EQ(seen.within, seen.seeds);
  EXPECT_GE(seen.steady, 0.9);
}

TEST(KneeFinder, IsNotFooledByAProviderWhosePaceWanders) {
  KneeWorldOptions options;
  options.wander = 0.15;
  const Seen seen = Try(options, 100, 1200);
  EXPECT_GE(seen.within, seen.seeds - 1);
  EXPECT_GE(seen.steady, 0.8);
}

TEST(KneeFinder, TakesMinutesWhereCallsTakeHalfAMinute) {
  KneeWorldOptions options;
  options.slots = 300;
  options.latency = 25;
  const Seen seen = Try(options, 300, 2400, 6);
  EXPECT_EQ(seen.within, seen.seeds);
  EXPECT_LE(seen.slowest, 600);
}

TEST(KneeFinder, StaysBelowAHardLimit) {
  for (const int64_t limit : {30, 300}) {
    SCOPED_TRACE(testing::Message() << limit << " at most");
    KneeWorldOptions options;
    options.slots = 1000;
    options.hard_limit = limit;
    const Seen seen = Try(options, static_cast<double>(limit), 900);
    EXPECT_EQ(seen.within, seen.seeds);
    EXPECT_LE(seen.slowest, 200);
    EXPECT_LE(seen.most, 1.001);
  }
}

TEST(KneeFinder, AProviderThatFailsAShareOfAllCallsIsNotHelpedByFewer) {
  for (const double failing : {0.03, 0.1, 0.3}) {
    SCOPED_TRACE(testing::Message() << failing << " of the calls get 503");
    KneeWorldOptions options;
    options.failing = failing;
    const Seen seen = Try(options, 100, 1200);
    EXPECT_EQ(seen.within, seen.seeds);
  }
}

// Runs `world` with `finder` for so long; false when the limit or the base ever leave the range.
void Go(KneeWorld* world, KneeFinder* finder, int seconds) {
  for (int t = 0; t < seconds; ++t) {
    const FlightSample sample = world->Run(finder->limit());
    finder->Step(static_cast<int64_t>(world->now() * 1e6), sample, world->options().workers);
  }
}

TEST(KneeFinder, FollowsAKneeThatMoves) {
  for (const auto& [from, to] : {std::pair{100, 400}, std::pair{400, 100}, std::pair{200, 150}}) {
    for (int seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(testing::Message() << from << " to " << to << ", seed " << seed);
      KneeWorldOptions options;
      options.slots = from;
      KneeWorld world(options, static_cast<uint64_t>(seed));
      KneeFinder finder;
      Go(&world, &finder, 400);
      EXPECT_TRUE(IsNear(finder.base(), from)) << finder.base() << ": " << finder.why();
      world.options().slots = to;
      Go(&world, &finder, 300);
      EXPECT_TRUE(IsNear(finder.base(), to)) << finder.base() << ": " << finder.why();
    }
  }
}

TEST(KneeFinder, ASlowerProviderWithTheSameSlotsKeepsItsNumber) {
  for (int seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    KneeWorld world(KneeWorldOptions(), static_cast<uint64_t>(seed));
    KneeFinder finder;
    Go(&world, &finder, 400);
    world.options().latency = 5;
    Go(&world, &finder, 400);
    EXPECT_TRUE(IsNear(finder.base(), 100)) << finder.base() << ": " << finder.why();
  }
}

TEST(KneeFinder, AQuotaThatIsUsedUpNeitherRaisesNorLowersTheNumber) {
  KneeWorldOptions options;
  options.slots = 400;
  KneeWorld world(options, 1);
  KneeFinder finder;
  Go(&world, &finder, 400);
  const int64_t found = finder.base();
  EXPECT_TRUE(IsNear(found, 400));
  world.options().per_second = 20;  // about 50 in flight
  Go(&world, &finder, 600);
  EXPECT_EQ(finder.base(), found);
  EXPECT_EQ(finder.limit(), found);
  world.options().per_second = 0;
  Go(&world, &finder, 200);
  EXPECT_TRUE(IsNear(finder.base(), 400)) << finder.why();
}

TEST(KneeFinder, AQuotaFromTheStartLetsTheNumberGrowNoFurtherThanItIsUsed) {
  KneeWorldOptions options;
  options.slots = 1000;
  options.per_second = 20;
  KneeWorld world(options, 1);
  KneeFinder finder;
  Go(&world, &finder, 900);
  EXPECT_LE(finder.limit(), 128) << "about 50 are in flight";
}

TEST(KneeFinder, TheTailOfAJobChangesNothing) {
  KneeWorldOptions options;
  KneeWorld world(options, 2);
  KneeFinder finder;
  Go(&world, &finder, 300);
  const int64_t found = finder.base();
  for (int left = 90; left > 0; left -= 10) {
    world.options().demand = left;
    Go(&world, &finder, 20);
  }
  EXPECT_EQ(finder.base(), found);
}

TEST(KneeFinder, AProviderOutOfOrderIsAskedLessAndFoundAgain) {
  for (int seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    KneeWorld world(KneeWorldOptions(), static_cast<uint64_t>(seed));
    KneeFinder finder;
    Go(&world, &finder, 300);
    const int64_t found = finder.base();
    world.options().failing = 1;
    Go(&world, &finder, 120);
    EXPECT_LE(finder.limit(), found * 3 / 4);
    world.options().failing = 0;
    Go(&world, &finder, 400);
    EXPECT_TRUE(IsNear(finder.base(), 100)) << finder.base() << ": " << finder.why();
  }
}

TEST(KneeFinder, ManyWorkersAreOneToIt) {
  KneeWorldOptions options;
  options.workers = 20;
  const Seen seen = Try(options, 100, 600, 3);
  EXPECT_EQ(seen.within, seen.seeds);
}

TEST(KneeFinder, NeverLeavesItsBounds) {
  for (int seed = 1; seed <= 4; ++seed) {
    KneeWorldOptions options;
    options.slots = 1000;
    KneeWorld world(options, static_cast<uint64_t>(seed));
    KneeFinder finder(/*most=*/50);
    for (int t = 0; t < 300; ++t) {
      const FlightSample sample = world.Run(finder.limit());
      finder.Step(static_cast<int64_t>(world.now() * 1e6), sample, 1);
      ASSERT_GE(finder.limit(), 1);
      ASSERT_LE(finder.limit(), 50);
    }
    EXPECT_EQ(finder.base(), 50);
  }
}

TEST(KneeFinder, NonsenseMovesItNowhere) {
  KneeFinder finder;
  FlightSample nothing;
  for (int t = 0; t < 100; ++t) finder.Step(t * 1'000'000, nothing, 1);
  EXPECT_EQ(finder.limit(), KneeFinder::kStart);
  FlightSample odd =
      FlightSample::FromNumbers(std::vector<int64_t>(FlightSample::kNumbers, int64_t{1} << 52));
  for (int t = 100; t < 200; ++t) {
    finder.Step(t * 1'000'000, odd, 0);
    ASSERT_GE(finder.limit(), 1);
    ASSERT_LE(finder.limit(), KneeFinder::kMost);
  }
}

TEST(KneeFinder, SaysWhy) {
  KneeWorld world(KneeWorldOptions(), 1);
  KneeFinder finder;
  EXPECT_EQ(finder.why(), "begins at 16 and doubles while the calls per second follow");
  Go(&world, &finder, 300);
  EXPECT_NE(finder.why().find("throughput stopped growing at "), std::string::npos) << finder.why();
  EXPECT_NE(finder.why().find(" latency"), std::string::npos) << finder.why();
}

TEST(KneeFinder, GoesOnElsewhereAsIfItHadStayed) {
  KneeWorld world(KneeWorldOptions(), 3);
  KneeFinder stays;
  KneeFinder moves;
  for (int t = 0; t < 300; ++t) {
    const FlightSample sample = world.Run(stays.limit());
    const auto now_us = static_cast<int64_t>(world.now() * 1e6);
    stays.Step(now_us, sample, 1);
    moves.Step(now_us, sample, 1);
    const std::string text = moves.Save();
    std::optional<KneeFinder> loaded = KneeFinder::Load(text);
    ASSERT_TRUE(loaded.has_value()) << text;
    ASSERT_EQ(loaded->Save(), text);
    moves = *loaded;
    ASSERT_EQ(moves.limit(), stays.limit());
    ASSERT_EQ(moves.why(), stays.why());
  }
}

TEST(KneeFinder, ATextThatIsNotItsOwnIsRefused) {
  const std::string text = KneeFinder().Save();
  EXPECT_FALSE(KneeFinder::Load(""));
  EXPECT_FALSE(KneeFinder::Load("k0 1 2 3"));
  for (const char* number : {"inf", "nan", "-1e300", "9223372036854775807"}) {
    // In place of each number of the state, after the layout, the mode and the turn.
    std::vector<std::string> words = absl::StrSplit(text, ' ');
    for (size_t at = 3; at < 27; ++at) {
      std::vector<std::string> changed = words;
      changed[at] = number;
      EXPECT_FALSE(KneeFinder::Load(absl::StrJoin(changed, " "))) << at << " " << number;
    }
  }
  for (size_t cut = 0; cut + 80 < text.size(); ++cut) {
    EXPECT_FALSE(KneeFinder::Load(text.substr(0, cut))) << cut;
  }
}

}  // namespace
}  // namespace headrace::quota
