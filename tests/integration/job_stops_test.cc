// Jobs that stop, or that must not: keys, configurations, outages, policies.
#include "tests/integration/job_simulation.h"

namespace headrace {
namespace {

TEST_F(JobSimulation, ABadKeyStopsTheRunAtOnceAndLeavesItemsUnattempted) {
  WriteRows(100);
  Weather weather;
  weather.unauthorized_after = 20;
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 3, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kCredentials);
  EXPECT_THAT(end.reason, testing::HasSubstr("bad key"));
  EXPECT_LE(calls_, 20 + 10);
  EXPECT_LE(ReadLogs().size(), 20u) << "nothing failed for good";
  EXPECT_EQ(RunOnce(job, 4, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 100u);
}

TEST_F(JobSimulation, TheSameConfigurationErrorOnEveryRowStopsTheRun) {
  WriteRows(200);
  Weather weather;
  weather.unknown_model = true;
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 5, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kUsage);
  EXPECT_THAT(end.reason, testing::HasSubstr("no such model"));
  EXPECT_LT(calls_, 60);
  EXPECT_EQ(ReadLogs().size(), 0u);
  EXPECT_EQ(RunOnce(job, 6, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 200u);
}

// Case H5: retried four times per item, and again in the next run, for ever.
TEST_F(JobSimulation, ASchemaThatTheProviderRefusesStopsTheRunAtTheFirstAnswer) {
  WriteRows(500);
  Weather weather;
  weather.bad_schema = true;
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 5, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kUsage);
  EXPECT_THAT(end.reason, testing::HasSubstr("'additionalProperties' is required"));
  EXPECT_LE(calls_, 10 + 1) << "no more than what was under way";
  EXPECT_EQ(ReadLogs().size(), 0u);
  EXPECT_EQ(RunOnce(job, 6, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 500u);
}

TEST_F(JobSimulation, ASchemaOfOneRowOfABatchFileDoesNotStopTheOthers) {
  std::ofstream file(dir_ / "data.jsonl");
  for (int i = 0; i < 12; ++i) {
    file << R"({"custom_id":"q)" << i << R"(","body":{"model":"model-0","messages":[]}})" << "\n";
  }
  file.close();
  rows_ = 12;
  Weather weather;
  weather.bad_schema = true;
  JobConfig job = MakeJob(1);
  job.dataset.prompt.clear();
  job.dataset.id.clear();
  const JobEnd end = RunOnce(job, 5, weather);
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(end.exit_code, ExitCode::kTooManyFailures);
  const std::map<uint64_t, ErrorClass> items = ReadLogs();
  ASSERT_EQ(items.size(), 12u);
  for (const auto& [item, error_class] : items) EXPECT_EQ(error_class, ErrorClass::kSchema);
}

TEST_F(JobSimulation, AFewConfigurationErrorsOfASmallJobAreOutcomes) {
  WriteRows(5);
  Weather weather;
  weather.unknown_model = true;
  const JobEnd end = RunOnce(MakeJob(1), 5, weather);
  EXPECT_EQ(end.state, "complete");
  EXPECT_EQ(end.exit_code, ExitCode::kTooManyFailures);
  EXPECT_EQ(ReadLogs().size(), 5u);
}

TEST_F(JobSimulation, FewConfigurationErrorsBesideOtherFailuresDoNotHangTheRun) {
  WriteRows(12);
  Weather weather;
  weather.two_troubles = true;
  const JobEnd end = RunOnce(MakeJob(2), 6, weather);
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(end.exit_code, ExitCode::kTooManyFailures);
  RunLines items = ReadLogs();
  ASSERT_EQ(items.size(), 24u);
  for (uint64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(items[i], i / 2 % 2 == 1 ? ErrorClass::kServerError : ErrorClass::kConfig) << i;
  }
}

TEST_F(JobSimulation, AClientThatCannotBeMadeStopsTheRunWithItsReason) {
  WriteRows(10);
  Weather weather;
  weather.no_client = true;
  const JobEnd end = RunOnce(MakeJob(2), 6, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kUsage);
  EXPECT_THAT(end.reason, testing::HasSubstr("CA bundle ca.pem"));
  EXPECT_EQ(calls_, 0);
}

TEST_F(JobSimulation, AProviderThatIsNeverReachedStopsTheRunAndNoItemIsLost) {
  WriteRows(30);
  Weather weather;
  weather.outage_begin = absl::ZeroDuration();
  const JobConfig job = MakeJob(2);
  const JobEnd end = RunOnce(job, 11, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kError);
  EXPECT_THAT(end.reason, testing::HasSubstr("cannot be reached"));
  EXPECT_THAT(end.reason, testing::HasSubstr("connection refused"));
  EXPECT_TRUE(ReadLogs().empty());
  EXPECT_EQ(RunOnce(job, 12, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 60u);
  EXPECT_EQ(failed_, 0);
}

TEST_F(JobSimulation, AnOutageInTheMiddleOfARunIsWaitedOutAndCostsNoItem) {
  WriteRows(60);
  Weather weather;
  weather.outage_begin = absl::Seconds(3);
  weather.outage_end = absl::Minutes(5);  // many times the batch's deadline
  const JobEnd end = RunOnce(MakeJob(1), 13, weather);
  EXPECT_EQ(end.state, "complete") << end.reason;
  EXPECT_EQ(end.exit_code, ExitCode::kOk);
  EXPECT_EQ(ReadLogs().size(), 60u);
  EXPECT_EQ(failed_, 0);
}

TEST_F(JobSimulation, AnOutageWithoutAnEndStopsTheRunAndNoItemIsLost) {
  WriteRows(60);
  Weather weather;
  weather.outage_begin = absl::Seconds(3);
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 14, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kError);
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(RunOnce(job, 15, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 60u);
  EXPECT_EQ(failed_, 0);
}

TEST_F(JobSimulation, AProviderThatRefusesWithoutAnEndStopsTheRunAndNoItemIsLost) {
  WriteRows(60);
  Weather weather;
  weather.rate_limited = 1;
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 16, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_NE(end.reason.find("has refused every call for more than 10m"), std::string::npos)
      << end.reason;
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(RunOnce(job, 17, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 60u);
  EXPECT_EQ(failed_, 0);
}

// A gateway answers 503 for a prompt that kills the server behind it, each time.
TEST_F(JobSimulation, AnItemThatIsAlwaysRefusedDoesNotKeepTheRunForEver) {
  WriteRows(60);
  Weather weather;
  weather.refused_row = true;
  const JobConfig job = MakeJob(1);
  const JobEnd end = RunOnce(job, 18, weather);
  EXPECT_EQ(end.state, "stopped") << end.reason;
  EXPECT_NE(end.reason.find("upstream reset"), std::string::npos) << end.reason;
  EXPECT_EQ(ReadLogs().size(), 59u);
  EXPECT_EQ(RunOnce(job, 19, {}).state, "complete");
  EXPECT_EQ(ReadLogs().size(), 60u);
}

TEST_F(JobSimulation, FailFastStopsAndLeavesTheRestForAResume) {
  WriteRows(100);
  JobConfig job = MakeJob(1);
  job.on_failure = OnFailure::kFailFast;
  Weather weather;
  weather.bad_request = 1;  // row 13
  const JobEnd end = RunOnce(job, 7, weather);
  EXPECT_EQ(end.state, "stopped");
  EXPECT_EQ(end.exit_code, ExitCode::kTooManyFailures);
  EXPECT_LT(ReadLogs().size(), 60u);
}

}  // namespace
}  // namespace headrace
