// What can go wrong in a cluster, one script each, in virtual time. SimCluster checks at the end of
// each what holds at the end of any history.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "common/base/status.h"
#include "tests/integration/cluster/steady.h"
#include "tests/support/sim_cluster.h"

namespace headrace {
namespace {

using Survivors = FaultDisk::Survivors;
using Verdict = SimNetwork::Verdict;

// ---------------------------------------------------------------------------------------------
// Workers that share, join and leave

Task<void> ThreeWorkers(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  c->StartWorker("c");
  co_return;
}

TEST(ClusterScenario, ThreeWorkersShareTwoJobsAndPayForEachItemOnce) {
  SimClusterOptions options;
  options.jobs = 2;
  options.models = 2;
  SimCluster c(options);
  c.Run(ThreeWorkers(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.provider().answered_ok, 120);
  EXPECT_EQ(c.paid_twice(), 0);
  for (int process = 0; process < 3; ++process) {
    EXPECT_GT(c.worker(process).paid(), 15) << "a worker had little to do";
  }
}

Task<void> WorkerFirst(SimCluster* c) {
  c->StartWorker("a");
  co_await c->Wait(absl::Seconds(90));
  EXPECT_GT(c->network().counts().refused, 10);
  c->StartCoordinator();
}

TEST(ClusterScenario, AWorkerThatStartsBeforeTheCoordinatorWaitsForIt) {
  SimCluster c(Steady());
  c.Run(WorkerFirst(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> DrainOne(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  co_await c->Wait(absl::Seconds(3));
  EXPECT_GT(c->runner().leased_items(), 4);
  c->StartWorker("b");
  c->worker(a).Drain();
  // Calls under way end; what was not started is back long before a lease would have expired.
  auto gone = [c, a] { return c->worker(a).gone(); };
  const bool left = co_await c->WaitFor(gone, absl::Seconds(3));
  EXPECT_TRUE(left);
  EXPECT_TRUE(c->worker(a).status().ok()) << c->worker(a).status();
  EXPECT_TRUE(c->runner().leases().lost().empty());
}

TEST(ClusterScenario, AWorkerThatDrainsGivesBackItsBatchesAtOnce) {
  SimCluster c(Steady());
  c.Run(DrainOne(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
  EXPECT_EQ(Totals(&c).lost_batches, 0);
  EXPECT_GT(Totals(&c).given_back, 0);
}

Task<void> LateHelper(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  // By now it knows its pace and holds what is left, some of it behind its line.
  co_await c->Wait(absl::Seconds(13));
  EXPECT_GT(c->runner().leased_items(), 15) << "the first worker has everything";
  c->StartWorker("b");
}

TEST(ClusterScenario, AnIdleWorkerGetsAPartOfTheLastBatch) {
  SimClusterOptions options = Steady();
  options.rows = 55;
  options.batch_size = 30;
  options.worker_in_flight = 10;
  options.weather.latency = {absl::Seconds(4), absl::Milliseconds(4200)};
  SimCluster c(options);
  c.Run(LateHelper(&c));
  EXPECT_GT(Totals(&c).split_batches, 0);
  EXPECT_GE(c.worker(1).paid(), 1);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> Twins(SimCluster* c) {
  c->StartCoordinator();
  const int first = c->StartWorker("a");
  co_await c->Wait(absl::Seconds(3));
  const int second = c->StartWorker("a");
  auto gone = [c, first] { return c->worker(first).gone(); };
  const bool ended = co_await c->WaitFor(gone, absl::Seconds(2));
  EXPECT_TRUE(ended);
  EXPECT_EQ(c->worker(first).status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(c->worker(first).status().message()),
              testing::HasSubstr("another process has connected as worker a"));
  EXPECT_TRUE(c->worker(second).running());
  EXPECT_GT(Totals(c).lost_batches, 0) << "what the first one had waits for the end of its lease";
}

TEST(ClusterScenario, OfTwoProcessesWithOneIdTheNewerOneStays) {
  SimCluster c(Steady());
  c.Run(Twins(&c));
  ExpectAllOk(&c);
}

// ---------------------------------------------------------------------------------------------
// Workers that are lost

Task<void> Kill(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  c->worker(a).Kill(absl::Milliseconds(100));
  const int64_t held = c->runner().leased_items();
  co_await c->Wait(absl::Seconds(2));
  EXPECT_TRUE(c->runner().leases().lost().empty()) << "a broken stream is no lost lease";
  EXPECT_GT(held, 0);
}

TEST(ClusterScenario, AWorkerThatIsKilledLosesItsBatchesAfterOneLease) {
  SimCluster c(Steady());
  c.Run(Kill(&c));
  ExpectAllOk(&c);
  EXPECT_GT(Totals(&c).lost_batches, 0);
}

Task<void> Zombie(SimCluster* c, bool calls) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  c->worker(a).Freeze(absl::Seconds(9), calls);
  auto lost = [c] { return Totals(c).lost_batches > 0; };
  const bool expired = co_await c->WaitFor(lost, absl::Seconds(7));
  EXPECT_TRUE(expired);
}

TEST(ClusterScenario, AZombieThatWentOnCallingDoesNoHarm) {
  SimClusterOptions options = Steady();
  options.rows = 60;
  SimCluster c(options);
  c.Run(Zombie(&c, /*calls=*/false));
  ExpectAllOk(&c);
  EXPECT_GT(Totals(&c).superseded, 0);
  EXPECT_EQ(Totals(&c).superseded, c.paid_twice()) << "each call made twice is counted";
  EXPECT_TRUE(c.worker(0).status().ok()) << c.worker(0).status();
}

TEST(ClusterScenario, AZombieThatStoodStillDoesNoHarm) {
  SimClusterOptions options = Steady();
  options.rows = 60;
  SimCluster c(options);
  c.Run(Zombie(&c, /*calls=*/true));
  ExpectAllOk(&c);
  EXPECT_TRUE(c.worker(0).status().ok()) << c.worker(0).status();
}

Task<void> AloneAndFrozen(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  co_await c->Wait(absl::Seconds(3));
  c->worker(a).Freeze(absl::Seconds(9), /*calls=*/true);
}

TEST(ClusterScenario, AZombieWhoseBatchesNobodyTookGoesOnWithThem) {
  SimCluster c(Steady());
  c.Run(AloneAndFrozen(&c));
  ExpectAllOk(&c);
  EXPECT_GT(Totals(&c).lost_batches, 0);
  EXPECT_EQ(Totals(&c).cancelled, 0) << "calls under way were thrown away";
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> KilledOver(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  c->StartWorker("c");
  co_return;
}

TEST(ClusterScenario, AnItemThatKillsItsWorkersGetsItsOwnOutcome) {
  SimClusterOptions options = Steady();
  options.poison_item = 7;
  options.worker_restart = absl::Seconds(1);
  SimCluster c(options);
  c.Run(KilledOver(&c));
  for (const auto& [item, error_class] : c.lines()) {
    EXPECT_EQ(error_class, item == 7 ? ErrorClass::kPoison : ErrorClass::kNone) << item;
  }
  // Two to suspect the batch, one for each halving of five, and the last ones alone.
  EXPECT_LE(c.provider().calls_by_key[SimChecks::Key(1, 7)], 8);
}

// Calls take 15 s. The batch goes from a to b and, when b is lost too, to a again: by the stream of
// its return, or first by one that is dead and not known to be.
Task<void> ThereAndBack(SimCluster* c, bool known_to_be_away) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  co_await c->Wait(absl::Seconds(1));
  if (known_to_be_away) c->network().Break(a, absl::ZeroDuration(), absl::ZeroDuration());
  c->worker(a).Freeze(absl::Seconds(12), /*calls=*/false);
  const int b = c->StartWorker("b");
  auto moved = [c] { return c->provider().calls == 2; };
  const bool called = co_await c->WaitFor(moved, absl::Seconds(8));
  EXPECT_TRUE(called) << "the second worker did not get the batch";
  c->worker(b).Kill(absl::ZeroDuration());
}

TEST(ClusterScenario, ABatchThatComesBackToItsFirstWorkerGoesOnWithTheCallUnderWay) {
  SimClusterOptions options = Steady();
  options.rows = 1;
  options.weather.latency = {absl::Seconds(15), absl::Seconds(15)};
  SimCluster c(options);
  c.Run(ThereAndBack(&c, /*known_to_be_away=*/true));
  ExpectAllOk(&c);
  EXPECT_EQ(Totals(&c).lost_batches, 2);
  EXPECT_EQ(c.provider().calls, 2) << "the call that was under way was given up";
  EXPECT_EQ(c.paid_twice(), 0);
}

TEST(ClusterScenario, AGrantThatWasLostWithItsStreamIsNoLostWorker) {
  SimClusterOptions options = Steady();
  options.rows = 1;
  options.weather.latency = {absl::Seconds(15), absl::Seconds(15)};
  SimCluster c(options);
  c.Run(ThereAndBack(&c, /*known_to_be_away=*/false));
  // A third loss would make it poison.
  ExpectAllOk(&c);
  EXPECT_EQ(Totals(&c).lost_batches, 2);
  EXPECT_EQ(c.paid_twice(), 0);
}

// ---------------------------------------------------------------------------------------------
// Streams and messages

Task<void> HalfOpen(SimCluster* c, absl::Duration at_worker, absl::Duration at_coordinator) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  c->network().Break(a, at_worker, at_coordinator);
}

TEST(ClusterScenario, AStreamThatIsOpenForTheWorkerOnlyCostsNoItem) {
  // As long as a keepalive needs.
  SimCluster c(Steady());
  c.Run(HalfOpen(&c, absl::Seconds(40), absl::ZeroDuration()));
  ExpectAllOk(&c);
}

TEST(ClusterScenario, AStreamThatIsOpenForTheCoordinatorOnlyIsReplaced) {
  SimCluster c(Steady());
  c.Run(HalfOpen(&c, absl::ZeroDuration(), absl::InfiniteDuration()));
  ExpectAllOk(&c);
  EXPECT_EQ(Totals(&c).lost_batches, 0);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> BreakOften(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  const int b = c->StartWorker("b");
  while (!c->complete()) {
    co_await c->Wait(c->random().Between(absl::ZeroDuration(), absl::Seconds(2)));
    c->network().Break(c->random().Chance(0.5) ? a : b,
                       c->random().Between(absl::ZeroDuration(), absl::Milliseconds(300)),
                       c->random().Between(absl::ZeroDuration(), absl::Milliseconds(300)));
  }
}

TEST(ClusterScenario, StreamsThatBreakAllTheTimeCostNoCall) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    SimClusterOptions options = Steady();
    options.seed = seed;
    SimCluster c(options);
    c.Run(BreakOften(&c));
    ExpectAllOk(&c);
    EXPECT_EQ(c.paid_twice(), 0);
    EXPECT_EQ(Totals(&c).lost_batches, 0);
  }
}

Task<void> LoseGrants(SimCluster* c, int* lost) {
  c->network().set_to_worker([lost](int, const v1::CoordinatorMessage& message) {
    const bool lose = message.has_grant() && *lost < 4;
    *lost += lose;
    return lose ? Verdict::kLose : Verdict::kDeliver;
  });
  c->StartCoordinator();
  c->StartWorker("a");
  co_return;
}

TEST(ClusterScenario, AGrantThatIsLostGivesItsCreditsBack) {
  SimCluster c(Steady());
  int lost = 0;
  c.Run(LoseGrants(&c, &lost));
  EXPECT_EQ(lost, 4);
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> LoseAcks(SimCluster* c, int* lost) {
  const MonoTime until = c->reactor().Now() + absl::Seconds(12);
  c->network().set_to_worker([c, until, lost](int, const v1::CoordinatorMessage& message) {
    const bool lose = message.has_ack() && c->reactor().Now() < until;
    *lost += lose;
    return lose ? Verdict::kLose : Verdict::kDeliver;
  });
  c->StartCoordinator();
  c->StartWorker("a");
  co_await c->Wait(absl::Seconds(11));
  EXPECT_GT(c->worker(0).worker().stats().unacked_bytes, 0u);
  c->worker(0).Drain();
  c->StartWorker("b");
}

TEST(ClusterScenario, LostAcksAreAskedForAgain) {
  SimClusterOptions options = Steady();
  options.rows = 60;
  SimCluster c(options);
  int lost = 0;
  c.Run(LoseAcks(&c, &lost));
  EXPECT_GT(lost, 10);
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
  EXPECT_TRUE(c.worker(0).status().ok()) << c.worker(0).status();
}

Task<void> LoseChunks(SimCluster* c, int* chunks) {
  c->network().set_to_coordinator([chunks](int, const v1::WorkerMessage& message) {
    if (!message.has_results()) return Verdict::kDeliver;
    return ++*chunks % 3 == 0 ? Verdict::kLose : Verdict::kTwice;
  });
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_return;
}

TEST(ClusterScenario, ChunksThatAreLostOrComeTwiceCountOnce) {
  SimCluster c(Steady());
  int chunks = 0;
  c.Run(LoseChunks(&c, &chunks));
  EXPECT_GT(chunks, 10);
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
  EXPECT_EQ(Totals(&c).superseded, 0);
}

Task<void> RepeatGrants(SimCluster* c) {
  c->network().set_to_worker([](int, const v1::CoordinatorMessage& message) {
    return message.has_grant() ? Verdict::kTwice : Verdict::kDeliver;
  });
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_return;
}

TEST(ClusterScenario, AGrantThatComesTwiceIsRunOnce) {
  SimCluster c(Steady());
  c.Run(RepeatGrants(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.provider().calls, 30);
}

// Messages take two of the ten seconds of a lease; what a says is lost once it has called. Its
// third item would start after the coordinator has given up the lease and before ten seconds from
// the last renewal.
Task<void> LateRenewals(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  auto calling = [c] { return c->provider().calls == 2; };
  const bool called = co_await c->WaitFor(calling, absl::Seconds(20));
  EXPECT_TRUE(called);
  co_await c->Wait(absl::Milliseconds(500));
  c->network().set_to_coordinator([a](int process, const v1::WorkerMessage&) {
    return process == a ? Verdict::kLose : Verdict::kDeliver;
  });
  co_await c->Wait(absl::Seconds(30));
  EXPECT_EQ(c->provider().calls, 2);
  c->network().set_to_coordinator(nullptr);
}

TEST(ClusterScenario, ARenewalThatComesLateExtendsNoLease) {
  SimClusterOptions options = Steady();
  options.rows = 10;
  options.lease = absl::Seconds(10);
  options.worker_in_flight = 2;
  options.weather.latency = {absl::Milliseconds(13'500), absl::Milliseconds(13'500)};
  options.network.delay = {absl::Seconds(2), absl::Seconds(2)};
  SimCluster c(options);
  c.Run(LateRenewals(&c));
  ExpectAllOk(&c);
  EXPECT_GT(Totals(&c).lost_batches, 0);
}

// The provider refuses row 13 when it answers a, who is cut off, and answers it when b asks.
Task<void> LateFailure(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  co_await c->Wait(absl::Seconds(1));
  c->worker(a).Freeze(absl::Seconds(12), /*calls=*/false);
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(10));
  Weather weather = c->options().weather;
  weather.bad_request = 0;
  c->provider().set_weather(weather);
}

TEST(ClusterScenario, ALateFailureProvesNothingWhileAnotherWorkerHasTheItem) {
  SimClusterOptions options = Steady();
  options.rows = 14;
  options.batch_size = 14;
  options.worker_in_flight = 14;
  options.weather.latency = {absl::Seconds(8), absl::Seconds(8)};
  options.weather.bad_request = 1;
  SimCluster c(options);
  c.Run(LateFailure(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.provider().calls_by_key[SimChecks::Key(1, 13)], 2);
}

}  // namespace
}  // namespace headrace
