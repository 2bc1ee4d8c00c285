// Pools in Redis, shared by all workers and jobs of an account.
//
// The state and its arithmetic are those of PoolModel, kept by one script (lua/, described in
// docs/redis_schema.md). One question at a time goes to Redis for each pool; what is to be told or
// asked meanwhile goes with the next one, so that the number of round trips does not grow with the
// number of those who wait.
//
// A call whose answer was lost is sent again as it was: everything in it is idempotent by its ids.
// How a pool lives:
//
//   shared --no answer for outage_after--> on its own --answer--> shared
//                                              `--local_for--> paused --answer--> shared
//
// On its own, what was booked is sent, and then a share of the limits that is safe when all workers
// do the same (local_share.h). A pool that never had an answer allows nothing. What was sent on its
// own is reported with the first answer, and charged.
//
// Threads: everything on the reactor's. Stop() before destruction.
#ifndef HEADRACE_COMMON_QUOTA_REDIS_STORE_H_
#define HEADRACE_COMMON_QUOTA_REDIS_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/task.h"
#include "common/quota/pool_server.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

class RedisPool;

struct RedisStoreOptions {
  // Of this process, unique: who it is among the workers.
  std::string worker;
  // A settlement waits for others, or for a question, at most this long while slots are scarce.
  // Chosen: far above the time in which a batch of answers arrives.
  absl::Duration gather = absl::Milliseconds(5);
  // The same while they are not, and an observation. Chosen: a pool moves by the second, and a
  // backlogged worker asks four times a second, so most need no call of their own.
  absl::Duration tell_within = absl::Milliseconds(300);
  absl::Duration call_timeout = absl::Seconds(1);
  absl::Duration beat = absl::Seconds(1);  // the script buries who has missed three
  absl::Duration outage_after = absl::Seconds(3);
  absl::Duration local_for = absl::Minutes(10);
  // A pool with slots that starts anew admits nobody for so long, so that workers say first what
  // they hold.
  absl::Duration learn = absl::Seconds(1);
  int64_t least_workers = 1;  // of which a local share is taken when fewer were seen
  uint64_t seed = 0;          // of jitter
  // The time of the reactor instead of Redis' own: for tests in virtual time.
  bool test_clock = false;
};

// A pool and whose it is: accounts with the same text share the pools of the same name. Letters,
// digits and '-'.
struct SharedPool {
  PoolSpec spec;
  std::string account;
};

// What people ask about the store.
struct RedisStoreStats {
  int64_t calls = 0;     // of the script
  int64_t failed = 0;    // calls without an answer
  int64_t reserved = 0;  // reservations that were booked
};

class RedisPoolStore final : public PoolStore {
 public:
  // Every spec must pass ValidatePool(); names are unique. `reactor` outlives it.
  RedisPoolStore(Reactor* reactor, std::unique_ptr<PoolServer> server,
                 const std::vector<SharedPool>& pools, RedisStoreOptions options);
  ~RedisPoolStore() override;

  Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(std::string pool,
                                                           std::vector<ReserveRequest> requests,
                                                           absl::Duration horizon) override;
  void Settle(absl::string_view pool, ReservationId id, Settlement settlement,
              const Costs& actual) override;
  void Penalize(absl::string_view pool, const Penalty& penalty) override;
  void Observe(absl::string_view pool, const Observation& observation) override;
  // Changes the pool for all who share it.
  Task<absl::Status> Reconfigure(PoolSpec spec) override;
  // Told to Redis with the next beat.
  void AddSample(absl::string_view pool, const FlightSample& sample) override;
  // As of the last beat.
  PoolSnapshot Snapshot(absl::string_view pool) const override;
  PoolHint Hint(absl::string_view pool) const override;
  void Listen(absl::string_view pool, PoolListener* listener) override;
  Task<void> Stop() override;

  RedisStoreStats stats() const;
  PoolServer* server() const { return server_.get(); }

 private:
  RedisPool* Find(absl::string_view pool) const;
  Task<void> ReadHints(std::shared_ptr<redis::Subscription> subscription, StopToken stop);

  Reactor* const reactor_;
  const std::unique_ptr<PoolServer> server_;
  const RedisStoreOptions options_;
  absl::flat_hash_map<std::string, std::unique_ptr<RedisPool>> pools_;
  absl::flat_hash_map<std::string, RedisPool*> by_channel_;
  bool stopped_ = false;
  TaskScope scope_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_REDIS_STORE_H_
