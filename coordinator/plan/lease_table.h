// Which batch is held by which worker, and which of its items are open. Pure state.
//
//   state  event                                  next  effect
//   LIVE   Renew(worker, epoch)                   LIVE  a later expiry
//   LIVE   expiry passed, LoseWorker              LOST  a loss is counted
//   LOST   Renew by its last worker, same epoch   LIVE  nobody else has it yet: it goes on
//   LOST   Reissue                                LIVE  the next epoch, or a part under a new id;
//                                                       not to a worker that may hold it
//   any    Remove(epoch)                          -     the open items come back
//
// Epochs fence leases, not data: an item of a stale epoch is not open in it any more, but what its
// worker brings may still be the item's first ok (JobState decides).
//
// Worked race: worker A freezes with batch 7 (epoch 1), the lease expires, and B gets 7 under epoch
// 2. A wakes and beats: Renew(A, 7, 1) fails, so A is told to cancel. Had A woken before B asked,
// it would have gone on under epoch 1.
#ifndef HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_
#define HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/ids.h"
#include "common/base/time.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

// One process of a worker; a number of the coordinator's own, never reused. A worker that starts
// again under the same name has another one.
using WorkerKey = StrongId<struct WorkerKeyTag>;

// A batch that was lost this often is issued in halves, each alone to its worker, so that an item
// that kills its workers is found in few steps and takes no other with it; alone in its batch and
// lost this often, it gets its own outcome. The second is larger because a worker can be lost for
// reasons of its own. Chosen, not measured.
inline constexpr uint32_t kLossesToSplit = 2;
inline constexpr uint32_t kLossesOfPoison = 3;

// A lease keeps its items, so that an item that comes back needs no second look at the dataset.
class LeaseTable {
 public:
  struct Lease {
    WorkerKey worker;  // of the last one, when lost
    v1::Grant grant;
    MonoTime expiry;
    absl::flat_hash_set<uint64_t> open;  // items without a result
    uint32_t losses = 0;                 // workers that were lost with it
    uint32_t not_started = 0;            // items without a call, as last heard
    bool live = true;
    // Lost by time alone: its worker may hold it still, and has not said since.
    bool maybe_held = false;
    // It, or the batch that it is a part of, was lost kLossesToSplit times: whatever else its
    // worker held with it would be lost with it again, and would come under suspicion itself.
    bool suspect = false;
    bool has_texts = true;  // false: adopted, the items are bare numbers
  };

  // Records that `grant` goes to `worker` until `expiry`. The batch must not be in the table.
  void Add(WorkerKey worker, v1::Grant grant, MonoTime expiry);
  // The same for a batch that a worker brings along after a restart of the coordinator; `grant` has
  // items without texts.
  void Adopt(WorkerKey worker, v1::Grant grant, MonoTime expiry);

  // The item of a lease got its result. False when the batch is not in the table under this epoch
  // or the item is not open in it.
  bool Close(BatchId batch, Epoch epoch, ItemId item);
  // True when Close would be.
  bool IsOpen(BatchId batch, Epoch epoch, ItemId item) const;

  // Ends a lease; its open items, in order. Empty when there is no such lease.
  std::vector<v1::Item> Remove(BatchId batch, Epoch epoch);
  // Takes single items out of a lease; those of `items` that were open in it.
  std::vector<v1::Item> RemoveItems(BatchId batch, Epoch epoch, const std::vector<uint64_t>& items);

  // Keeps a lease alive, or revives a lost one that nobody else has got. False: the worker must
  // cancel the batch.
  bool Renew(WorkerKey worker, BatchId batch, Epoch epoch, MonoTime expiry);
  void SetNotStarted(BatchId batch, uint32_t items);
  // `worker` has said what it holds, and that was renewed: it holds none of its lost leases. True
  // if it might have until now.
  bool HoldsNoLost(WorkerKey worker);

  // The live leases that end at or before `now`, and those of `worker`, become lost; their ids.
  std::vector<BatchId> Expire(MonoTime now);
  std::vector<BatchId> LoseWorker(WorkerKey worker);

  // Gives a lost lease to `worker`: all of it under its next epoch, or at most `max_items` of it as
  // a new batch `part`, when it is larger or is to be split. The grant to send.
  v1::Grant Reissue(BatchId batch, WorkerKey worker, BatchId part, size_t max_items,
                    MonoTime expiry);
  // True when `worker` has a live lease; a live one that is suspect.
  bool HoldsAny(WorkerKey worker) const;
  bool HoldsSuspect(WorkerKey worker) const;
  // True when the lost lease's only item killed its workers.
  bool IsPoison(BatchId batch) const;

  const std::set<BatchId>& lost() const { return lost_; }
  std::vector<BatchId> OfWorker(WorkerKey worker) const;
  // nullptr when not in the table.
  const Lease* Find(BatchId batch) const;
  const absl::flat_hash_map<BatchId, Lease>& all() const { return leases_; }

  size_t size() const { return leases_.size(); }
  size_t live() const { return leases_.size() - lost_.size(); }
  int64_t open_items() const { return open_items_; }

 private:
  Lease* FindEpoch(BatchId batch, Epoch epoch);
  void Insert(Lease lease);
  void Lose(BatchId batch, Lease* lease);

  absl::flat_hash_map<BatchId, Lease> leases_;
  std::set<BatchId> lost_;      // oldest batches first
  std::set<BatchId> suspects_;  // live and lost
  int64_t open_items_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_LEASE_TABLE_H_
