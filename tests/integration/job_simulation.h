// A coordinator, a worker and a provider in one thread and virtual time, from one seed: whole jobs
// with failures, interruptions and restarts, checked against the lines on the disk.
#ifndef HEADRACE_TESTS_INTEGRATION_JOB_SIMULATION_H_
#define HEADRACE_TESTS_INTEGRATION_JOB_SIMULATION_H_

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

class JobSimulation : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "headrace_sim_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

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

  std::filesystem::path dir_;  // of the dataset
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

}  // namespace headrace

#endif  // HEADRACE_TESTS_INTEGRATION_JOB_SIMULATION_H_
