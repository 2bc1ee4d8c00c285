// Shares of a pool between jobs: by weight while they compete, all of it for one that is alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/random.h"
#include "common/quota/flows.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

struct Job {
  double weight = 1;
  double from = 0;   // seconds
  double until = 0;  // its attempts are stopped then
  int waiters = 0;   // attempts that wait at a time
  int64_t tokens = 100;
  bool slow = false;  // through the second worker
  absl::Duration hold = absl::ZeroDuration();
  std::optional<uint64_t> id{};  // the same for the models of one job; each is a job by default
  uint32_t model = 0;
  double model_weight = 1;
};

struct Service {
  double at = 0;
  size_t job = 0;
  int64_t tokens = 0;
};

Task<void> Keep(Worker* worker, const Job* job, size_t index, StopToken stop,
                std::vector<Service>* served) {
  if (job->from > 0) {
    co_await Sleep(&worker->reactor, worker->start + absl::Seconds(job->from), StopToken());
  }
  Admission* admission = job->slow ? &worker->slow_admission : &worker->admission;
  while (true) {
    Ticket ticket =
        co_await admission->Admit(job->id.value_or(index), job->model, job->model_weight,
                                  Tokens(job->tokens), stop, job->weight);
    if (ticket.kind != Ticket::Kind::kAdmitted) co_return;
    served->push_back(Service{worker->Seconds(worker->reactor.Now()), index, job->tokens});
    if (job->hold > absl::ZeroDuration()) {
      co_await Sleep(&worker->reactor, job->hold, StopToken());
    }
    admission->Settle(ticket, Settlement::kCharged, ticket.reserved);
  }
}

std::vector<Service> Compete(PoolSpec spec, const std::vector<Job>& jobs, double seconds,
                             uint64_t seed) {
  Worker worker(std::move(spec), {}, seed, /*shuffle=*/true);
  worker.slow.set_delay(absl::Milliseconds(2));
  std::vector<StopSource> stops(jobs.size());
  std::vector<Service> served;
  TaskScope scope(&worker.reactor, StopToken());
  for (size_t i = 0; i < jobs.size(); ++i) {
    for (int k = 0; k < jobs[i].waiters; ++k) {
      scope.Spawn(Keep(&worker, &jobs[i], i, stops[i].token(), &served));
    }
    StopSource* stop = &stops[i];
    scope.Spawn(AtTime(&worker, jobs[i].until > 0 ? jobs[i].until : seconds,
                       [stop] { stop->RequestStop(StopCode::kUser); }));
  }
  RunToEnd(&worker, &scope);
  return served;
}

// Tokens of each job in [from, until).
std::vector<double> ServedIn(const std::vector<Service>& served, size_t jobs, double from,
                             double until) {
  std::vector<double> tokens(jobs, 0);
  for (const Service& one : served) {
    if (one.at >= from && one.at < until) tokens[one.job] += static_cast<double>(one.tokens);
  }
  return tokens;
}

TEST(Fairness, WeightsAreRespectedWhoeverHasMoreWaiters) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Job> jobs = {{.weight = 1, .waiters = 400}, {.weight = 3, .waiters = 60}};
    const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 60, seed);
    const std::vector<double> tokens = ServedIn(served, 2, 5, 55);
    EXPECT_NEAR(tokens[0], 50 * 250, 500);
    EXPECT_NEAR(tokens[1], 50 * 750, 500);
  }
}

TEST(Fairness, TheDifferenceOfServiceByWeightIsBounded) {
  // |s_i / w_i - s_j / w_j| is at most the window and one request, at any time while both wait;
  // here in seconds of the pool. The horizon of booked sends comes on top, as no booking is taken
  // back.
  const std::vector<Job> jobs = {{.weight = 1, .waiters = 100, .tokens = 50},
                                 {.weight = 2, .waiters = 100, .tokens = 700},
                                 {.weight = 0.5, .waiters = 100, .tokens = 200}};
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 120, seed);
    std::array<double, 3> shares{};
    for (const Service& one : served) {
      if (one.at < 4) continue;
      shares[one.job] += static_cast<double>(one.tokens) / 1000 / jobs[one.job].weight;
      const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
      ASSERT_LE(*most - *least, 0.25 + 0.7 + 0.4) << one.at;
    }
  }
}

TEST(Fairness, JobsOfTwoWorkersShareByWeight) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Job> jobs = {{.weight = 1, .waiters = 100},
                                   {.weight = 2, .waiters = 100, .slow = true}};
    const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 60, seed);
    const std::vector<double> tokens = ServedIn(served, 2, 5, 55);
    EXPECT_NEAR(tokens[0] + tokens[1], 50'000, 700);
    EXPECT_NEAR(tokens[1] / tokens[0], 2, 0.15);
  }
}

