// What must always hold in a simulated cluster, watched on the wire and on the disk: nothing that
// was acknowledged is ever missing, no item has two lines, no call is made without a lease, no
// worker gets more than it asked for. A breach is a gtest failure.
#ifndef HEADRACE_TESTS_SUPPORT_SIM_CHECKS_H_
#define HEADRACE_TESTS_SUPPORT_SIM_CHECKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/outcome/error_class.h"
#include "coordinator/plan/job_state.h"
#include "coordinator/run/job_runner.h"
#include "tests/support/fault_disk.h"
#include "tests/support/sim_network.h"

namespace headrace {

// The lines of a run directory, by item.
using RunLines = std::map<uint64_t, ErrorClass>;

class SimChecks final : public SimNetwork::Observer {
 public:
  SimChecks(Reactor* reactor, absl::Duration lease) : reactor_(reactor), lease_(lease) {}

  // The idempotency key of an item of a job, and back.
  static std::string RunKey(uint64_t job);
  static std::string Key(uint64_t job, uint64_t item);

  // Each line is valid and no item has two; fails the test otherwise.
  static RunLines ReadLines(const FaultDisk& disk, const std::string& dir);

  // A call is about to be made. A worker may make it under a lease of the item
  //   - of which it was not told that it is over (Cancel, Drain, JobDone),
  //   - which it has not given back itself, and
  //   - which is not over by time: no call is made later than a lease after the coordinator sent
  //     the grant or its newest renewal, because from then on another worker may have the batch.
  // Until it is told, or its time is up, a worker goes on with a lease that the coordinator has
  // ended: that is no breach.
  void OnCall(int process, const std::string& key);
  // A coordinator has just opened the run directory of `job` and found `lines` and `state`:
  // everything that was ever acknowledged is there, what was there stays as it was, and the state
  // is that of the lines.
  void OnRecovered(uint64_t job, const RunLines& lines, const JobState& state);
  // Each open item is in one lease, taken and without an outcome; the counts add up.
  static void CheckLeases(const JobRunner& runner);

  // Leases of an item that went out, and results that were acknowledged to a process.
  int grants(uint64_t job, uint64_t item) const;
  int64_t acked_results(int process) const;
  int64_t acks() const { return acks_; }

  // SimNetwork::Observer
  void OnSent(SimStreamId stream, const v1::WorkerMessage& message) override;
  void OnSent(SimStreamId stream, const v1::CoordinatorMessage& message) override;
  void OnDelivered(SimStreamId stream, const v1::WorkerMessage& message) override;
  void OnDelivered(SimStreamId stream, const v1::CoordinatorMessage& message) override;
  void OnLost(SimStreamId stream, const v1::CoordinatorMessage& message) override;

 private:
  struct JobItem {
    uint64_t job = 0;
    uint64_t item = 0;
    friend auto operator<=>(const JobItem&, const JobItem&) = default;
  };
  struct LeaseName {
    uint64_t job = 0;
    uint64_t batch = 0;
    uint32_t epoch = 0;
    friend auto operator<=>(const LeaseName&, const LeaseName&) = default;
  };
  // To call an item.
  struct Right {
    MonoTime until = MonoTime::Max();
    const char* ended_by = "nothing";
  };
  struct Process {
    std::map<uint64_t, std::vector<JobItem>> chunks;  // ok results by chunk, not acknowledged
    uint64_t last_chunk = 0;
    int64_t acked = 0;
    std::set<LeaseName> leases;                         // that ever came
    std::map<LeaseName, MonoTime> lease_ends;           // as the coordinator last said
    std::map<JobItem, std::map<LeaseName, Right>> may;  // call the item
  };
  // Credits of a model in one stream.
  struct Account {
    uint64_t wanted = 0;
    uint64_t granted = 0;
    uint64_t void_items = 0;                                    // lost, or late beyond half a lease
    std::map<LeaseName, std::pair<MonoTime, uint64_t>> on_way;  // when sent, items
  };
  using AccountKey = std::pair<SimStreamId, std::pair<uint64_t, uint32_t>>;

  void OnGrantSent(SimStreamId stream, const v1::Grant& grant);
  // The grant is on its way no more.
  void OnGrantArrived(SimStreamId stream, const v1::Grant& grant, bool lost);
  void OnGrantDelivered(Process* process, const v1::Grant& grant);
  void OnAck(Process* process, uint64_t seq);
  void Revoke(Process* process, const v1::Cancel& cancel);
  // Ends the right to these items of the lease, or to all when there are none.
  template <typename Items>
  void Revoke(Process* process, const LeaseName& name, const Items& items, const char* ended_by);
  void End(Right* right, const char* ended_by);

  Reactor* const reactor_;
  const absl::Duration lease_;
  std::map<int, Process> processes_;
  std::map<AccountKey, Account> accounts_;
  std::map<JobItem, int> grants_;
  std::set<JobItem> acked_;
  std::map<uint64_t, RunLines> lines_;  // as last found
  int64_t acks_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_CHECKS_H_
