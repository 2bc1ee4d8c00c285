// Which batch is held by which worker, and which of its items are open. Pure state.
#ifndef HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_
#define HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

// A session of a worker; a number of the coordinator's own, never reused.
using SessionId = StrongId<struct SessionIdTag>;

// A lease keeps its items, so that an item that comes back needs no second look at the dataset.
class LeaseTable {
 public:
  struct Lease {
    SessionId session;
    v1::Grant grant;
    MonoTime expiry;
    absl::flat_hash_set<uint64_t> open;  // items without a result
  };

  // Records that `grant` goes to `session` until `expiry`. The batch must not be leased.
  void Add(SessionId session, v1::Grant grant, MonoTime expiry);

  // The item of a live lease got its result. False when the batch is not leased under this epoch or
  // the item is not open in it.
  bool Close(BatchId batch, Epoch epoch, ItemId item);

  // Ends a lease; its open items. Empty when there is no such lease.
  std::vector<v1::Item> Remove(BatchId batch, Epoch epoch);

  // Keeps a lease alive. False when unknown: the worker has to resync.
  bool Renew(BatchId batch, Epoch epoch, MonoTime expiry);

  std::vector<BatchId> OfSession(SessionId session) const;
  // Leases that ended at or before `now`.
  std::vector<BatchId> Expired(MonoTime now) const;
  // nullptr when not leased.
  const Lease* Find(BatchId batch) const;

  size_t size() const { return leases_.size(); }
  int64_t open_items() const { return open_items_; }

 private:
  Lease* FindEpoch(BatchId batch, Epoch epoch);

  absl::flat_hash_map<BatchId, Lease> leases_;
  int64_t open_items_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_
