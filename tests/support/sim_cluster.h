// A whole cluster in one thread and virtual time, from one seed: a coordinator on a disk that
// fails, worker processes, a network between them, and a provider. Scripts are coroutines:
//
//   Task<void> Script(SimCluster* c) {
//     c->StartCoordinator();
//     const int a = c->StartWorker("a");
//     co_await c->Wait(absl::Seconds(3));
//     c->worker(a).Kill(absl::ZeroDuration());
//   }
//   SimCluster cluster(options);
//   cluster.Run(Script(&cluster));
//
// Run() then waits until the jobs are complete, ends every process, and checks what must hold at
// the end of any history (SimChecks, and: each item has one line, nothing is leased, held or under
// way, and no answer was paid for twice that need not have been).
#ifndef HEADRACE_TESTS_SUPPORT_SIM_CLUSTER_H_
#define HEADRACE_TESTS_SUPPORT_SIM_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/async/scope.h"
#include "common/async/task.h"
#include "common/async/virtual_reactor.h"
#include "common/base/random.h"
#include "tests/support/fake_provider.h"
#include "tests/support/fault_disk.h"
#include "tests/support/sim_checks.h"
#include "tests/support/sim_coordinator.h"
#include "tests/support/sim_network.h"
#include "tests/support/sim_worker.h"

namespace headrace {

struct SimClusterOptions {
  uint64_t seed = 1;
  int rows = 30;
  int models = 1;
  int jobs = 1;
  int passes = 2;
  int64_t batch_size = 5;
  int64_t worker_in_flight = 4;
  bool auto_in_flight = false;  // each pool finds how many calls in flight pay
  absl::Duration lease = absl::Seconds(5);
  absl::Duration beat = absl::Milliseconds(500);
  bool split = true;
  bool disk_reserves = true;  // space ahead
  Weather weather;
  SimNetworkOptions network;
  // A worker process that dies is started again after this, under its id. Infinite: never.
  absl::Duration worker_restart = absl::InfiniteDuration();
  // Calls of this item of the first job kill the process that makes them. Negative: none.
  int64_t poison_item = -1;
  // The jobs must be complete within this time after the script.
  absl::Duration patience = absl::Hours(2);
};

class SimCluster {
 public:
  explicit SimCluster(SimClusterOptions options);
  ~SimCluster();

  void Run(Task<void> script);

  // --- For scripts.
  Task<void> Wait(absl::Duration duration);
  // False when `done` has not become true within `limit`.
  Task<bool> WaitFor(absl::AnyInvocable<bool()> done, absl::Duration limit);

  // Does nothing when one is up, and nothing more when the disk refuses.
  void StartCoordinator();
  // kill -9; with kNone or kRandom the machine goes down too.
  void CrashCoordinator(FaultDisk::Survivors survivors);
  // What is left after the disk has crashed in the middle of a call (FaultDisk::CrashAtStep), and
  // how often it has.
  void set_survivors(FaultDisk::Survivors survivors) { survivors_ = survivors; }
  int machine_crashes() const { return machine_crashes_; }
  // SIGTERM; ends when the process has.
  Task<void> StopCoordinator();
  bool coordinator_up() const { return coordinator_ != nullptr; }
  SimCoordinator& coordinator() { return *coordinator_; }
  JobRunner& runner(size_t job = 0) { return coordinator_->runner(job); }

  // The newest process, also when it has ended.
  SimCoordinator& last_coordinator() { return *coordinators_.back(); }

  // The number of the new process.
  int StartWorker(const std::string& id);
  SimWorker& worker(int process) { return *workers_[static_cast<size_t>(process)]; }
  std::vector<SimWorker*> running_workers();
  // The process that has this id now; nullptr when none runs.
  SimWorker* FindWorker(const std::string& id);

  bool complete() const;
  // Of the outcomes on the disk, after Run().
  const RunLines& lines(size_t job = 0) { return final_lines_[job]; }
  // Answers for an item over the first one.
  int64_t paid_twice() const;
  // Answers of workers that were told to end and could not deliver them within their grace period,
  // because no coordinator was there or its disk was full for so long: these run again.
  int64_t undelivered() const { return undelivered_; }

  VirtualReactor& reactor() { return reactor_; }
  Random& random() { return random_; }
  SimNetwork& network() { return network_; }
  SimChecks& checks() { return checks_; }
  FakeProvider& provider() { return provider_; }
  FaultDisk& disk() { return *disk_; }
  std::vector<SimJob>& jobs() { return jobs_; }
  const SimClusterOptions& options() const { return options_; }
  void set_worker_restart(absl::Duration delay) { options_.worker_restart = delay; }

 private:
  static Task<void> Main(SimCluster* self, Task<void> script);
  static Task<void> RunWorker(SimCluster* self, SimWorker* worker);
  static Task<void> RunCoordinator(SimCluster* self, SimCoordinator* coordinator);
  static Task<void> FailCoordinator(SimCoordinator* coordinator);
  static Task<void> Watch(SimCluster* self, StopToken stop);
  static Task<void> KillSoon(SimCluster* self, SimWorker* worker);
  Task<void> End();
  void OnCoordinatorOver(SimCoordinator* coordinator);
  void WatchLearning();
  void CheckEnd();

  SimClusterOptions options_;
  VirtualReactor reactor_;
  Random random_;
  SimChecks checks_;
  SimNetwork network_;
  FakeProvider provider_;
  std::shared_ptr<FaultDisk> disk_;
  std::vector<SimJob> jobs_;
  // Dead ones too: their frames unwind.
  std::vector<std::unique_ptr<SimCoordinator>> coordinators_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  SimCoordinator* coordinator_ = nullptr;  // that is up
  std::vector<RunLines> final_lines_;
  // Answers that may be paid for a second time: those that nobody acknowledged to a process that
  // is gone, and the items of leases that were lost.
  int64_t at_risk_ = 0;
  int64_t undelivered_ = 0;
  int64_t left_leased_ = 0;  // by the coordinator before
  FaultDisk::Survivors survivors_ = FaultDisk::Survivors::kNone;
  int machine_crashes_ = 0;
  bool was_learning_ = false;
  size_t was_awaited_ = 0;
  bool refused_ = false;  // a start, and each after it would be
  bool ending_ = false;
  TaskScope processes_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_CLUSTER_H_
