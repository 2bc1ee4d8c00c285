#include "tests/support/sim_cluster.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/job.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// How often a script looks again.
constexpr absl::Duration kStep = absl::Milliseconds(20);

// Real files with rows, shared by all clusters of the process.
class SimData {
 public:
  struct Set {
    std::unique_ptr<Dataset> dataset;
    DatasetInfo info;
    std::string path;
  };

  SimData() {
    std::string name = (fs::temp_directory_path() / "headrace_cluster_XXXXXX").string();
    HR_CHECK(mkdtemp(name.data()) != nullptr);
    dir_ = name;
  }
  ~SimData() { fs::remove_all(dir_); }

  const Set& OfRows(int rows) {
    auto [it, fresh] = sets_.try_emplace(rows);
    if (!fresh) return it->second;
    Set& set = it->second;
    set.path = (dir_ / absl::StrCat("data-", rows, ".jsonl")).string();
    {
      std::ofstream file(set.path);
      for (int i = 0; i < rows; ++i) {
        file << R"({"id":"q)" << i << R"(","question":"question )" << i << R"( of many"})" << "\n";
      }
    }
    DatasetJob config;
    config.path = set.path;
    config.prompt = "{{question}}";
    config.id = "id";
    auto dataset = Dataset::Open(config);
    HR_CHECK(dataset.ok()) << dataset.status();
    set.dataset = *std::move(dataset);
    auto info = set.dataset->Scan(dir_.string());
    HR_CHECK(info.ok()) << info.status();
    set.info = *info;
    return set;
  }

 private:
  fs::path dir_;
  std::map<int, Set> sets_;
};

const SimData::Set& DataOf(int rows) {
  static SimData data;
  return data.OfRows(rows);
}

SimJob MakeJob(const SimClusterOptions& options, uint64_t id) {
  const SimData::Set& data = DataOf(options.rows);
  SimJob sim;
  sim.id = id;
  sim.dataset = data.dataset.get();
  sim.info = data.info;
  sim.dir = absl::StrCat("runs/", id);
  JobConfig& job = sim.config;
  job.name = SimChecks::RunKey(id);
  job.dataset.path = data.path;
  job.dataset.prompt = "{{question}}";
  job.dataset.id = "id";
  job.output_dir = sim.dir;
  job.batch_size = options.batch_size;
  job.batch_deadline = absl::Seconds(60);
  job.max_in_flight = options.auto_in_flight ? 0 : options.worker_in_flight;
  job.auto_in_flight = options.auto_in_flight;
  job.passes = options.passes;
  job.split_stragglers = options.split;
  for (int i = 0; i < options.models; ++i) {
    ModelJob model;
    model.name = absl::StrCat("model-", i);
    model.endpoint = "http://provider/v1";
    model.stream = false;
    model.total_timeout = absl::Seconds(20);
    job.models.push_back(model);
  }
  const auto finished = FinishJob(&job);
  HR_CHECK(finished.ok());
  return sim;
}

SessionOptions MakeSession(const SimClusterOptions& options) {
  SessionOptions session;
  session.lease = options.lease;
  session.beat = options.beat;
  session.silence = 2 * options.lease;
  return session;
}

}  // namespace

SimCluster::SimCluster(SimClusterOptions options)
    : options_(std::move(options)),
      reactor_(options_.seed, /*shuffle=*/true),
      random_(options_.seed * 2 + 1),
      checks_(&reactor_, options_.lease),
      network_(&reactor_, options_.seed + 77, options_.network, &checks_),
      provider_(&reactor_, options_.seed + 99, options_.weather),
      disk_(std::make_shared<FaultDisk>()),
      processes_(&reactor_, StopToken()) {
  disk_->SetCanReserve(options_.disk_reserves);
  for (int i = 0; i < options_.jobs; ++i) {
    jobs_.push_back(MakeJob(options_, static_cast<uint64_t>(i) + 1));
  }
}

SimCluster::~SimCluster() = default;

void SimCluster::Run(Task<void> script) { reactor_.Run(Main(this, std::move(script))); }

Task<void> SimCluster::Main(SimCluster* self, Task<void> script) {
  TaskScope watch(&self->reactor_, StopToken());
  watch.Spawn(Watch(self, watch.token()));
  co_await script;
  co_await self->End();
  watch.RequestStop({StopCode::kOwnerDone, ""});
  co_await watch.Join();
  co_await self->processes_.Join();
  self->CheckEnd();
}

