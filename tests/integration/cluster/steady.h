// What the scripts of clusters share.
#ifndef HEADRACE_TESTS_INTEGRATION_CLUSTER_STEADY_H_
#define HEADRACE_TESTS_INTEGRATION_CLUSTER_STEADY_H_

#include <gtest/gtest.h>

#include "tests/support/sim_cluster.h"

namespace headrace {

// Calls take long against the beat, and short against a lease.
inline SimClusterOptions Steady() {
  SimClusterOptions options;
  options.weather.latency = {absl::Seconds(1), absl::Seconds(2)};
  return options;
}

// Of the first job, in the newest process of the coordinator.
inline const JobTotals& Totals(SimCluster* c) { return c->last_coordinator().runner(0).totals(); }

// Every line of every job, after Run().
inline void ExpectAllOk(SimCluster* c) {
  for (size_t job = 0; job < c->jobs().size(); ++job) {
    for (const auto& [item, error_class] : c->lines(job)) {
      EXPECT_EQ(error_class, ErrorClass::kNone) << "item " << item;
    }
  }
}

}  // namespace headrace

#endif  // HEADRACE_TESTS_INTEGRATION_CLUSTER_STEADY_H_
