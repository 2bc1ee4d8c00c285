#include "common/quota/redis_store.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/redis_pool.h"

namespace headrace::quota {

RedisPoolStore::RedisPoolStore(Reactor* reactor, std::unique_ptr<PoolServer> server,
                               const std::vector<SharedPool>& pools, RedisStoreOptions options)
    : reactor_(reactor),
      server_(std::move(server)),
      options_(std::move(options)),
      scope_(reactor, StopToken()) {
  std::vector<std::string> channels;
  for (const SharedPool& pool : pools) {
    auto made = std::make_unique<RedisPool>(reactor_, server_.get(), pool, options_);
    RedisPool* const added = made.get();
    const bool is_new = pools_.emplace(pool.spec.name, std::move(made)).second;
    HR_CHECK(is_new) << "two pools are named " << pool.spec.name;
    by_channel_[added->channel()] = added;
    channels.push_back(added->channel());
    scope_.Spawn(RedisPool::Run(added, scope_.token()));
  }
  if (channels.empty()) return;
  std::shared_ptr<redis::Subscription> hints = server_->Subscribe(std::move(channels));
  if (hints != nullptr) scope_.Spawn(ReadHints(std::move(hints), scope_.token()));
}

RedisPoolStore::~RedisPoolStore() = default;

RedisPool* RedisPoolStore::Find(absl::string_view pool) const {
  const auto it = pools_.find(pool);
  return it == pools_.end() ? nullptr : it->second.get();
}

// Only hints: whoever misses one hears the same with the next answer.
Task<void> RedisPoolStore::ReadHints(std::shared_ptr<redis::Subscription> subscription,
                                     StopToken stop) {
  while (true) {
    const std::optional<redis::Hint> hint = co_await redis::Subscription::Next(subscription, stop);
    if (!hint) break;
    const auto pool = by_channel_.find(hint->channel);
    if (pool != by_channel_.end()) pool->second->OnHint(hint->payload);
  }
  subscription->Cancel();
}

Task<absl::StatusOr<std::vector<ReserveAnswer>>> RedisPoolStore::Reserve(
    std::string pool, std::vector<ReserveRequest> requests, absl::Duration horizon) {
  RedisPool* found = Find(pool);
  if (found == nullptr) co_return absl::NotFoundError(absl::StrCat("no pool is named ", pool));
  if (stopped_) co_return absl::CancelledError("the pool's store was stopped");
  if (requests.empty()) co_return std::vector<ReserveAnswer>();
  co_return co_await found->Reserve(std::move(requests), horizon);
}

void RedisPoolStore::Settle(absl::string_view pool, ReservationId id, Settlement settlement,
                            const Costs& actual) {
  if (RedisPool* found = Find(pool)) found->Settle(id, settlement, actual);
}

void RedisPoolStore::Penalize(absl::string_view pool, const Penalty& penalty) {
  if (RedisPool* found = Find(pool)) found->Penalize(penalty);
}

void RedisPoolStore::Observe(absl::string_view pool, const Observation& observation) {
  if (RedisPool* found = Find(pool)) found->Observe(observation);
}

Task<absl::Status> RedisPoolStore::Reconfigure(PoolSpec spec) {
  RedisPool* found = Find(spec.name);
  if (found == nullptr) co_return absl::NotFoundError(absl::StrCat("no pool is named ", spec.name));
  if (stopped_) co_return absl::CancelledError("the pool's store was stopped");
  co_return co_await found->Reconfigure(std::move(spec));
}

void RedisPoolStore::AddSample(absl::string_view pool, const FlightSample& sample) {
  if (RedisPool* found = Find(pool)) found->AddSample(sample);
}

PoolSnapshot RedisPoolStore::Snapshot(absl::string_view pool) const {
  const RedisPool* found = Find(pool);
  return found == nullptr ? PoolSnapshot{} : found->Snapshot();
}

PoolHint RedisPoolStore::Hint(absl::string_view pool) const {
  const RedisPool* found = Find(pool);
  return found == nullptr ? PoolStore::Hint(pool) : found->Hint();
}

void RedisPoolStore::Listen(absl::string_view pool, PoolListener* listener) {
  if (RedisPool* found = Find(pool)) found->Listen(listener);
}

RedisStoreStats RedisPoolStore::stats() const {
  RedisStoreStats sum;
  for (const auto& [name, pool] : pools_) {
    sum.calls += pool->stats().calls;
    sum.failed += pool->stats().failed;
    sum.reserved += pool->stats().reserved;
  }
  return sum;
}

Task<void> RedisPoolStore::Stop() {
  if (stopped_) co_return;
  stopped_ = true;
  scope_.RequestStop(StopReason{StopCode::kOwnerDone, {}});
  co_await scope_.Join();
  for (const auto& [name, pool] : pools_) co_await pool->Leave();
  co_await server_->Stop();
}

}  // namespace headrace::quota
