// A pool in a real Redis, asked synchronously and at the time of a virtual reactor: the script
// alone, without the store that gathers its calls.
#ifndef HEADRACE_TESTS_INTEGRATION_QUOTA_SCRIPT_STORE_H_
#define HEADRACE_TESTS_INTEGRATION_QUOTA_SCRIPT_STORE_H_

#include <optional>
#include <string>
#include <vector>

#include "common/async/reactor.h"
#include "common/quota/pool_script.h"
#include "common/quota/pool_store.h"
#include "common/redis/reply.h"
#include "tests/integration/redis/redis_server.h"

struct redisContext;

namespace headrace::quota {

inline DimensionSpec Limit(Dimension dimension, Mechanics mechanics, int64_t limit) {
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.mechanics = mechanics;
  spec.limit = limit;
  return spec;
}

// A blocking connection.
class BlockingRedis {
 public:
  explicit BlockingRedis(int port);
  ~BlockingRedis();
  BlockingRedis(const BlockingRedis&) = delete;

  redis::Reply Run(const std::vector<std::string>& argv);
  // EVALSHA, and the text once when the server does not hold it.
  redis::Reply Eval(const redis::Script& script, const std::vector<std::string>& keys,
                    const std::vector<std::string>& args);

 private:
  redisContext* context_;
};

class ScriptStore final : public PoolStore {
 public:
  // One pool; `account` keeps it apart from those of other tests. With `server_clock` it lives in
  // the time of Redis.
  ScriptStore(Reactor* reactor, BlockingRedis* redis, PoolSpec spec, std::string account,
              std::string worker = "w", bool server_clock = false,
              std::optional<MonoTime> now = std::nullopt);

  // One call with `ops`; fails the test when Redis refuses it.
  PoolReply Call(PoolOps ops, absl::Duration horizon = absl::Seconds(2),
                 bool new_connection = false);
  redis::Reply RawCall(PoolOps ops, absl::Duration horizon, bool new_connection);
  const std::vector<std::string>& keys() const { return keys_; }
  // The state, as JSON.
  std::string Dump();
  // The time from now on, instead of the reactor's, which may then be nullptr.
  void set_now(MonoTime now) { now_ = now; }

  Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(std::string pool,
                                                           std::vector<ReserveRequest> requests,
                                                           absl::Duration horizon) override;
  void Settle(absl::string_view pool, ReservationId id, Settlement settlement,
              const Costs& actual) override;
  void Penalize(absl::string_view pool, const Penalty& penalty) override;
  void Observe(absl::string_view pool, const Observation& observation) override;
  Task<absl::Status> Reconfigure(PoolSpec spec) override;
  PoolSnapshot Snapshot(absl::string_view pool) const override;
  PoolHint Hint(absl::string_view pool) const override;
  std::optional<ReserveAnswer> ReserveNow(absl::string_view pool, const ReserveRequest& request,
                                          absl::Duration horizon) override;
  void Listen(absl::string_view pool, PoolListener* listener) override {
    listeners_.PushBack(listener);
  }

 private:
  void TellIfChanged(const PoolReply& reply);

  MonoTime Now() const { return now_ ? *now_ : reactor_->Now(); }

  Reactor* const reactor_;
  std::optional<MonoTime> now_;
  BlockingRedis* const redis_;
  PoolSpec spec_;
  const std::vector<std::string> keys_;
  const std::string worker_;
  const bool server_clock_;
  int64_t number_ = 0;
  redis::Reply reply_;  // of the last call
  PoolHint hint_;
  int64_t epoch_ = 0;
  bool closed_ = false;
  List<PoolListener> listeners_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_INTEGRATION_QUOTA_SCRIPT_STORE_H_
