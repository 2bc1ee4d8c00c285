#include "coordinator/plan/lease_table.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace headrace {

void LeaseTable::Insert(Lease lease) {
  const BatchId id(lease.grant.batch_id());
  lease.open.reserve(static_cast<size_t>(lease.grant.items_size()));
  for (const v1::Item& item : lease.grant.items()) lease.open.insert(item.item());
  lease.not_started = static_cast<uint32_t>(lease.open.size());
  open_items_ += static_cast<int64_t>(lease.open.size());
  if (!lease.live) lost_.insert(id);
  if (lease.suspect) suspects_.insert(id);
  const bool added = leases_.emplace(id, std::move(lease)).second;
  HR_CHECK(added) << "batch " << id << " is leased already";
}

void LeaseTable::Add(WorkerKey worker, v1::Grant grant, MonoTime expiry) {
  Lease lease;
  lease.worker = worker;
  lease.grant = std::move(grant);
  lease.expiry = expiry;
  Insert(std::move(lease));
}

void LeaseTable::Adopt(WorkerKey worker, v1::Grant grant, MonoTime expiry) {
  Lease lease;
  lease.worker = worker;
  lease.grant = std::move(grant);
  lease.expiry = expiry;
  lease.has_texts = false;
  Insert(std::move(lease));
}

LeaseTable::Lease* LeaseTable::FindEpoch(BatchId batch, Epoch epoch) {
  auto it = leases_.find(batch);
  if (it == leases_.end() || it->second.grant.epoch() != epoch.value()) return nullptr;
  return &it->second;
}

bool LeaseTable::Close(BatchId batch, Epoch epoch, ItemId item) {
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr || lease->open.erase(item.value()) == 0) return false;
  --open_items_;
  return true;
}

bool LeaseTable::IsOpen(BatchId batch, Epoch epoch, ItemId item) const {
  const Lease* lease = Find(batch);
  return lease != nullptr && lease->grant.epoch() == epoch.value() &&
         lease->open.contains(item.value());
}

std::vector<v1::Item> LeaseTable::Remove(BatchId batch, Epoch epoch) {
  std::vector<v1::Item> items;
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr) return items;
  for (v1::Item& item : *lease->grant.mutable_items()) {
    if (lease->open.contains(item.item())) items.push_back(std::move(item));
  }
  open_items_ -= static_cast<int64_t>(lease->open.size());
  lost_.erase(batch);
  suspects_.erase(batch);
  leases_.erase(batch);
  return items;
}

std::vector<v1::Item> LeaseTable::RemoveItems(BatchId batch, Epoch epoch,
                                              const std::vector<uint64_t>& items) {
  std::vector<v1::Item> removed;
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr) return removed;
  absl::flat_hash_set<uint64_t> wanted;
  for (uint64_t item : items) {
    if (lease->open.erase(item) == 0) continue;
    --open_items_;
    wanted.insert(item);
  }
  for (v1::Item& item : *lease->grant.mutable_items()) {
    // Closed in the lease, so nothing needs its text there any more.
    if (wanted.contains(item.item())) removed.push_back(item);
  }
  return removed;
}

bool LeaseTable::Renew(WorkerKey worker, BatchId batch, Epoch epoch, MonoTime expiry) {
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr || lease->worker != worker) return false;
  lease->expiry = expiry;
  lease->live = true;
  lease->maybe_held = false;
  lost_.erase(batch);
  return true;
}

bool LeaseTable::HoldsNoLost(WorkerKey worker) {
  bool changed = false;
  for (BatchId batch : lost_) {
    Lease& lease = leases_.at(batch);
    if (lease.worker == worker) changed = std::exchange(lease.maybe_held, false) || changed;
  }
  return changed;
}

void LeaseTable::SetNotStarted(BatchId batch, uint32_t items) {
  auto it = leases_.find(batch);
  if (it != leases_.end()) it->second.not_started = items;
}

