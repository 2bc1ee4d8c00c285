#include "coordinator/plan/lease_table.h"

#include <utility>

#include "common/base/log.h"

namespace headrace {

void LeaseTable::Add(SessionId session, v1::Grant grant, MonoTime expiry) {
  const BatchId id(grant.batch_id());
  Lease lease;
  lease.session = session;
  lease.expiry = expiry;
  lease.open.reserve(static_cast<size_t>(grant.items_size()));
  for (const v1::Item& item : grant.items()) lease.open.insert(item.item());
  open_items_ += static_cast<int64_t>(lease.open.size());
  lease.grant = std::move(grant);
  const bool added = leases_.emplace(id, std::move(lease)).second;
  HR_CHECK(added) << "batch " << id << " is leased already";
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

std::vector<v1::Item> LeaseTable::Remove(BatchId batch, Epoch epoch) {
  std::vector<v1::Item> items;
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr) return items;
  for (v1::Item& item : *lease->grant.mutable_items()) {
    if (lease->open.contains(item.item())) items.push_back(std::move(item));
  }
  open_items_ -= static_cast<int64_t>(lease->open.size());
  leases_.erase(batch);
  return items;
}

bool LeaseTable::Renew(BatchId batch, Epoch epoch, MonoTime expiry) {
  Lease* lease = FindEpoch(batch, epoch);
  if (lease == nullptr) return false;
  lease->expiry = expiry;
  return true;
}

std::vector<BatchId> LeaseTable::OfSession(SessionId session) const {
  std::vector<BatchId> ids;
  for (const auto& [id, lease] : leases_) {
    if (lease.session == session) ids.push_back(id);
  }
  return ids;
}

std::vector<BatchId> LeaseTable::Expired(MonoTime now) const {
  std::vector<BatchId> ids;
  for (const auto& [id, lease] : leases_) {
    if (lease.expiry <= now) ids.push_back(id);
  }
  return ids;
}

const LeaseTable::Lease* LeaseTable::Find(BatchId batch) const {
  auto it = leases_.find(batch);
  return it == leases_.end() ? nullptr : &it->second;
}

}  // namespace headrace
