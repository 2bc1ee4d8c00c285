// The workers of a coordinator and the jobs that they work on: who is connected, who has died, what
// each is told. A job decides what is granted (JobRunner); here is to whom, and in whose turn.
//
//   worker process  event                         next          effect
//   -               hello                         CONNECTED     jobs and reconciliation are sent
//   CONNECTED       stream broke                  AWAY          its leases go on until they expire
//   AWAY            hello of the same process     CONNECTED     what it holds is compared
//   CONNECTED       hello of the same process     CONNECTED     the older stream is ended
//   any             hello of another process      GONE          its leases are lost at once
//                   under the same name
//   any             bye                           GONE          its leases come back
//   AWAY            long silence                  GONE          its leases have expired by then
//
// Each beat is answered with the difference between what the worker holds and what it should hold,
// so that a message that was lost with a stream is made up for.
#ifndef HEADRACE_COORDINATOR_CLUSTER_COORDINATOR_H_
#define HEADRACE_COORDINATOR_CLUSTER_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "coordinator/plan/weights.h"
#include "coordinator/run/job_cluster.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/session/chunk_ledger.h"
#include "coordinator/session/worker_session.h"

namespace headrace {

class Coordinator final : public JobCluster, private SessionHost {
 public:
  struct Worker {
    WorkerKey key;
    WorkerName name;
    std::string build;
    uint32_t max_in_flight = 0;
    WorkerSession* session = nullptr;  // nullptr: away
    MonoTime last_heard;
    uint32_t told_sharers = 0;
    ChunkLedger chunks{1, 0};
  };

  Coordinator(Reactor* reactor, SessionOptions session);
  ~Coordinator() override;

  // A worker has opened a stream.
  void AddStream(std::unique_ptr<CoordinatorStream> stream);

  // `job` outlives RemoveJob(). Workers hear of it at once; its turns go by `weight`.
  void AddJob(JobRunner* job, double weight = 1);
  // After the job's Run(). `over`: workers drop what they still hold of it; else they keep it for
  // the next start of the run.
  void RemoveJob(JobRunner* job, bool over);

  // Tells every worker, now and later, that it may end; returns when all have left or after
  // `patience`.
  Task<void> DismissWorkers(std::string reason, absl::Duration patience);
  // Ends the sessions that are left; workers see `reason` and come back. Streams that are added
  // later are closed at once.
  Task<void> CloseSessions(std::string reason);
  // The last call: no stream may be added any more.
  Task<void> Shutdown();

  // In order of their keys; away ones for as long as they are remembered.
  std::vector<const Worker*> workers() const;
  std::vector<const WorkerSession*> sessions() const;
  const std::vector<JobRunner*>& jobs() const { return jobs_; }

  // JobCluster
  void PumpGrants() override;
  bool connected(WorkerKey worker) const override;
  void Send(WorkerKey worker, v1::CoordinatorMessage message) override;
  void Broadcast(const v1::CoordinatorMessage& message) override;

 private:
  void OnSessionOpen(WorkerSession* session, const v1::Hello& hello) override;
  void OnCredits(WorkerSession* session) override;
  void OnResults(WorkerSession* session, v1::Results results) override;
  void OnBeat(WorkerSession* session, const v1::Beat& beat) override;
  void OnBye(WorkerSession* session, const v1::Bye& bye) override;
  void OnSessionClosed(WorkerSession* session) override;

  static Task<void> RunSession(Coordinator* self, std::unique_ptr<WorkerSession> session);
  static Task<void> TickLoop(Coordinator* self);

  Worker* Register(WorkerSession* session, const v1::Hello& hello);
  // The process is over: its leases are lost, or given back if it `left` by itself.
  void Forget(WorkerKey key, bool left);
  void Tick();
  void OnDurable(WorkerKey key, uint64_t seq);
  bool GrantOne(Worker* worker);
  // All that are connected, beginning with the one after `after`.
  std::vector<Worker*> ConnectedFrom(WorkerKey after);
  void SendJob(WorkerSession* session, const JobRunner& job);
  void SendJobDone(WorkerSession* session, uint64_t job);
  void SendLeave(WorkerSession* session);
  // Workers that may make calls.
  uint32_t CountSharers() const;
  void SendSharers(Worker* worker, uint32_t sharers);
  // Tells everybody who does not know it how many they are.
  void TellSharers();
  void TellSharersSoon();
  static Task<void> TellAfterAWhile(Coordinator* self);
  ModelCredits CreditsOf(const WorkerSession& session, const JobRunner& job) const;
  JobRunner* FindJob(uint64_t id) const;
  Worker* FindWorker(WorkerKey key);

  Reactor* const reactor_;
  const SessionOptions options_;
  std::map<WorkerKey, Worker> workers_;
  std::map<SessionId, WorkerKey> by_session_;
  std::vector<JobRunner*> jobs_;
  std::vector<size_t> turn_of_job_;  // index into turns_, by position in jobs_
  // Jobs that ended here and go on in a later process: their results are neither taken nor
  // acknowledged any more.
  std::set<uint64_t> put_off_;
  WeightedTurns turns_;
  uint64_t next_session_ = 1;
  uint64_t next_worker_ = 1;
  WorkerKey last_served_;
  bool ticking_ = false;  // from the first job on
  bool telling_ = false;
  bool pumping_ = false;
  bool pump_again_ = false;
  std::optional<std::string> dismissed_;
  StopSource close_sessions_;
  StopSource stop_ticks_;
  TaskScope streams_;
  TaskScope ticks_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_CLUSTER_COORDINATOR_H_
