// One job in a coordinator: feeds its models, grants batches to workers, resolves results, and
// knows when and why to end. Everything runs on the coordinator's reactor; rules are in plan/, disk
// in store/, the wire and the workers behind JobCluster.
//
//   LEARNING  a run that was cut off: its workers were heard, or one lease is over -> RUNNING
//   RUNNING   all items resolved, all durable          -> ENDED (complete)
//   RUNNING   Stop(): person, policy, account, budget  -> STOPPING: no grants, workers drain
//   STOPPING  no connected worker has a lease, all durable -> ENDED (with the reason of the stop)
//   any       a write or sync failed                   -> ENDED (error); nothing more is
//   acknowledged
//
// While LEARNING nothing is granted, so that what the workers of the earlier process still hold is
// not paid for twice: each brings its batches along with its hello, and they are adopted.
#ifndef HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_
#define HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/blocking_thread.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/outcome/error_class.h"
#include "common/outcome/exit_code.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/feed/feed.h"
#include "coordinator/job/job.h"
#include "coordinator/plan/job_state.h"
#include "coordinator/plan/lease_table.h"
#include "coordinator/plan/weights.h"
#include "coordinator/run/in_flight.h"
#include "coordinator/run/job_cluster.h"
#include "coordinator/run/job_totals.h"
#include "coordinator/store/run_store.h"

namespace headrace {

struct JobEnd {
  std::string state;  // "complete", "interrupted", "stopped", "error"
  ExitCode exit_code = ExitCode::kOk;
  std::string reason;  // a sentence, empty when complete
};

// A process of a worker, by its own words.
struct WorkerName {
  std::string id;
  std::string boot_nonce;
  friend auto operator<=>(const WorkerName&, const WorkerName&) = default;
};

struct JobRunnerOptions {
  uint64_t job_id = 1;
  std::string run_key;  // see JobSpec.run_key
  absl::Duration lease = absl::Seconds(60);
  BatchId first_batch{1};
  // A row whose item is larger on the wire is a bad row. Half of what one message between processes
  // may have (rpc::kMaxMessageBytes), so that a grant of one item always fits.
  size_t max_item_bytes = size_t{8} << 20;
  int config_errors_to_stop = 20;  // identical configuration errors with no success
  double spent_usd = 0;            // by earlier starts of the run; counts against max_cost
  // Who may hold batches of the run's earlier process; LEARNING waits for them, one lease at most.
  std::vector<WorkerName> awaited_workers;
  // False: workers live and die with this process, as in `headrace run`; they are not recorded.
  bool record_workers = true;
};

// Free credits of a worker, by model.
using ModelCredits = std::vector<uint64_t>;

class JobRunner final {
 public:
  // All collaborators outlive it. `job` is finished (FinishJob).
  JobRunner(Reactor* reactor, JobConfig job, JobRunnerOptions options, const Dataset* dataset,
            BlockingThread* dataset_thread, RunStore* store, JobState* state, JobCluster* cluster);
  ~JobRunner();

  // Runs the job to its end: everything resolved or stopped, and durable.
  Task<JobEnd> Run();
  // Ends the run early: nothing new starts, calls under way end. The first reason is kept.
  void Stop(std::string state, ExitCode exit_code, std::string reason);

  // --- What the coordinator tells it of workers.

  // A worker process has opened a session and says what it holds of this job. What it was given and
  // does not hold comes back; what it holds and this process does not know is adopted.
  void OnHello(WorkerKey worker, const WorkerName& name, const std::vector<v1::HeldBatch>& held);
  // One held batch of a beat. False: the worker must cancel it.
  bool Renew(WorkerKey worker, const v1::HeldBatch& held);
  // All of a beat was renewed: what the worker has not named it does not hold.
  void OnBeat(WorkerKey worker);
  // What a beat says of one of the job's pools.
  void OnPoolState(WorkerKey worker, const v1::PoolState& state);
  // The worker process is gone for good. `left`: it said so itself and nothing killed it.
  void LoseWorker(WorkerKey worker, bool left);
  // The time has gone on: leases may have expired. Called every second or so.
  void Tick();
  // The part of one chunk that is of this job. `durable` is called once everything in it is on the
  // disk, never after a write error. `fresh`: no earlier coordinator may have counted it.
  void OnResults(WorkerKey worker, v1::Results results, bool fresh,
                 absl::AnyInvocable<void()> durable);

  // A batch for `worker`, within `credits`; the lease begins. Empty when there is nothing to grant.
  std::optional<v1::Grant> NextGrant(WorkerKey worker, const ModelCredits& credits);
  // `worker` is idle and nothing is left to grant: another one may give back a part of its batch.
  void SplitFor(WorkerKey worker, const ModelCredits& credits);

