// Whole clusters in virtual time, each from one seed: whatever breaks, nothing that was
// acknowledged is lost, no item has two lines, and when the faults are over the jobs end. SimChecks
// and SimCluster say what is checked.
//
//   HEADRACE_SIM_SEEDS=1001-9999 cluster_simulation_test    for a night
//   HEADRACE_SIM_SEEDS=17 cluster_simulation_test           one world again, exactly
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "tests/support/sim_chaos.h"

namespace headrace {
namespace {

std::pair<uint64_t, uint64_t> Seeds() {
  std::pair<uint64_t, uint64_t> seeds{1, 222};
  const char* text = getenv("HEADRACE_SIM_SEEDS");
  if (text == nullptr) return seeds;
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  HR_CHECK(absl::SimpleAtoi(ends.front(), &seeds.first) &&
           absl::SimpleAtoi(ends.back(), &seeds.second))
      << "HEADRACE_SIM_SEEDS is a seed or a range of them, not " << text;
  return seeds;
}

TEST(ClusterSimulation, NoWorldLosesOrRepeatsAnItem) {
  const auto [first, last] = Seeds();
  std::map<SimFault, int64_t> injected;
  SimNetwork::Counts network;
  int64_t acks = 0;
  int64_t twice = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message()
                 << "again: HEADRACE_SIM_SEEDS=" << seed << " cluster_simulation_test");
    SimCluster cluster(RandomWorld(seed));
    cluster.Run(Chaos(&cluster, &injected));
    if (IsGentle(seed)) {
      EXPECT_LE(cluster.paid_twice(), cluster.undelivered());
    }
    const SimNetwork::Counts& counts = cluster.network().counts();
    network.lost += counts.lost;
    network.repeated += counts.repeated;
    network.reordered += counts.reordered;
    network.broken += counts.broken;
    network.held += counts.held;
    network.refused += counts.refused;
    acks += cluster.checks().acks();
    twice += cluster.paid_twice();
    if (HasFailure()) {
      std::cerr << "seed " << seed << " failed\n";
      return;
    }
  }
  std::cout << "injected:";
  for (const auto& [fault, count] : injected)
    std::cout << " " << SimFaultName(fault) << "=" << count;
  std::cout << "\nnetwork: lost=" << network.lost << " repeated=" << network.repeated
            << " reordered=" << network.reordered << " broken=" << network.broken
            << " held=" << network.held << " refused=" << network.refused
            << "\nchunks acknowledged: " << acks << ", answers paid for twice: " << twice << "\n";
  if (last - first < 100) return;
  for (int i = 0; i < kNumSimFaults; ++i) {
    EXPECT_GT(injected[static_cast<SimFault>(i)], 0) << SimFaultName(static_cast<SimFault>(i));
  }
  EXPECT_GT(network.lost, 0);
  EXPECT_GT(network.repeated, 0);
  EXPECT_GT(network.reordered, 0);
  EXPECT_GT(network.broken, 0);
  EXPECT_GT(network.held, 0);
  EXPECT_GT(network.refused, 0);
}

}  // namespace
}  // namespace headrace