TEST(Fairness, AJobWithManyModelsHasNoMoreThanAJobWithOne) {
  for (const bool second_worker : {false, true}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(testing::Message() << seed << (second_worker ? ", two workers" : ""));
      const std::vector<Job> jobs = {{.waiters = 60, .id = 7},
                                     {.waiters = 60, .id = 7, .model = 1, .model_weight = 3},
                                     {.waiters = 60, .slow = second_worker, .id = 8}};
      const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 60, seed);
      const std::vector<double> tokens = ServedIn(served, 3, 5, 55);
      EXPECT_NEAR(tokens[0] + tokens[1] + tokens[2], 50'000, 700);
      EXPECT_NEAR(tokens[2], 25'000, 900);
      EXPECT_NEAR(tokens[1] / tokens[0], 3, 0.3);
    }
  }
}

TEST(Fairness, WhatOneModelOfAJobLeavesGoesToItsOtherModels) {
  // Half of the pool stays the job's, whichever of its models waits.
  const std::vector<Job> jobs = {{.until = 30, .waiters = 50, .id = 7},
                                 {.waiters = 50, .id = 7, .model = 1},
                                 {.waiters = 50, .id = 8}};
  const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 80, 1);
  const std::vector<double> tokens = ServedIn(served, 3, 35, 75);
  EXPECT_NEAR(tokens[1], 20'000, 500);
  EXPECT_NEAR(tokens[2], 20'000, 500);
}

TEST(Fairness, ALoneJobGetsEverything) {
  const std::vector<Job> jobs = {{.weight = 0.01, .waiters = 50},
                                 {.weight = 100, .from = 20, .until = 40, .waiters = 50}};
  const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 80, 1);
  EXPECT_NEAR(ServedIn(served, 2, 5, 20)[0], 15'000, 300);
  EXPECT_LT(ServedIn(served, 2, 23, 40)[0], 300);
  // At once after the other has left, however much that one was given.
  EXPECT_NEAR(ServedIn(served, 2, 42.5, 77.5)[0], 35'000, 500);
}

TEST(Fairness, AJobThatReturnsFromAPauseClaimsNothingForThePause) {
  const std::vector<Job> jobs = {
      {.waiters = 50}, {.until = 10, .waiters = 50}, {.from = 60, .waiters = 50}};
  // Job 2 stands for the return of job 1: a flow that is new is lifted in the same way.
  const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 120, 3);
  const std::vector<double> tokens = ServedIn(served, 3, 65, 115);
  EXPECT_NEAR(tokens[0], 25'000, 500);
  EXPECT_NEAR(tokens[2], 25'000, 500);
}

TEST(Fairness, SlotsAreSharedByWeightToo) {
  for (const bool second_worker : {false, true}) {
    SCOPED_TRACE(second_worker);
    const std::vector<Job> jobs = {
        {.weight = 1, .waiters = 100, .hold = absl::Milliseconds(100)},
        {.weight = 3, .waiters = 100, .slow = second_worker, .hold = absl::Milliseconds(100)}};
    const auto served = Compete(Pool({Slots(10)}), jobs, 60, 7);
    const std::vector<double> tokens = ServedIn(served, 2, 5, 55);
    EXPECT_GT(tokens[0] + tokens[1], 0.9 * 50 * 100 * 100);
    EXPECT_NEAR(tokens[1] / tokens[0], 3, 0.45);
  }
}

TEST(Fairness, ALargeRequestIsNotStarvedBySmallOnes) {
  const std::vector<Job> jobs = {{.waiters = 500, .tokens = 10}, {.waiters = 1, .tokens = 30'000}};
  const auto served = Compete(Pool({PerMinute(Dimension::kTokens, 60'000)}), jobs, 300, 1);
  // A half of 60,000 a minute is one of 30,000 a minute.
  EXPECT_GE(ServedIn(served, 2, 0, 300)[1], 4 * 30'000);
}

TEST(FlowTable, TheFlowFurthestBehindNeverYields) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    FlowTable flows;
    int64_t now_us = 1'000'000'000;
    for (int step = 0; step < 2'000; ++step) {
      now_us += static_cast<int64_t>(random.Below(50'000));
      const FlowKey key{random.Below(5), 0};
      flows.Ask(key, 1 + static_cast<double>(key.job_id), now_us, 4'000'000);
      bool all_yield = true;
      for (uint64_t job = 0; job < 5; ++job) {
        all_yield &= flows.MustYield(FlowKey{job, 0}, now_us, 4'000'000);
      }
      ASSERT_FALSE(all_yield) << step;
      if (flows.MustYield(key, now_us, 4'000'000) || random.Chance(0.3)) {
        flows.Refused(key, now_us);
      } else {
        flows.Served(key, random.Between(int64_t{1}, int64_t{2'000'000}));
      }
    }
  }
}

TEST(FlowTable, FlowsThatAreGoneAreForgotten) {
  FlowTable flows;
  for (uint64_t job = 0; job < 100'000; ++job) {
    const int64_t now_us = static_cast<int64_t>(job) * 100'000;
    flows.Ask(FlowKey{job, 0}, 1, now_us, 4'000'000);
    flows.Served(FlowKey{job, 0}, 1000);
  }
  EXPECT_LE(flows.size(), 128u);
}

}  // namespace
}  // namespace headrace::quota
