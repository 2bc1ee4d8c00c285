// A store that answers after a while, as one across a network does.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_SLOW_STORE_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_SLOW_STORE_H_

#include <string>
#include <utility>
#include <vector>

#include "common/async/wait.h"
#include "common/quota/memory_store.h"

namespace headrace::quota {

// Books at once and answers `delay` later; has no answer without waiting.
class SlowStore final : public PoolStore {
 public:
  SlowStore(Reactor* reactor, MemoryPoolStore* store, absl::Duration delay)
      : reactor_(reactor), store_(store), delay_(delay) {}

  void set_delay(absl::Duration delay) { delay_ = delay; }
  void set_error(absl::Status error) { error_ = std::move(error); }
  int questions() const { return questions_; }

  Task<absl::StatusOr<std::vector<ReserveAnswer>>> Reserve(std::string pool,
                                                           std::vector<ReserveRequest> requests,
                                                           absl::Duration horizon) override {
    ++questions_;
    absl::StatusOr<std::vector<ReserveAnswer>> answers =
        co_await store_->Reserve(std::move(pool), std::move(requests), horizon);
    co_await Sleep(reactor_, delay_, StopToken());
    if (!error_.ok()) co_return error_;
    co_return answers;
  }
  void Settle(absl::string_view pool, ReservationId id, Settlement settlement,
              const Costs& actual) override {
    store_->Settle(pool, id, settlement, actual);
  }
  void Penalize(absl::string_view pool, const Penalty& penalty) override {
    store_->Penalize(pool, penalty);
  }
  void Observe(absl::string_view pool, const Observation& observation) override {
    store_->Observe(pool, observation);
  }
  Task<absl::Status> Reconfigure(PoolSpec spec) override {
    return store_->Reconfigure(std::move(spec));
  }
  PoolSnapshot Snapshot(absl::string_view pool) const override { return store_->Snapshot(pool); }
  PoolHint Hint(absl::string_view pool) const override { return store_->Hint(pool); }
  void Listen(absl::string_view pool, PoolListener* listener) override {
    store_->Listen(pool, listener);
  }

 private:
  Reactor* const reactor_;
  MemoryPoolStore* const store_;
  absl::Duration delay_;
  absl::Status error_;
  int questions_ = 0;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_SLOW_STORE_H_
