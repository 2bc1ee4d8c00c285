// Pools in this process: for a run on one machine, and for simulations.
#ifndef HEADRACE_COMMON_QUOTA_MEMORY_STORE_H_
#define HEADRACE_COMMON_QUOTA_MEMORY_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/task.h"
#include "common/quota/model.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

// Answers at once, on the reactor's thread; Reserve() never suspends. Any number of Admission
// objects may share it.
class MemoryPoolStore final : public PoolStore {
 public:
  // `reactor` outlives it and gives the time. Pools start cold, see PoolModel. Every spec must pass
  // ValidatePool(); names are unique.
  MemoryPoolStore(Reactor* reactor, const std::vector<PoolSpec>& specs);
  ~MemoryPoolStore() override;

  Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(std::string pool,
                                                           std::vector<ReserveRequest> requests,
                                                           absl::Duration horizon) override;
  void Settle(absl::string_view pool, ReservationId id, Settlement settlement,
              const Costs& actual) override;
  void Penalize(absl::string_view pool, const Penalty& penalty) override;
  void Observe(absl::string_view pool, const Observation& observation) override;
  Task<absl::Status> Reconfigure(PoolSpec spec) override;
  void SetInFlight(absl::string_view pool, int64_t limit) override;
  // Of an unknown pool: empty.
  PoolSnapshot Snapshot(absl::string_view pool) const override;
  std::optional<ReserveAnswer> ReserveNow(absl::string_view pool, const ReserveRequest& request,
                                          absl::Duration horizon) override;
  PoolHint Hint(absl::string_view pool) const override;
  void Listen(absl::string_view pool, PoolListener* listener) override;

 private:
  struct Pool {
    Pool(const PoolSpec& spec, MonoTime now) : model(spec, now) {}
    PoolModel model;
    List<PoolListener> listeners;
  };

  Pool* Find(absl::string_view pool) const;
  void Tell(Pool* pool);

  Reactor* const reactor_;
  absl::flat_hash_map<std::string, std::unique_ptr<Pool>> pools_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_MEMORY_STORE_H_
