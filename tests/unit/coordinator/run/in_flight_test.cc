#include "coordinator/run/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/async/virtual_reactor.h"
#include "common/quota/memory_store.h"
#include "tests/support/flight_crowd.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

JobConfig AutoJob() {
  JobConfig job;
  job.auto_in_flight = true;
  PoolJob pool;
  pool.name = "p";
  job.pools.push_back(pool);
  return job;
}

v1::PoolState Says(int64_t limit) {
  v1::PoolState state;
  state.set_job_id(7);
  state.set_pool("p");
  state.set_in_flight_limit(limit);
  return state;
}

MonoTime At(double seconds) { return MonoTime::FromNanos(static_cast<int64_t>(seconds * 1e9)); }

TEST(InFlightControl, TellsAWorkerThatSaysAnotherNumberItsPart) {
  InFlightControl control(AutoJob(), 7);
  EXPECT_FALSE(control.OnBeat(At(1), WorkerKey(1), Says(16)).has_value());
  const auto second = control.OnBeat(At(1), WorkerKey(2), Says(16));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->limit.limit(), 8);
  EXPECT_EQ(second->limit.job_id(), 7u);
  EXPECT_EQ(second->limit.pool(), "p");
  EXPECT_EQ(control.OnBeat(At(2), WorkerKey(1), Says(16))->limit.limit(), 8);
  EXPECT_FALSE(control.OnBeat(At(2), WorkerKey(2), Says(8)).has_value());
}

TEST(InFlightControl, ThePartsComeToTheNumberAndNoneIsNothing) {
  InFlightControl control(AutoJob(), 7);
  for (uint64_t w = 1; w <= 5; ++w) control.OnBeat(At(1), WorkerKey(w), Says(1));
  int64_t sum = 0;
  for (uint64_t w = 1; w <= 5; ++w) {
    sum += control.OnBeat(At(2), WorkerKey(w), Says(1))->limit.limit();
  }
  EXPECT_EQ(sum, quota::KneeFinder::kStart);
  for (uint64_t w = 6; w <= 40; ++w) control.OnBeat(At(2), WorkerKey(w), Says(100));
  EXPECT_EQ(control.OnBeat(At(2), WorkerKey(40), Says(100))->limit.limit(), 1);
}

TEST(InFlightControl, AWorkerThatIsGoneLeavesItsPart) {
  InFlightControl control(AutoJob(), 7);
  control.OnBeat(At(1), WorkerKey(1), Says(8));
  control.OnBeat(At(1), WorkerKey(2), Says(8));
  control.OnBeat(At(4), WorkerKey(1), Says(8));
  control.Tick(At(4.5));  // the other one has missed three beats
  EXPECT_EQ(control.OnBeat(At(5), WorkerKey(1), Says(8))->limit.limit(), 16);
}

TEST(InFlightControl, APoolWithANumberOfItsOwnIsNotSoughtUnlessAllAre) {
  JobConfig job;
  job.pools.resize(2);
  job.pools[0].name = "fixed";
  job.pools[0].max_in_flight = 100;
  job.pools[1].name = "p";
  job.pools[1].auto_in_flight = true;
  InFlightControl control(job, 7);
  ASSERT_EQ(control.Found().size(), 1u);
  EXPECT_EQ(control.Found()[0].pool, "p");
  job.auto_in_flight = true;
  EXPECT_EQ(InFlightControl(job, 7).Found().size(), 2u);
}

TEST(InFlightControl, WhatRedisFindsIsRemembered) {
  InFlightControl control(AutoJob(), 7);
  v1::PoolState state = Says(240);
  state.set_shared(true);
  state.set_in_flight_why("throughput stopped growing at 240");
  EXPECT_FALSE(control.OnBeat(At(1), WorkerKey(1), state).has_value());
  EXPECT_EQ(control.Found()[0].limit, 240);
  EXPECT_EQ(control.Found()[0].why, "throughput stopped growing at 240");
}

// Workers with pools in their own memories, and the coordinator's tick.
struct Cluster {
  Cluster(int workers, quota::FlightCrowdOptions options) : reactor(options.seed) {
    quota::PoolSpec spec;
    spec.name = "p";
    spec.auto_in_flight = true;
    std::vector<quota::PoolStore*> pools;
    for (int i = 0; i < workers; ++i) {
      stores.push_back(
          std::make_unique<quota::MemoryPoolStore>(&reactor, std::vector<quota::PoolSpec>{spec}));
      pools.push_back(stores.back().get());
    }
    crowd = std::make_unique<quota::FlightCrowd>(
        &reactor, options, pools,
        [this](size_t worker, const quota::FlightSample& sample) { OnSample(worker, sample); });
  }

  void OnSample(size_t worker, const quota::FlightSample& sample) {
    v1::PoolState state = Says(stores[worker]->Hint("p").in_flight_limit);
    for (const int64_t number : sample.ToNumbers()) state.add_in_flight_sample(number);
    const auto part = control.OnBeat(reactor.Now(), WorkerKey(worker + 1), state);
    if (part.has_value()) Tell(*part);
  }
  void Tell(const InFlightControl::Part& part) {
    stores[part.worker.value() - 1]->SetInFlight("p", part.limit.limit());
  }

  static Task<void> Tick(Cluster* self, StopToken stop) {
    while (true) {
      Sleep wait(&self->reactor, absl::Seconds(1), stop);
      const bool waited = co_await wait;
      if (!waited) co_return;
      for (const auto& part : self->control.Tick(self->reactor.Now())) self->Tell(part);
    }
  }
  static Task<void> Main(Cluster* self, absl::Duration duration) {
    TaskScope scope(&self->reactor, StopToken());
    scope.Spawn(Tick(self, scope.token()));
    co_await self->crowd->Run(duration);
    scope.RequestStop(StopReason{StopCode::kOwnerDone, {}});
    co_await scope.Join();
  }
  void Run(absl::Duration duration) { reactor.Run(Main(this, duration)); }

  VirtualReactor reactor;
  InFlightControl control{AutoJob(), 7};
  std::vector<std::unique_ptr<quota::MemoryPoolStore>> stores;
  std::unique_ptr<quota::FlightCrowd> crowd;
};

TEST(InFlightControl, SeveralWorkersFindOneNumberTogether) {
  for (const int workers : {1, 2, 5}) {
    for (uint64_t seed = 1; seed <= 2; ++seed) {
      SCOPED_TRACE(testing::Message() << workers << " workers, seed " << seed);
      quota::FlightCrowdOptions options;
      options.seed = seed;
      Cluster cluster(workers, options);
      cluster.Run(absl::Seconds(240));
      const FoundInFlight found = cluster.control.Found()[0];
      std::cout << workers << " workers, seed " << seed << ": " << found.found << ": " << found.why
                << "\n";
      EXPECT_GE(found.found, 24);
      EXPECT_LE(found.found, 36);
      // 30 slots of a second each, nearly all of the time.
      EXPECT_GE(cluster.crowd->answered, 240 * 30 * 8 / 10);
      EXPECT_THAT(found.why, HasSubstr("latency"));
    }
  }
}

}  // namespace
}  // namespace headrace
