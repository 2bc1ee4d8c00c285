// Whole jobs in any weather.
#include "tests/integration/job_simulation.h"

namespace headrace {
namespace {

TEST_F(JobSimulation, AGoodProviderGetsOneCallPerItem) {
  WriteRows(100);
  const JobEnd end = RunOnce(MakeJob(2), 1, {});
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(end.exit_code, ExitCode::kOk);
  EXPECT_EQ(calls_, 200);
  EXPECT_EQ(ReadLogs().size(), 200u);
  EXPECT_LE(peak_, 10);
  EXPECT_GE(peak_, 9);
}

TEST_F(JobSimulation, AutoFindsTheSlotsOfTheProviderAndKeepsThemFull) {
  WriteRows(6000);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_ = std::make_unique<FaultDisk>();
    JobConfig job = MakeJob(1);
    job.max_in_flight = 0;
    job.auto_in_flight = true;
    job.batch_size = 50;
    Weather weather;
    weather.slots = 30;
    weather.latency = {absl::Milliseconds(500), absl::Milliseconds(1500)};
    const JobEnd end = RunOnce(job, seed, weather);
    EXPECT_EQ(end.state, "complete") << end.reason;
    EXPECT_EQ(ReadLogs().size(), 6000u);
    ASSERT_EQ(found_.size(), 1u);
    std::cout << "seed " << seed << ": " << found_[0].found << " in "
              << absl::FormatDuration(elapsed_) << ": " << found_[0].why << "\n";
    EXPECT_GE(found_[0].found, 24);
    EXPECT_LE(found_[0].found, 36);
    // 200 s at 30 calls a second, and the time of finding it.
    EXPECT_LE(elapsed_, absl::Seconds(230));
    EXPECT_LE(peak_, 128);
  }
}

TEST_F(JobSimulation, EveryItemHasOneLineInAnyWeather) {
  WriteRows(40);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_ = std::make_unique<FaultDisk>();
    Weather weather;
    weather.server_error = 0.2;
    weather.rate_limited = 0.2;
    weather.lost = 0.1;
    weather.bad_request = 1;
    weather.slow = 0.02;
    const JobEnd end = RunOnce(MakeJob(2), seed, weather);
    ASSERT_EQ(end.state, "complete") << end.reason;
    const RunLines items = ReadLogs();
    ASSERT_EQ(items.size(), 80u);
    ASSERT_EQ(items.at(26), ErrorClass::kNeverFits);  // row 13 of model 0
    ASSERT_EQ(end.exit_code, ExitCode::kTooManyFailures);
  }
}

TEST_F(JobSimulation, AnInterruptedRunResumesWithoutLosingOrRepeatingAnItem) {
  WriteRows(60);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    disk_ = std::make_unique<FaultDisk>();
    calls_ = answered_ok_ = 0;
    Weather weather;
    weather.server_error = 0.1;
    weather.rate_limited = 0.1;
    Random random(seed);
    const JobConfig job = MakeJob(1);
    JobEnd end;
    int starts = 0;
    do {
      end = RunOnce(job, seed + 1000 * static_cast<uint64_t>(++starts), weather,
                    random.Between(absl::Milliseconds(1), absl::Seconds(4)));
      ASSERT_LT(starts, 200);
    } while (end.state == "interrupted");
    ASSERT_EQ(end.state, "complete") << end.reason;
    ASSERT_EQ(ReadLogs().size(), 60u);
    // Calls under way at an interruption end and count: no answer is asked for twice.
    ASSERT_EQ(answered_ok_, ok_);
    ASSERT_GT(starts, 1);
  }
}

TEST_F(JobSimulation, ARowThatGivesNoRequestIsAnOutcomeNotACrash) {
  {
    std::ofstream file(dir_ / "data.jsonl");
    file << R"({"id":"a","question":"fine"})" << "\n"
         << R"({"id":"b","question":null})" << "\n"
         << R"({"id":"c","other":"x"})" << "\n"
         << "{broken\n"
         << R"({"id":"e","question":"fine too"})" << "\n";
  }
  const JobEnd end = RunOnce(MakeJob(1), 8, {});
  EXPECT_EQ(end.state, "complete") << end.reason;
  RunLines items = ReadLogs();
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0], ErrorClass::kNone);
  EXPECT_EQ(items[1], ErrorClass::kBadRow);
  EXPECT_EQ(items[2], ErrorClass::kBadRow);
  EXPECT_EQ(items[3], ErrorClass::kBadRow);
  EXPECT_EQ(items[4], ErrorClass::kNone);
  EXPECT_EQ(calls_, 2);
}

TEST_F(JobSimulation, ASlowQuotaGivesItemsBackInsteadOfFailingThem) {
  // Calls of up to 2 s, one at a time, in batches with a deadline that ten items cannot meet.
  WriteRows(40);
  JobConfig job = MakeJob(1);
  job.max_in_flight = 1;
  job.batch_deadline = absl::Seconds(5);
  job.models[0].total_timeout = absl::Seconds(5);
  const JobEnd end = RunOnce(job, 9, {});
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(ReadLogs().size(), 40u);
}

TEST_F(JobSimulation, HeldConfigurationErrorsDoNotHoldUpTheNextPass) {
  // Too few configuration errors to stop the run, and an item that waits for the second pass.
  WriteRows(5);
  JobConfig job = MakeJob(1);
  job.passes = 2;
  Weather weather;
  weather.unknown_model = true;
  weather.broken_row = true;
  const JobEnd end = RunOnce(job, 10, weather, absl::Hours(1));
  EXPECT_EQ(end.state, "complete") << end.reason;
  const RunLines items = ReadLogs();
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items.at(2), ErrorClass::kConfig);
  EXPECT_EQ(items.at(3), ErrorClass::kServerError);
}

