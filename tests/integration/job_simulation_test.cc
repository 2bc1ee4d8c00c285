// A coordinator, a worker and a provider in one thread and virtual time, from one seed: whole jobs
// with failures, interruptions and restarts, checked against the lines on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/blocking_thread.h"
#include "common/async/virtual_reactor.h"
#include "common/base/random.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/store/run_store.h"
#include "tests/support/fake_provider.h"
#include "tests/support/fault_disk.h"
#include "tests/support/job_recovery.h"
#include "tests/support/sim_checks.h"
#include "worker/session/worker.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class JobSimulation : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headrace_sim_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }

  void WriteRows(int rows) {
    std::ofstream file(dir_ / "data.jsonl");
    for (int i = 0; i < rows; ++i) {
      file << R"({"id":"q)" << i << R"(","question":"question )" << i << R"( of many"})" << "\n";
    }
    rows_ = rows;
  }

  JobConfig MakeJob(int models) {
    JobConfig job;
    job.name = "sim";
    job.dataset.path = (dir_ / "data.jsonl").string();
    job.dataset.prompt = "{{question}}";
    job.dataset.id = "id";
    job.output_dir = "run";
    job.batch_size = 7;
    job.batch_deadline = absl::Seconds(30);
    job.max_in_flight = 10;
    for (int i = 0; i < models; ++i) {
      ModelJob model;
      model.name = absl::StrCat("model-", i);
      model.endpoint = "http://provider/v1";
      model.stream = false;
      model.total_timeout = absl::Seconds(20);
      job.models.push_back(model);
    }
    const auto finished = FinishJob(&job);
    EXPECT_TRUE(finished.ok());
    return job;
  }

  // One process: runs `job` in the run directory until it ends, or until `stop_at` of virtual time.
  JobEnd RunOnce(const JobConfig& job, uint64_t seed, Weather weather,
                 absl::Duration stop_at = absl::InfiniteDuration()) {
    VirtualReactor reactor(seed, /*shuffle=*/true);
    auto dataset = Dataset::Open(job.dataset);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    auto info = (*dataset)->Scan(dir_.string());
    EXPECT_TRUE(info.ok()) << info.status();
    JobState state(info->rows, static_cast<int64_t>(job.models.size()), job.passes);
    JobRecovery recovery(&state);
    RunIdentity identity{ToYaml(job), info->sha256, info->rows,
                         static_cast<int64_t>(job.models.size())};
    RunStoreOptions options;
    options.writer_thread = false;
    options.snapshot_bytes = 4096;
    RecoveryReport report;
    disk_->RestartProcess();
    auto store = RunStore::Open(job.output_dir, identity, options, disk_.get(), &reactor, &recovery,
                                &report);
    EXPECT_TRUE(store.ok()) << store.status();
    BlockingThread thread(&reactor, /*inline_for_tests=*/true);
    JobRunnerOptions runner_options;
    runner_options.first_batch = recovery.next_batch;
    runner_options.run_key = "run";
    runner_options.record_workers = false;
    Coordinator coordinator(&reactor, SessionOptions{});
    JobRunner runner(&reactor, job, runner_options, dataset->get(), &thread, store->get(), &state,
                     &coordinator);
    FakeProvider provider(&reactor, seed, weather);
    FakeEnvironment environment(&reactor, &provider, weather.no_client);
    WorkerOptions worker_options;
    worker_options.id = "w";
    worker_options.max_in_flight = 1000;  // the job asks for less
    worker_options.seed = seed;
    Worker worker(&reactor, worker_options, &environment);
    JobEnd end;
    const MonoTime begun = reactor.Now();
    reactor.Run(Main(&reactor, &coordinator, &runner, &worker, store->get(), stop_at, &end));
    elapsed_ = reactor.Now() - begun;
    last_answer_.clear();
    for (const auto& [name, when] : provider.last_answer) last_answer_[name] = when - begun;
    EXPECT_EQ(provider.in_flight, 0);
    const WorkerStats stats = worker.stats();
    EXPECT_EQ(stats.in_flight, 0);
    EXPECT_EQ(stats.held_items, 0);
    EXPECT_EQ(stats.permits_in_use, 0);
    EXPECT_EQ(runner.leased_items(), 0);
    calls_ += provider.calls;
    answered_ok_ += provider.answered_ok;
    for (const auto& [key, calls] : provider.calls_by_key) calls_by_key_[key] += calls;
    peak_ = std::max(peak_, provider.in_flight_peak);
    found_ = runner.found_in_flight();
    ok_ = state.ok();
    failed_ = state.failed();
    return end;
  }

  static Task<void> ServeWorker(Worker* worker, WorkerStream* stream) {
    const absl::Status served = co_await worker->Serve(stream, StopToken());
    EXPECT_TRUE(served.ok()) << served;
    co_await stream->Close(absl::OkStatus());
    co_await worker->Shutdown();
  }
  static Task<void> StopLater(Reactor* reactor, JobRunner* runner, absl::Duration after,
                              StopToken stop) {
    Sleep wait(reactor, after, stop);
    const bool waited = co_await wait;
    if (waited) runner->Stop("interrupted", ExitCode::kInterrupted, "interrupted");
  }
  static Task<void> Main(Reactor* reactor, Coordinator* coordinator, JobRunner* runner,
                         Worker* worker, RunStore* store, absl::Duration stop_at, JobEnd* end) {
    auto [there, back] =
        rpc::MakeMemoryStreams<v1::WorkerMessage, v1::CoordinatorMessage>(reactor, 4);
    std::unique_ptr<WorkerStream> worker_end = std::move(there);
    coordinator->AddStream(std::move(back));
    coordinator->AddJob(runner);
    TaskScope scope(reactor, StopToken());
    scope.Spawn(ServeWorker(worker, worker_end.get()));
    if (stop_at < absl::InfiniteDuration()) {
      scope.Spawn(StopLater(reactor, runner, stop_at, scope.token()));
    }
    *end = co_await runner->Run();
    coordinator->RemoveJob(runner, /*over=*/false);
    co_await coordinator->DismissWorkers("the run has ended", absl::Seconds(5));
    co_await coordinator->Shutdown();
    scope.RequestStop({StopCode::kOwnerDone, ""});
    co_await scope.Join();
    absl::Status closed = co_await store->Close();
    EXPECT_TRUE(closed.ok()) << closed;
  }

  // Of the run so far: every line valid, and no item twice.
  RunLines ReadLogs() { return SimChecks::ReadLines(*disk_, "run"); }

  fs::path dir_;  // of the dataset
  std::unique_ptr<FaultDisk> disk_ = std::make_unique<FaultDisk>();
  int rows_ = 0;
  int calls_ = 0;
  int answered_ok_ = 0;
  int peak_ = 0;
  int64_t ok_ = 0;
  int64_t failed_ = 0;
  std::vector<FoundInFlight> found_;  // of the last RunOnce
  std::map<std::string, int> calls_by_key_;
  absl::Duration elapsed_;                             // virtual, of the last RunOnce
  std::map<std::string, absl::Duration> last_answer_;  // by model, of the last RunOnce
};

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
