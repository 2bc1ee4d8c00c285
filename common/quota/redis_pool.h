// One pool of a RedisPoolStore: what waits to be told to Redis, and what Redis last said.
#ifndef HEADRACE_COMMON_QUOTA_REDIS_POOL_H_
#define HEADRACE_COMMON_QUOTA_REDIS_POOL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/quota/local_share.h"
#include "common/quota/pool_script.h"
#include "common/quota/pool_server.h"
#include "common/quota/pool_store.h"
#include "common/quota/redis_store.h"
#include "common/quota/server_clock.h"

namespace headrace::quota {

class RedisPool {
 public:
  // Both pointers outlive it.
  RedisPool(Reactor* reactor, PoolServer* server, SharedPool pool,
            const RedisStoreOptions& options);
  ~RedisPool();

  Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(std::vector<ReserveRequest> requests,
                                                           absl::Duration horizon);
  void Settle(ReservationId id, Settlement settlement, const Costs& actual);
  void Penalize(const Penalty& penalty);
  void Observe(const Observation& observation);
  Task<absl::Status> Reconfigure(PoolSpec spec);
  void AddSample(const FlightSample& sample);
  PoolSnapshot Snapshot() const;
  PoolHint Hint() const { return hint_; }
  void Listen(PoolListener* listener) { listeners_.PushBack(listener); }

  // A hint that the pool has changed: `text` is what the script published.
  void OnHint(absl::string_view text);

  // Asks and tells until stopped, then answers those who wait with Cancelled. In a scope.
  static Task<void> Run(RedisPool* self, StopToken stop);
  // After Run(): tells what is left, and that the worker goes.
  Task<void> Leave();

  const std::string& channel() const { return channel_; }
  const RedisStoreStats& stats() const { return stats_; }

 private:
  // One coroutine that waits for answers.
  struct Asking {
    explicit Asking(Reactor* reactor) : done(reactor) {}
    std::vector<ReserveRequest> requests;
    absl::Duration horizon;
    absl::StatusOr<std::vector<ReserveAnswer>> answers;
    Event done;
  };
  struct Settled {
    ReservationId id{};
    Settlement settlement = Settlement::kUnknown;
    Costs actual{};
  };
  // A call that was made and has no answer yet; sent again as it is.
  struct Pending {
    PoolCall call;
    std::vector<Settled> settled;
    std::vector<Asking*> asking;
    bool beats = false;
    bool samples = false;
  };
  struct Held {
    uint64_t job_id = 0;
    uint32_t model = 0;
    int64_t at_us = 0;
  };

  bool HasWork() const;
  bool SlotsAreScarce() const { return gauged_ && hint_.free_slots * 4 <= slots_; }
  void MakeCall();
  // False when there was no answer.
  Task<bool> CallOnce(StopToken stop);
  // Whether Redis is there again.
  Task<bool> Probe(StopToken stop);
  Task<void> RunLocal(StopToken stop);
  void OnAnswer(MonoTime sent, const redis::Reply& reply);
  void OnReply(const PoolReply& reply);
  void AnswerAll(const PoolReply& reply);
  // What follows a sample: the number for the pool, and perhaps the next step of the finder.
  void OnSampled(const redis::Reply& reply, int64_t call_number);
  void OnNoAnswer(const redis::Outcome& outcome);
  void FailPending(const absl::Status& status);
  void GoLocal();
  void Rejoin();
  void AnswerLocally(Asking* asking);
  void AnswerAllLocally();
  ReserveAnswer LocalAnswer(const ReserveRequest& request, absl::Duration horizon);
  void UpdateLocalHint();
  void Tell();
  void WakeAt(MonoTime when);
  // What is not asked for by anybody is told with the next call, and by `when`.
  void TellBy(MonoTime when);

  MonoTime ToMono(int64_t server_us) const;
  int64_t ToServerUs(MonoTime time) const;

  Reactor* const reactor_;
  PoolServer* const server_;
  PoolSpec spec_;
  const RedisStoreOptions options_;
  const std::vector<std::string> keys_;
  const std::string channel_;
  Random random_;
  ServerClock clock_;

  // To be told.
  std::deque<Asking*> asking_;
  PoolOps words_;  // penalties, observations and steps
  FlightSample sample_;
  std::deque<Settled> settled_;
  MonoTime tell_at_ = MonoTime::Max();  // words_ and settled_ wait until then
  std::vector<ReservationId> to_adopt_;
  std::string config_text_;
  bool must_configure_ = false;
  MonoTime beat_at_;
  Event wake_;
  Timer timer_;
  std::optional<Pending> pending_;
  int64_t number_ = 0;  // of calls
  int64_t seen_connects_ = -1;

  // What Redis said.
  bool answered_ = false;  // ever
  int64_t incarnation_ = 0;
  int64_t epoch_ = 0;
  int64_t workers_ = 1;
  bool gauged_ = false;
  int64_t slots_ = 0;  // of a gauged pool
  PoolHint hint_;
  std::string in_flight_why_;
  PoolSnapshot snapshot_;
  absl::flat_hash_map<ReservationId, Held> held_;  // open reservations of this worker

  // An outage.
  std::optional<MonoTime> silent_since_;
  std::string trouble_;
  std::optional<LocalShare> local_;
  MonoTime local_since_;
  bool rejoining_ = false;  // Redis is being told what was done here

  List<PoolListener> listeners_;
  RedisStoreStats stats_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_REDIS_POOL_H_
