// Workers of a cluster that find together how many calls in flight pay, while the cluster changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/integration/cluster/steady.h"
#include "tests/support/sim_cluster.h"

namespace headrace {
namespace {

constexpr int64_t kSlots = 30;

SimClusterOptions Auto() {
  SimClusterOptions options;
  options.rows = 9000;
  options.batch_size = 40;
  options.auto_in_flight = true;
  options.worker_in_flight = 1000;
  options.weather.latency = {absl::Milliseconds(500), absl::Milliseconds(1500)};
  options.weather.slots = kSlots;
  return options;
}

void ExpectNearSlots(SimCluster* c, absl::string_view when) {
  const FoundInFlight found = c->runner().found_in_flight()[0];
  std::cout << when << ": " << found.found << ": " << found.why << "\n";
  EXPECT_GE(found.found, kSlots * 8 / 10) << when;
  EXPECT_LE(found.found, kSlots * 12 / 10) << when;
}

Task<void> WorkersComeAndGo(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(120));
  ExpectNearSlots(c, "two workers");
  c->StartWorker("c");
  co_await c->Wait(absl::Seconds(60));
  ExpectNearSlots(c, "three workers");
  c->FindWorker("a")->Kill(absl::ZeroDuration());
  co_await c->Wait(absl::Seconds(60));
  ExpectNearSlots(c, "one was killed");
}

TEST(ClusterInFlight, WorkersThatComeAndGoKeepToOneNumber) {
  SimClusterOptions options = Auto();
  SimCluster c(options);
  c.Run(WorkersComeAndGo(&c));
  ExpectAllOk(&c);
}

Task<void> CoordinatorRestarts(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(90));
  ExpectNearSlots(c, "before");
  c->CrashCoordinator(FaultDisk::Survivors::kAll);
  co_await c->Wait(absl::Seconds(2));
  c->StartCoordinator();
  co_await c->Wait(absl::Seconds(100));
  ExpectNearSlots(c, "after a restart");
}

TEST(ClusterInFlight, ACoordinatorThatStartsAgainFindsItAgain) {
  SimCluster c(Auto());
  c.Run(CoordinatorRestarts(&c));
  ExpectAllOk(&c);
}

}  // namespace
}  // namespace headrace