Task<void> SimCluster::Wait(absl::Duration duration) {
  Sleep wait(&reactor_, duration, StopToken());
  co_await wait;
}

Task<bool> SimCluster::WaitFor(absl::AnyInvocable<bool()> done, absl::Duration limit) {
  const MonoTime until = reactor_.Now() + limit;
  while (!done()) {
    if (reactor_.Now() >= until) co_return false;
    co_await Wait(kStep);
  }
  co_return true;
}

// ---------------------------------------------------------------------------------------------
// Processes

void SimCluster::StartCoordinator() {
  if (coordinator_ != nullptr) return;
  auto coordinator = std::make_unique<SimCoordinator>(&reactor_, disk_, &network_, &checks_,
                                                      MakeSession(options_));
  SimCoordinator* const started = coordinator.get();
  coordinators_.push_back(std::move(coordinator));
  const absl::Status opened = started->Open(&jobs_);
  if (!opened.ok()) {
    // A disk that is full or fails stops this start; the next one may be luckier.
    refused_ = !absl::IsResourceExhausted(opened) && !absl::StrContains(opened.message(), "Input");
    EXPECT_FALSE(refused_) << opened;
    disk_->RestartProcess();
    processes_.Spawn(FailCoordinator(started));
    return;
  }
  coordinator_ = started;
  was_learning_ = coordinator_->learning();
  processes_.Spawn(RunCoordinator(this, coordinator_));
}

Task<void> SimCluster::FailCoordinator(SimCoordinator* coordinator) {
  co_await coordinator->Fail();
}

Task<void> SimCluster::RunCoordinator(SimCluster* self, SimCoordinator* coordinator) {
  co_await coordinator->Run();
  if (coordinator->crashed()) co_return;
  self->OnCoordinatorOver(coordinator);
  if (self->disk_->crashed()) {
    ++self->machine_crashes_;
    self->disk_ = self->disk_->AfterCrash(self->survivors_, self->random_());
  } else {
    // The machine goes on: what was written and not synced is still to be lost.
    self->disk_->RestartProcess();
  }
}

void SimCluster::OnCoordinatorOver(SimCoordinator* coordinator) {
  at_risk_ += coordinator->lost_items();
  left_leased_ = coordinator->leased_items();
  coordinator_ = nullptr;
}

void SimCluster::CrashCoordinator(FaultDisk::Survivors survivors) {
  if (coordinator_ == nullptr) return;
  std::shared_ptr<FaultDisk> found = disk_->AfterCrash(survivors, random_());
  SimCoordinator* const crashed = coordinator_;
  OnCoordinatorOver(crashed);
  crashed->Crash(absl::Seconds(1));
  disk_ = std::move(found);
}

Task<void> SimCluster::StopCoordinator() {
  if (coordinator_ == nullptr) co_return;
  SimCoordinator* const stopped = coordinator_;
  stopped->Stop("SIGTERM");
  auto gone = [stopped] { return stopped->gone(); };
  const bool ended = co_await WaitFor(gone, absl::Minutes(5));
  EXPECT_TRUE(ended) << "a coordinator does not end after SIGTERM";
}

int SimCluster::StartWorker(const std::string& id) {
  SimWorkerOptions options;
  options.id = id;
  options.process = static_cast<int>(workers_.size());
  options.seed = random_();
  options.max_in_flight = options_.worker_in_flight;
  workers_.push_back(
      std::make_unique<SimWorker>(&reactor_, options, &provider_, &network_, &checks_));
  SimWorker* const worker = workers_.back().get();
  if (options_.poison_item >= 0) {
    const std::string poison = SimChecks::Key(1, static_cast<uint64_t>(options_.poison_item));
    worker->set_on_call([this, worker, poison](const std::string& key) {
      if (key == poison) processes_.Spawn(KillSoon(this, worker));
    });
  }
  processes_.Spawn(RunWorker(this, worker));
  return options.process;
}

Task<void> SimCluster::KillSoon(SimCluster* self, SimWorker* worker) {
  co_await self->Wait(self->random_.Between(absl::ZeroDuration(), absl::Milliseconds(100)));
  worker->Kill(self->random_.Between(absl::ZeroDuration(), absl::Seconds(1)));
}

