#include "tests/support/sim_coordinator.h"

#include <gtest/gtest.h>

#include <utility>

#include "common/base/status.h"
#include "tests/support/job_recovery.h"

namespace headrace {

SimCoordinator::SimCoordinator(Reactor* reactor, std::shared_ptr<FaultDisk> disk,
                               SimNetwork* network, SimChecks* checks, SessionOptions session)
    : reactor_(reactor),
      disk_(std::move(disk)),
      network_(network),
      checks_(checks),
      session_(session),
      dataset_thread_(reactor, /*inline_for_tests=*/true),
      coordinator_(reactor, std::move(session)) {}

absl::Status SimCoordinator::Open(std::vector<SimJob>* jobs) {
  for (SimJob& job : *jobs) {
    const absl::Status opened = OpenJob(&job);
    if (opened.ok()) continue;
    jobs_.clear();  // the locks go with them
    return opened;
  }
  return absl::OkStatus();
}

absl::Status SimCoordinator::OpenJob(SimJob* sim) {
  auto job = std::make_unique<Job>();
  job->job = sim;
  const auto models = static_cast<int64_t>(sim->config.models.size());
  job->state = std::make_unique<JobState>(sim->info.rows, models, sim->config.passes);
  JobRecovery recovery(job->state.get());
  const RunIdentity identity{ToYaml(sim->config), sim->info.sha256, sim->info.rows, models};
  RunStoreOptions store_options;
  store_options.writer_thread = false;
  store_options.snapshot_bytes = 4096;
  RecoveryReport report;
  HR_ASSIGN_OR_RETURN(job->store, RunStore::Open(sim->dir, identity, store_options, disk_.get(),
                                                 reactor_, &recovery, &report));
  checks_->OnRecovered(sim->id, SimChecks::ReadLines(*disk_, sim->dir), *job->state);
  JobRunnerOptions options;
  options.job_id = sim->id;
  options.run_key = SimChecks::RunKey(sim->id);
  options.lease = session_.lease;
  options.first_batch = recovery.next_batch;
  options.awaited_workers = recovery.workers;
  job->runner =
      std::make_unique<JobRunner>(reactor_, sim->config, options, sim->dataset, &dataset_thread_,
                                  job->store.get(), job->state.get(), &coordinator_);
  jobs_.push_back(std::move(job));
  return absl::OkStatus();
}

Task<void> SimCoordinator::RunJob(SimCoordinator* self, Job* job) {
  self->coordinator_.AddJob(job->runner.get());
  job->end = co_await job->runner->Run();
  const bool complete = job->end.state == "complete";
  self->coordinator_.RemoveJob(job->runner.get(), /*over=*/complete);
  const absl::Status closed = co_await job->store->Close();
  job->ended = true;
  if (self->crashed_) co_return;
  // A disk that fails at the very end makes the process end with an error, as at any other time:
  // the next one finds that nothing is left to do, and closes the run.
  job->job->complete = complete && closed.ok();
  if (!job->job->complete && !self->stopping_) {
    self->Stop(complete ? std::string(closed.message()) : job->end.reason);
  }
}

Task<void> SimCoordinator::Run() {
  network_->Listen([this](std::unique_ptr<CoordinatorStream> stream) {
    coordinator_.AddStream(std::move(stream));
  });
  TaskScope scope(reactor_, StopToken());
  for (const std::unique_ptr<Job>& job : jobs_) scope.Spawn(RunJob(this, job.get()));
  co_await scope.Join();
  if (!stopping_ && !crashed_) {
    co_await coordinator_.DismissWorkers("the jobs are done", absl::Seconds(30));
  }
  co_await coordinator_.CloseSessions("the coordinator ends");
  if (!crashed_) network_->StopListening(absl::ZeroDuration());
  co_await coordinator_.Shutdown();
  gone_ = true;
}

Task<void> SimCoordinator::Fail() {
  co_await coordinator_.Shutdown();
  gone_ = true;
}

void SimCoordinator::Stop(std::string reason) {
  stopping_ = true;
  for (const std::unique_ptr<Job>& job : jobs_) {
    job->runner->Stop("interrupted", ExitCode::kInterrupted, reason);
  }
}

void SimCoordinator::Crash(absl::Duration notice) {
  crashed_ = true;
  network_->StopListening(notice);
  disk_->SetFreeBytes(int64_t{1} << 40);
  Stop("killed");
}

bool SimCoordinator::learning() const {
  for (const std::unique_ptr<Job>& job : jobs_) {
    if (!job->ended && job->runner->learning()) return true;
  }
  return false;
}

int64_t SimCoordinator::leased_items() const {
  int64_t items = 0;
  for (const std::unique_ptr<Job>& job : jobs_) items += job->runner->leased_items();
  return items;
}

int64_t SimCoordinator::lost_items() const {
  int64_t items = 0;
  for (const std::unique_ptr<Job>& job : jobs_) items += job->runner->totals().lost_items;
  return items;
}

}  // namespace headrace