TEST_F(JobSimulation, CallsThatTakeLongKeepTheGateFull) {
  // 400 calls of about 120 s, 32 at a time: 12.5 rounds. Each batch has time for two.
  WriteRows(400);
  JobConfig job = MakeJob(1);
  job.max_in_flight = 32;
  job.batch_size = 25;
  job.batch_deadline = absl::Seconds(300);
  job.models[0].total_timeout = absl::Seconds(170);
  job.models[0].first_byte_timeout = absl::Seconds(170);
  Weather weather;
  weather.latency = {absl::Seconds(80), absl::Seconds(160)};
  const JobEnd end = RunOnce(job, 11, weather, absl::Hours(10));
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(peak_, 32);
  EXPECT_LT(elapsed_, absl::Seconds(12.5 * 120 * 1.3));
}

TEST_F(JobSimulation, AModelWithASlowQuotaDoesNotStarveOneWithoutALimit) {
  WriteRows(200);
  JobConfig job = MakeJob(2);
  job.max_in_flight = 20;
  PoolJob slow;
  slow.name = "slow";
  slow.requests_per_minute = 60;
  PoolJob fast;
  fast.name = "fast";
  job.pools = {slow, fast};
  job.models[0].pool = "slow";
  job.models[1].pool = "fast";
  Weather weather;
  weather.latency = {absl::Milliseconds(900), absl::Milliseconds(1100)};
  const JobEnd end = RunOnce(job, 12, weather, absl::Hours(2));
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(failed_, 0);
  // 20 a second at best, and not the one a second of the other.
  EXPECT_LT(last_answer_["model-1"], absl::Seconds(200 / 20 * 2.5));
  EXPECT_LT(last_answer_["model-0"], absl::Seconds(200 * 1.2));
}

TEST_F(JobSimulation, AnInterruptionGivesBackWhatWaitsForARetry) {
  WriteRows(60);
  JobConfig job = MakeJob(1);
  job.passes = 1;
  Weather weather;
  weather.flaky = true;
  JobEnd end;
  int starts = 0;
  do {
    end = RunOnce(job, 13 + static_cast<uint64_t>(starts), weather, absl::Seconds(4));
    ASSERT_LT(++starts, 50);
  } while (end.state == "interrupted");
  ASSERT_GT(starts, 1);
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(failed_, 0) << "an item lost its further attempts to an interruption";
  // One key per item, in all its attempts and in every start.
  EXPECT_EQ(calls_by_key_.size(), 60u);
  EXPECT_GE(calls_by_key_["run-0"], 2);
  EXPECT_EQ(ReadLogs().size(), 60u);
}

TEST_F(JobSimulation, JobsOfAnyShapeEndWithOneLinePerItem) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    disk_ = std::make_unique<FaultDisk>();
    peak_ = 0;
    const int rows = random.Chance(0.2) ? 1 : static_cast<int>(random.Between(2, 40));
    const int models = static_cast<int>(random.Between(1, 4));
    WriteRows(rows);
    JobConfig job = MakeJob(models);
    job.max_in_flight = random.Between(1, 12);
    job.batch_size = random.Between(1, 20);
    job.passes = static_cast<int>(random.Between(1, 4));
    job.attempts = static_cast<int>(random.Between(1, 3));
    job.batch_deadline = absl::Seconds(random.Between(1, 60));
    Weather weather;
    weather.server_error = random.Chance(0.5) ? 0.2 : 0;
    weather.rate_limited = random.Chance(0.5) ? 0.2 : 0;
    weather.lost = random.Chance(0.5) ? 0.1 : 0;
    weather.slow = random.Chance(0.5) ? 0.02 : 0;
    weather.bad_request = random.Chance(0.5) ? 1 : 0;
    for (int i = 0; i < models; ++i) {
      job.models[static_cast<size_t>(i)].weight = static_cast<double>(random.Between(1, 10));
      const absl::Duration least = absl::Milliseconds(random.Between(1, 3000));
      weather.latency_of[absl::StrCat("model-", i)] = {least, least * 2};
    }
    if (random.Chance(0.5)) {
      PoolJob slow;
      slow.name = "slow";
      slow.requests_per_minute = random.Between(20, 200);
      job.pools.push_back(slow);
      job.models[0].pool = "slow";
    }
    const JobEnd end = RunOnce(job, seed, weather, absl::Hours(6));
    ASSERT_EQ(end.state, "complete") << end.reason;
    ASSERT_EQ(ReadLogs().size(), static_cast<size_t>(rows * models));
    ASSERT_LE(peak_, job.max_in_flight);
  }
}

// One call in a hundred hangs, and is cut by the batch's deadline only.
TEST_F(JobSimulation, AHedgedItemDoesNotWaitForACallThatHangs) {
  WriteRows(600);
  Weather weather;
  weather.latency = {absl::Milliseconds(50), absl::Milliseconds(200)};
  weather.slow = 0.005;
  JobConfig job = MakeJob(1);
  job.batch_size = 20;
  absl::Duration plain;
  absl::Duration hedged;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    for (const bool hedge : {false, true}) {
      job.hedge_stragglers = hedge;
      job.output_dir = absl::StrCat("run", seed, hedge ? "h" : "p");
      calls_ = 0;
      const JobEnd end = RunOnce(job, seed, weather);
      EXPECT_EQ(end.state, "complete") << end.reason;
      EXPECT_GE(ok_, 598);  // what hangs in both passes has failed
      (hedge ? hedged : plain) += elapsed_;
      // At most one call in a hundred is made a second time, beside those of later passes.
      EXPECT_LE(calls_, 600 + 20);
    }
  }
  EXPECT_LT(hedged, 0.7 * plain);
}

}  // namespace
}  // namespace headrace