Task<void> SimCluster::RunWorker(SimCluster* self, SimWorker* worker) {
  co_await worker->Run();
  EXPECT_EQ(worker->worker().stats().permits_in_use, 0);
  EXPECT_EQ(worker->worker().stats().in_flight, 0);
  EXPECT_EQ(worker->worker().stats().held_items, 0);
  const int64_t left = worker->paid() - self->checks_.acked_results(worker->process());
  self->at_risk_ += left;
  if (worker->draining() && !worker->killed() && !worker->status().ok()) self->undelivered_ += left;
  // Who left by its own will stays away; who died is started again.
  if (worker->status().ok() && !worker->killed()) co_return;
  if (self->options_.worker_restart == absl::InfiniteDuration()) co_return;
  co_await self->Wait(self->options_.worker_restart);
  if (!self->ending_ && self->FindWorker(worker->id()) == nullptr) self->StartWorker(worker->id());
}

std::vector<SimWorker*> SimCluster::running_workers() {
  std::vector<SimWorker*> running;
  for (const std::unique_ptr<SimWorker>& worker : workers_) {
    if (worker->running()) running.push_back(worker.get());
  }
  return running;
}

SimWorker* SimCluster::FindWorker(const std::string& id) {
  for (SimWorker* worker : running_workers()) {
    if (worker->id() == id) return worker;
  }
  return nullptr;
}

// ---------------------------------------------------------------------------------------------
// Watching

Task<void> SimCluster::Watch(SimCluster* self, StopToken stop) {
  while (true) {
    Sleep wait(&self->reactor_, absl::Milliseconds(200), stop);
    const bool waited = co_await wait;
    if (!waited) co_return;
    if (self->coordinator_ == nullptr) continue;
    self->WatchLearning();
    for (size_t job = 0; job < self->jobs_.size(); ++job) {
      if (!self->coordinator_->ended(job)) SimChecks::CheckLeases(self->runner(job));
    }
  }
}

void SimCluster::WatchLearning() {
  const bool learning = coordinator_->learning();
  if (was_learning_ && !learning && was_awaited_ > 0) at_risk_ += left_leased_;
  was_learning_ = learning;
  was_awaited_ = 0;
  for (size_t job = 0; job < jobs_.size(); ++job) was_awaited_ += runner(job).awaited_workers();
}

bool SimCluster::complete() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const SimJob& job) { return job.complete; });
}

Task<void> SimCluster::End() {
  auto done = [this] {
    // As an operator of Kubernetes would: what ends too early is started again.
    if (coordinator_ == nullptr && !complete()) StartCoordinator();
    return (complete() && coordinator_ == nullptr) || refused_;
  };
  const bool ended = co_await WaitFor(done, options_.patience);
  EXPECT_TRUE(ended) << "the jobs do not end";
  ending_ = true;
  if (!ended && coordinator_ != nullptr) CrashCoordinator(FaultDisk::Survivors::kAll);
  for (SimWorker* worker : running_workers()) worker->Drain();
}

int64_t SimCluster::paid_twice() const {
  int64_t twice = 0;
  for (const auto& [key, answers] : provider_.ok_by_key) twice += answers - 1;
  return twice;
}

void SimCluster::CheckEnd() {
  EXPECT_EQ(provider_.in_flight, 0);
  EXPECT_LE(paid_twice(), at_risk_) << "answers were paid for a second time without need";
  for (const SimJob& job : jobs_) {
    RunLines lines = SimChecks::ReadLines(*disk_, job.dir);
    const auto items = static_cast<size_t>(job.info.rows) * job.config.models.size();
    if (job.complete) {
      EXPECT_EQ(lines.size(), items) << "items without a line";
    }
    for (size_t item = 0; item < items; ++item) {
      const std::string key = SimChecks::Key(job.id, item);
      auto paid = provider_.ok_by_key.find(key);
      if (paid == provider_.ok_by_key.end()) continue;
      EXPECT_LE(paid->second, checks_.grants(job.id, item)) << key << " was answered too often";
    }
    final_lines_.push_back(std::move(lines));
  }
}

}  // namespace headrace
