// Providers, and the pools that describe them as they are: for worlds in which no call may be
// rejected.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_MATCHES_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_MATCHES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/random.h"
#include "simulator/quota_world.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {

inline constexpr int64_t kTokensPerMinute = 600'000;

inline DimensionSpec TokenWindow(int64_t limit, absl::Duration window, absl::Duration guard) {
  DimensionSpec spec = PerMinute(Dimension::kTokens, limit);
  spec.mechanics = Mechanics::kWindow;
  spec.window = window;
  spec.guard = guard;
  spec.burst = std::min(window / 4, absl::Seconds(5));
  return spec;
}

// A provider and the pool that describes it.
struct Match {
  std::string name;
  std::vector<simulator::LimitSpec> provider;
  std::vector<DimensionSpec> pool;
  double utilisation = 0.995;
  bool fills = true;                      // a client can use 99 % of it
  int64_t most = kTokensPerMinute / 200;  // tokens of a call
};

inline std::vector<Match> Matches(Random* random) {
  const absl::Duration guard = absl::Milliseconds(50);  // the way takes 1 to 31 ms
  simulator::LimitSpec limit{.kind = simulator::LimitKind::kTokens, .limit = kTokensPerMinute};
  std::vector<Match> matches;
  for (const double seconds : {60.0, 1.0}) {
    limit.mechanics = simulator::Mechanics::kBucket;
    limit.capacity = static_cast<int64_t>(kTokensPerMinute / 60 * seconds);
    matches.push_back({absl::StrCat("bucket of ", seconds, " s"),
                       {limit},
                       {PerMinute(Dimension::kTokens, kTokensPerMinute)}});
  }
  limit.capacity = 0;
  limit.mechanics = simulator::Mechanics::kWindow;
  for (const int seconds : {60, 10, 1}) {
    limit.period = absl::Seconds(seconds);
    limit.offset = limit.period * random->Unit();
    matches.push_back({absl::StrCat("fixed ", seconds, " s"),
                       {limit},
                       {TokenWindow(kTokensPerMinute, limit.period, guard)},
                       1,
                       seconds == 60});
  }
  limit.period = absl::Minutes(1);
  limit.offset = absl::ZeroDuration();
  limit.mechanics = simulator::Mechanics::kSliding;
  matches.push_back(
      {"sliding 60 s", {limit}, {TokenWindow(kTokensPerMinute, limit.period, guard)}, 1});
  // Slots are freed at the provider before we hear of it, and taken before the request arrives.
  limit.kind = simulator::LimitKind::kInFlight;
  limit.mechanics = simulator::Mechanics::kGauge;
  limit.limit = 20;
  matches.push_back({"gauge", {limit}, {Slots(20)}, 1, false});
  // Cells of a second, of a quarter of the limit at first.
  limit = simulator::LimitSpec{.kind = simulator::LimitKind::kTokens, .limit = kTokensPerMinute};
  limit.mechanics = simulator::Mechanics::kRamp;
  limit.start = 0.25;
  limit.growth = 0.1;
  DimensionSpec ramp = PerMinute(Dimension::kTokens, kTokensPerMinute);
  ramp.burst = absl::ZeroDuration();
  ramp.ramp_start = kTokensPerMinute / 6;
  ramp.ramp_growth = 0.06;
  matches.push_back({"ramp", {limit}, {ramp}, 0.8, false, 200});
  return matches;
}

inline simulator::WorldOptions World(simulator::MakePoolStore make, const Match& match,
                                     uint64_t seed) {
  simulator::WorldOptions options;
  options.make_store = make;
  options.provider = match.provider;
  options.pool = Pool(match.pool, match.utilisation);
  options.seed = seed;
  options.most = match.most;
  options.median = static_cast<double>(match.most) / 3;
  options.streams = 80;
  options.duration = absl::Minutes(3);
  options.warm_up = absl::Minutes(1);
  return options;
}

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_MATCHES_H_
