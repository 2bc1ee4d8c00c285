// One job in a coordinator: feeds its models, grants batches to sessions, resolves results, and
// knows when and why to end. Everything runs on the coordinator's reactor; rules are in plan/, disk
// in store/, the wire in session/.
//
//   RUNNING   all items resolved, all durable          -> ENDED (complete)
//   RUNNING   Stop(): person, policy, account, budget  -> STOPPING: no grants, workers drain
//   STOPPING  no lease is left, all durable            -> ENDED (with the reason of the stop)
//   any       a write or sync failed                   -> ENDED (error); nothing more is
//   acknowledged
#ifndef HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_
#define HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
#include "coordinator/run/job_totals.h"
#include "coordinator/session/worker_session.h"
#include "coordinator/store/run_store.h"

namespace headrace {

struct JobEnd {
  std::string state;  // "complete", "interrupted", "stopped", "error"
  ExitCode exit_code = ExitCode::kOk;
  std::string reason;  // a sentence, empty when complete
};

struct JobRunnerOptions {
  uint64_t job_id = 1;
  std::string run_key;  // see JobSpec.run_key
  SessionOptions session;
  BatchId first_batch{1};
  int config_errors_to_stop = 20;  // identical configuration errors with no success
  double spent_usd = 0;            // by earlier starts of the run; counts against max_cost
};

class JobRunner final : private SessionHost {
 public:
  // All collaborators outlive it. `job` is finished (FinishJob).
  JobRunner(Reactor* reactor, JobConfig job, JobRunnerOptions options, const Dataset* dataset,
            BlockingThread* dataset_thread, RunStore* store, JobState* state);
  ~JobRunner() override;

  // A worker has opened a stream. Reactor thread.
  void AddStream(std::unique_ptr<CoordinatorStream> stream);

  // Runs the job to its end, tells the workers, and gives them a moment to leave.
  Task<JobEnd> Run();
  // After Run(): ends the sessions that are left. Streams that are added later are closed at once.
  Task<void> CloseSessions();
  // The last call: no stream may be added any more.
  Task<void> Shutdown();

  // Ends the run early: nothing new starts, calls under way end. The first reason is kept.
  void Stop(std::string state, ExitCode exit_code, std::string reason);

  const JobConfig& job() const { return job_; }
  const JobState& state() const { return *state_; }
  const JobTotals& totals() const { return totals_; }
  const RunStore& store() const { return *store_; }
  std::vector<const WorkerSession*> sessions() const;
  int64_t leased_items() const { return leases_.open_items(); }
  const std::optional<JobEnd>& stopping() const { return stop_; }

 private:
  // A configuration error that waits for a first success or for enough of its kind.
  struct Held {
    v1::ItemResult result;
  };

  void OnSessionOpen(WorkerSession* session) override;
  void OnCredits(WorkerSession* session) override;
  void OnResults(WorkerSession* session, v1::Results results) override;
  void OnBeat(WorkerSession* session, const v1::Beat& beat) override;
  void OnSessionClosed(WorkerSession* session) override;

  static Task<void> RunSession(JobRunner* self, std::unique_ptr<WorkerSession> session);
  // What one chunk resolved: lines and deferrals for the store, outcomes for the durable state.
  struct Resolved {
    std::vector<LogRecord> records;
    std::vector<DeferredItem> deferred;
    std::vector<std::pair<ItemId, ErrorClass>> outcomes;
  };

  // Writes and, once durable, acknowledges; `session` 0 for what the coordinator itself resolved.
  static Task<void> Commit(JobRunner* self, Resolved resolved, SessionId session, uint64_t seq);
  void StartCommit(Resolved resolved, SessionId session, uint64_t seq);
  static Task<void> SaveSnapshot(JobRunner* self);
  static Task<void> ReserveIds(JobRunner* self);

  void SendJobDone(WorkerSession* session);
  void PumpGrants();
  bool Grantable(size_t model, uint64_t credits) const;
  v1::Grant MakeGrant(size_t model, size_t max_items);
  void ResolveResult(v1::ItemResult result, Resolved* resolved);
  void Accept(v1::ItemResult result, Resolved* resolved);
  void Hold(v1::ItemResult result);
  void ReleaseHeld(size_t model, Resolved* resolved);
  void ReleaseHeldAtEnd();
  void OnBatchDone(const v1::BatchDone& done);
  void OnBadRow(v1::Item item, const std::string& error);
  void GiveBack(size_t model, std::vector<v1::Item> items);
  bool TooManyFailed(int64_t failed) const;
  void CheckBudget();
  void CheckLimits();
  void Advance();

  Reactor* const reactor_;
  const JobConfig job_;
  const JobRunnerOptions options_;
  RunStore* const store_;
  JobState* const state_;  // what results came, durable or on their way there
  JobState durable_;       // what is on the disk: the content of snapshots
  JobTotals totals_;
  LeaseTable leases_;
  WeightedTurns turns_;
  std::vector<std::unique_ptr<Feed>> feeds_;
  std::vector<std::vector<Held>> held_;  // by model
  std::map<SessionId, WorkerSession*> sessions_;
  uint64_t next_session_ = 1;
  BatchId next_batch_;
  BatchId reserved_batches_;
  bool reserving_ = false;
  bool saving_ = false;
  bool write_failed_ = false;
  int64_t commits_under_way_ = 0;
  std::optional<JobEnd> stop_;
  Event ended_;
  StopSource close_sessions_;
  TaskScope work_;     // reads, commits
  TaskScope streams_;  // sessions
};

// The job as workers see it.
v1::JobSpec ToJobSpec(const JobConfig& job, const JobRunnerOptions& options);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_JOB_RUNNER_H_