  v1::JobSpec Spec() const;
  uint64_t id() const { return options_.job_id; }
  const JobConfig& job() const { return job_; }
  const JobState& state() const { return *state_; }
  const JobTotals& totals() const { return totals_; }
  // Of the pools whose calls in flight are found by trying.
  std::vector<FoundInFlight> found_in_flight() const { return in_flight_.Found(); }
  const RunStore& store() const { return *store_; }
  const LeaseTable& leases() const { return leases_; }
  int64_t leased_items() const { return leases_.open_items(); }
  const std::optional<JobEnd>& stopping() const { return stop_; }
  bool learning() const { return learning_; }
  // How many worker processes LEARNING still waits for, and how long at most.
  size_t awaited_workers() const { return awaited_.size(); }
  bool write_failed() const { return write_failed_; }

 private:
  // What one chunk resolved: lines and deferrals for the store, outcomes for the durable state.
  struct Resolved {
    std::vector<LogRecord> records;
    std::vector<DeferredItem> deferred;
    std::vector<std::pair<ItemId, ErrorClass>> outcomes;
    bool empty() const { return records.empty() && deferred.empty(); }
  };
  // Whose result it is, for the counts.
  struct Origin {
    WorkerKey worker;
    bool fresh = true;
  };

  // job_runner.cc: life
  void TellPart(const InFlightControl::Part& part);
  void EndLearning(absl::string_view why);
  Task<void> ForgetConnectedWorkers();
  void CheckBudget();
  void CheckLimits();
  bool TooManyFailed(int64_t failed) const;
  bool Quiet() const;
  void Advance();
  static Task<void> SaveSnapshot(JobRunner* self);

  // job_grants.cc: batches out and back
  bool Grantable(WorkerKey worker, size_t model, uint64_t credits) const;
  // The oldest lost lease of the model that may go to `worker`.
  const LeaseTable::Lease* LostFor(WorkerKey worker, size_t model) const;
  v1::Grant MakeGrant(WorkerKey worker, size_t model, size_t max_items);
  bool MayHaveGrants(WorkerKey worker);
  static Task<void> RecordWorker(JobRunner* self, WorkerKey worker, WorkerName name, bool present);
  static Task<void> ReserveIds(JobRunner* self);
  void Adopt(WorkerKey worker, const v1::HeldBatch& held);
  void OnLost(const std::vector<BatchId>& batches);
  void GiveBack(const v1::Grant& grant, bool has_texts, std::vector<v1::Item> items);
  void EndLease(BatchId batch, Epoch epoch);
  void CancelElsewhere(ItemId item);
  void OnBadRow(v1::Item item, const std::string& error);
  void FailItem(const v1::Item& item, ErrorClass error_class, const std::string& error,
                BatchId batch);

  // job_results.cc: results in, lines out
  void ResolveResult(v1::ItemResult result, Origin origin, Resolved* resolved);
  void Accept(v1::ItemResult result, Origin origin, Resolved* resolved);
  void Hold(v1::ItemResult result, Origin origin);
  void ReleaseHeld(size_t model, Resolved* resolved);
  void ReleaseHeldAtEnd();
  void OnBatchDone(const v1::BatchDone& done);
  void OnReturned(const v1::ReturnedItems& returned);
  void StartCommit(Resolved resolved, absl::AnyInvocable<void()> durable);
  static Task<void> Commit(JobRunner* self, Resolved resolved, absl::AnyInvocable<void()> durable);

  Reactor* const reactor_;
  const JobConfig job_;
  const JobRunnerOptions options_;
  const DatasetFormat dataset_format_;
  RunStore* const store_;
  JobState* const state_;  // what results came, durable or on their way there
  JobCluster* const cluster_;
  JobState durable_;  // what is on the disk: the content of snapshots
  JobTotals totals_;
  InFlightControl in_flight_;
  LeaseTable leases_;
  WeightedTurns turns_;
  std::vector<std::unique_ptr<Feed>> feeds_;
  // Configuration errors that wait for a first success or for enough of their kind, by model.
  struct Held {
    v1::ItemResult result;
    Origin origin;
  };
  std::vector<std::vector<Held>> held_;

  // The processes of workers that are in the journal, or on their way there.
  enum class Recorded { kUnderWay, kDone };
  std::map<WorkerKey, Recorded> recorded_;
  std::map<WorkerKey, WorkerName> names_;
  std::set<WorkerName> awaited_;
  bool learning_ = false;
  MonoTime learning_until_;
  absl::flat_hash_set<BatchId> split_asked_;  // until the answer or the end of the batch

  BatchId next_batch_;
  BatchId reserved_batches_;
  bool reserving_ = false;
  bool saving_ = false;
  bool write_failed_ = false;
  int64_t commits_under_way_ = 0;
  std::optional<JobEnd> stop_;
  Event ended_;
  TaskScope work_;  // reads, commits
};

// The job as workers see it.
v1::JobSpec ToJobSpec(const JobConfig& job, const JobRunnerOptions& options);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_
