// The worker: pulls batches over sessions, runs each as a scope, and returns every outcome. What it
// holds outlives a session that breaks: the batches go on for as long as their leases last, results
// are kept until a coordinator has acknowledged them, and the next session takes both up again.
//
// Owned by its process's worker reactor; everything runs on that thread. A job's models are set up
// when its JobSpec arrives; a model that cannot be set up here (no key, bad endpoint) stops the
// account, so that the coordinator hears why in words.
#ifndef HEADRACE_WORKER_SESSION_WORKER_H_
#define HEADRACE_WORKER_SESSION_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/secret.h"
#include "common/quota/pool_store.h"
#include "common/rpc/message_stream.h"
#include "headrace/v1/session.pb.h"
#include "worker/batch/batch_scope.h"
#include "worker/batch/item_loop.h"
#include "worker/http/http.h"
#include "worker/session/held_batch.h"
#include "worker/session/outbox.h"

namespace headrace {

using WorkerStream = rpc::MessageStream<v1::WorkerMessage, v1::CoordinatorMessage>;

// The rim: keys, connections and pools. Tests replace it.
class WorkerEnvironment {
 public:
  virtual ~WorkerEnvironment() = default;
  // The key of `source`; empty for none. NotFound when the variable or file is missing,
  // InvalidArgument when its content cannot be a header value.
  virtual absl::StatusOr<Secret> ReadKey(const v1::ApiKeySource& source) = 0;
  virtual absl::StatusOr<std::unique_ptr<http::Engine>> MakeClient(const v1::ModelSpec& model) = 0;
  virtual absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakePools(const v1::JobSpec& job) = 0;
  // The pools of `job` as one of `sharers` workers may use them, where they are in this worker's
  // memory; none where all workers share them by other means.
  virtual std::vector<quota::PoolSpec> PoolsOfSharer(const v1::JobSpec& job, int64_t sharers) {
    return {};
  }
};

struct WorkerOptions {
  std::string id = "worker";
  std::string boot_nonce;
  std::string build;
  int64_t max_in_flight = 2500;  // the gate, over all jobs; a job may ask for less
  uint64_t seed = 0;
  absl::Duration flush_interval = absl::Milliseconds(20);  // results wait at most this for a chunk
};

struct WorkerStats {
  int64_t in_flight = 0;
  int64_t peak_in_flight = 0;
  int64_t finished = 0;
  int64_t held_items = 0;      // granted and not finished
  int64_t permits_in_use = 0;  // of the gate and of the lines before it
  size_t batches = 0;
  size_t unacked_bytes = 0;  // of results
};

class Worker {
 public:
  Worker(Reactor* reactor, WorkerOptions options, WorkerEnvironment* environment);
  ~Worker();

  // Speaks one session over `stream` until the coordinator lets the worker go, the stream breaks,
  // or the worker has drained after `drain` was stopped. What is held stays held for the next
  // session.
  //   OK                  the worker may end: it was let go or has drained
  //   FailedPrecondition  the versions do not fit
  //   Aborted             another process has taken this worker's id
  //   Unauthenticated, PermissionDenied  as the coordinator says
  //   Unavailable         anything else: try again
  // `drain` is the same for all sessions of a worker. `end` breaks the session off.
  Task<absl::Status> Serve(WorkerStream* stream, StopToken drain, StopToken end = StopToken());

  // Starts no more items; what is held ends or is returned.
  void Drain(StopReason reason) { drain_.RequestStop(std::move(reason)); }

  // Ends calls under way; what was cut is no outcome, and runs again elsewhere.
  void CancelCalls(StopReason reason) { kill_.RequestStop(std::move(reason)); }

  // Cancels what is under way (kShutdown), ends all clients and pools. The last call.
  Task<void> Shutdown();

  // Nothing is held and every result is acknowledged.
  bool idle() const { return batches_.empty() && outbox_.empty(); }
  WorkerStats stats() const;

 private:
  struct Job;
  struct Session;

  // A batch by its job and its id.
  using BatchKey = std::pair<uint64_t, BatchId>;

  // session.cc: one session
  Task<absl::Status> Handshake(Session* session);
  v1::Hello MakeHello() const;
  Task<void> ReadLoop(Session* session);
  Task<void> WriteLoop(Session* session);
  Task<void> BeatLoop(Session* session);
  Task<void> SayBye(Session* session);
  void OnMessage(Session* session, v1::CoordinatorMessage message);
  void OnDrain(const v1::Drain& drain);
  v1::Beat MakeBeat(Session* session);
  void CountBeat(Session* session) const;
  MonoTime LeaseEnd(const Session& session, uint64_t beat, uint32_t ttl_ms) const;
  void AddPools(uint64_t job_id, const Job& job, v1::Beat* beat);
  void ResendIfStuck(const Session& session);
  void UpdateRates(absl::Duration interval);
  v1::Want MakeWant() const;
  void WakeWriter();

  // worker.cc: jobs and batches
  void OnJob(const v1::JobSpec& spec);
  void OnJobDone(uint64_t job_id);
  static Task<void> RetireJob(Worker* self, uint64_t job_id);
  void OnGrant(v1::Grant grant, MonoTime lease_end);
  void OnCancel(const v1::Cancel& cancel);
  void OnRenew(const v1::Renew& renew, MonoTime lease_end);
  void OnGiveBack(const v1::GiveBack& give_back);
  void OnSharers(const v1::Sharers& sharers);
  void OnInFlightLimit(const v1::InFlightLimit& limit);
  static Task<void> SharePools(Worker* self, uint64_t job_id);
  absl::Status SetUpModel(Job* job, uint32_t index, ModelRuntime* m);
  absl::StatusOr<http::Engine*> ClientFor(const v1::ModelSpec& model);
  static Task<void> RunBatch(Worker* self, HeldBatch* batch);
  static void OnAccountStop(void* context, ModelRuntime* model);
  HeldBatch* FindBatch(uint64_t job_id, uint64_t batch_id, uint32_t epoch);
  void SizeGate();
  // How many items of a model the worker wants to hold now.
  int64_t TargetItems(const Job& job, const ModelRuntime& model) const;
  void UpdateWant(const Job& job, ModelRuntime* model);
  void UpdateWants();
  void OnItemFinished(ModelRuntime* model);
  void FlushSoon();

  Reactor* const reactor_;
  const WorkerOptions options_;
  WorkerEnvironment* const environment_;
  Random random_;
  Gate gate_;
  Outbox outbox_;
  StopSource kill_;                                               // cancels calls
  StopSource drain_;                                              // starts nothing
  std::map<std::string, std::unique_ptr<http::Engine>> clients_;  // by endpoint and CA file
  absl::flat_hash_map<uint64_t, std::unique_ptr<Job>> jobs_;
  std::map<BatchKey, std::unique_ptr<HeldBatch>> batches_;
  // Leases that came, so that a repeated grant is not run again: batch and epoch.
  std::set<std::pair<BatchKey, uint32_t>> seen_;

  int64_t finished_items_ = 0;
  int64_t sharers_ = 1;  // workers among which pools in memory are divided
  Event outgoing_;
  Event budget_;       // set while results are within the unacked budget
  Event batch_ended_;  // set when a batch has ended; RetireJob waits for it
  Timer flush_timer_;  // armed while a chunk is open
  Session* session_ = nullptr;
  TaskScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_WORKER_H_