void LeaseTable::Lose(BatchId batch, Lease* lease) {
  lease->live = false;
  lost_.insert(batch);
  if (++lease->losses < kLossesToSplit) return;
  lease->suspect = true;
  suspects_.insert(batch);
}

std::vector<BatchId> LeaseTable::Expire(MonoTime now) {
  std::vector<BatchId> ids;
  for (auto& [id, lease] : leases_) {
    if (!lease.live || lease.expiry > now) continue;
    Lose(id, &lease);
    lease.maybe_held = true;
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<BatchId> LeaseTable::LoseWorker(WorkerKey worker) {
  std::vector<BatchId> ids;
  for (auto& [id, lease] : leases_) {
    if (!lease.live || lease.worker != worker) continue;
    Lose(id, &lease);
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

v1::Grant LeaseTable::Reissue(BatchId batch, WorkerKey worker, BatchId part, size_t max_items,
                              MonoTime expiry) {
  Lease* lease = &leases_.at(batch);
  HR_CHECK(!lease->live && lease->has_texts && max_items > 0);
  v1::Grant rest = std::move(lease->grant);
  const uint32_t epoch = rest.epoch() + 1;
  std::vector<v1::Item> items;
  for (v1::Item& item : *rest.mutable_items()) {
    if (lease->open.contains(item.item())) items.push_back(std::move(item));
  }
  rest.clear_items();
  v1::Grant grant = rest;
  size_t count = std::min(max_items, items.size());
  uint32_t losses = lease->losses;
  const bool suspect = lease->suspect;
  if (losses >= kLossesToSplit && items.size() > 1) {
    count = std::min(count, (items.size() + 1) / 2);
    losses = kLossesToSplit - 1;
  }
  for (size_t i = 0; i < count; ++i) *grant.add_items() = std::move(items[i]);
  for (size_t i = count; i < items.size(); ++i) *rest.add_items() = std::move(items[i]);
  const bool whole = count == items.size();
  open_items_ -= static_cast<int64_t>(lease->open.size());
  leases_.erase(batch);
  lost_.erase(batch);
  suspects_.erase(batch);
  if (whole) {
    grant.set_epoch(epoch);
  } else {
    grant.set_batch_id(part.value());
    grant.set_epoch(1);
    // The rest is out of the reach of its last worker too.
    rest.set_epoch(epoch);
    Lease left;
    left.worker = worker;
    left.grant = std::move(rest);
    left.expiry = expiry;
    left.losses = losses;
    left.suspect = suspect;
    left.live = false;
    Insert(std::move(left));
  }
  Lease given;
  given.worker = worker;
  given.grant = grant;
  given.expiry = expiry;
  given.losses = losses;
  given.suspect = suspect;
  Insert(std::move(given));
  return grant;
}

bool LeaseTable::HoldsAny(WorkerKey worker) const {
  return std::any_of(leases_.begin(), leases_.end(), [worker](const auto& entry) {
    return entry.second.live && entry.second.worker == worker;
  });
}

bool LeaseTable::HoldsSuspect(WorkerKey worker) const {
  return std::any_of(suspects_.begin(), suspects_.end(), [this, worker](BatchId batch) {
    const Lease& lease = leases_.at(batch);
    return lease.live && lease.worker == worker;
  });
}

bool LeaseTable::IsPoison(BatchId batch) const {
  const Lease* lease = Find(batch);
  return lease != nullptr && !lease->live && lease->open.size() == 1 &&
         lease->losses >= kLossesOfPoison;
}

std::vector<BatchId> LeaseTable::OfWorker(WorkerKey worker) const {
  std::vector<BatchId> ids;
  for (const auto& [id, lease] : leases_) {
    if (lease.worker == worker && lease.live) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

const LeaseTable::Lease* LeaseTable::Find(BatchId batch) const {
  auto it = leases_.find(batch);
  return it == leases_.end() ? nullptr : &it->second;
}

}  // namespace headrace
