#include "common/quota/memory_store.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::quota {

MemoryPoolStore::MemoryPoolStore(Reactor* reactor, const std::vector<PoolSpec>& specs)
    : reactor_(reactor) {
  for (const PoolSpec& spec : specs) {
    const bool is_new =
        pools_.emplace(spec.name, std::make_unique<Pool>(spec, reactor->Now())).second;
    HR_CHECK(is_new) << "two pools are named " << spec.name;
  }
}

MemoryPoolStore::~MemoryPoolStore() = default;

MemoryPoolStore::Pool* MemoryPoolStore::Find(absl::string_view pool) const {
  const auto it = pools_.find(pool);
  return it == pools_.end() ? nullptr : it->second.get();
}

Task<absl::StatusOr<std::vector<ReserveAnswer>>> MemoryPoolStore::Reserve(
    std::string pool, std::vector<ReserveRequest> requests, absl::Duration horizon) {
  Pool* found = Find(pool);
  if (found == nullptr) co_return absl::NotFoundError(absl::StrCat("no pool is named ", pool));
  std::vector<ReserveAnswer> answers;
  answers.reserve(requests.size());
  const MonoTime now = reactor_->Now();
  for (const ReserveRequest& request : requests) {
    answers.push_back(found->model.Reserve(now, request, horizon));
  }
  co_return answers;
}

std::optional<ReserveAnswer> MemoryPoolStore::ReserveNow(absl::string_view pool,
                                                         const ReserveRequest& request,
                                                         absl::Duration horizon) {
  Pool* found = Find(pool);
  if (found == nullptr) return std::nullopt;
  return found->model.Reserve(reactor_->Now(), request, horizon);
}

void MemoryPoolStore::Settle(absl::string_view pool, ReservationId id, Settlement settlement,
                             const Costs& actual) {
  Pool* found = Find(pool);
  if (found == nullptr) return;
  if (found->model.Settle(reactor_->Now(), id, settlement, actual)) Tell(found);
}

void MemoryPoolStore::Penalize(absl::string_view pool, const Penalty& penalty) {
  Pool* found = Find(pool);
  if (found == nullptr) return;
  if (found->model.Penalize(reactor_->Now(), penalty)) Tell(found);
}

void MemoryPoolStore::Observe(absl::string_view pool, const Observation& observation) {
  if (Pool* found = Find(pool)) found->model.Observe(reactor_->Now(), observation);
}

Task<absl::Status> MemoryPoolStore::Reconfigure(PoolSpec spec) {
  Pool* found = Find(spec.name);
  if (found == nullptr) co_return absl::NotFoundError(absl::StrCat("no pool is named ", spec.name));
  const absl::Status valid = ValidatePool(spec);
  if (!valid.ok()) co_return valid;
  if (found->model.Reconfigure(reactor_->Now(), spec)) Tell(found);
  co_return absl::OkStatus();
}

void MemoryPoolStore::SetInFlight(absl::string_view pool, int64_t limit) {
  Pool* found = Find(pool);
  if (found != nullptr && found->model.SetInFlight(reactor_->Now(), limit)) Tell(found);
}

PoolSnapshot MemoryPoolStore::Snapshot(absl::string_view pool) const {
  const Pool* found = Find(pool);
  return found == nullptr ? PoolSnapshot{} : found->model.Snapshot(reactor_->Now());
}

PoolHint MemoryPoolStore::Hint(absl::string_view pool) const {
  const Pool* found = Find(pool);
  return found == nullptr ? PoolStore::Hint(pool) : found->model.Hint();
}

void MemoryPoolStore::Listen(absl::string_view pool, PoolListener* listener) {
  if (Pool* found = Find(pool)) found->listeners.PushBack(listener);
}

// A listener may settle what it had booked, which tells the listeners again; none leaves meanwhile.
void MemoryPoolStore::Tell(Pool* pool) {
  PoolListener* listener = pool->listeners.front();
  while (listener != nullptr) {
    listener->OnPoolChanged();
    listener = pool->listeners.Next(listener);
  }
}

}  // namespace headrace::quota
