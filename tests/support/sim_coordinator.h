// One coordinator process of a simulated cluster: a real Coordinator with real jobs and run stores
// on a disk in memory.
#ifndef HEADRACE_TESTS_SUPPORT_SIM_COORDINATOR_H_
#define HEADRACE_TESTS_SUPPORT_SIM_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/async/blocking_thread.h"
#include "common/async/reactor.h"
#include "common/async/task.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/job/job.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/store/run_store.h"
#include "tests/support/fault_disk.h"
#include "tests/support/sim_checks.h"
#include "tests/support/sim_network.h"

namespace headrace {

// A job of the cluster, over all processes that run it.
struct SimJob {
  uint64_t id = 1;
  JobConfig config;
  const Dataset* dataset = nullptr;
  DatasetInfo info;
  std::string dir;  // on the simulated disk
  bool complete = false;
};

class SimCoordinator {
 public:
  SimCoordinator(Reactor* reactor, std::shared_ptr<FaultDisk> disk, SimNetwork* network,
                 SimChecks* checks, SessionOptions session);

  // Opens the run directories of `jobs`. An error is what a process would have ended with.
  absl::Status Open(std::vector<SimJob>* jobs);
  // The life of the process: until all jobs are complete, or until Stop() or Crash().
  Task<void> Run();
  // Its life after an Open() that failed.
  Task<void> Fail();
  // SIGTERM: the jobs stop, workers keep what is not acknowledged.
  void Stop(std::string reason);
  // kill -9. The network is cut at once; its frames unwind behind the cut, on a disk that nobody
  // looks at any more.
  void Crash(absl::Duration notice);

  Coordinator& coordinator() { return coordinator_; }
  // In the order of the jobs.
  size_t jobs() const { return jobs_.size(); }
  JobRunner& runner(size_t job) { return *jobs_[job]->runner; }
  const RunStore& store(size_t job) const { return *jobs_[job]->store; }
  bool ended(size_t job) const { return jobs_[job]->ended; }
  const JobEnd& end(size_t job) const { return jobs_[job]->end; }
  const JobState& state(size_t job) const { return *jobs_[job]->state; }
  bool learning() const;
  int64_t leased_items() const;
  int64_t lost_items() const;

  bool stopping() const { return stopping_; }
  bool crashed() const { return crashed_; }
  bool gone() const { return gone_; }

 private:
  struct Job {
    SimJob* job = nullptr;
    std::unique_ptr<JobState> state;
    std::unique_ptr<RunStore> store;
    std::unique_ptr<JobRunner> runner;
    JobEnd end;
    bool ended = false;
  };

  absl::Status OpenJob(SimJob* job);
  static Task<void> RunJob(SimCoordinator* self, Job* job);

  Reactor* const reactor_;
  const std::shared_ptr<FaultDisk> disk_;  // owned with the cluster, which goes on with it
  SimNetwork* const network_;
  SimChecks* const checks_;
  const SessionOptions session_;
  BlockingThread dataset_thread_;
  Coordinator coordinator_;
  std::vector<std::unique_ptr<Job>> jobs_;
  bool stopping_ = false;
  bool crashed_ = false;
  bool gone_ = false;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_COORDINATOR_H_
