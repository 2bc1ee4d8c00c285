// What one worker allows itself while Redis cannot be reached: the safe mode of quota.md 3.6. All
// workers together use at most four fifths of each limit, in requests of a burst of one.
#ifndef HEADRACE_COMMON_QUOTA_LOCAL_SHARE_H_
#define HEADRACE_COMMON_QUOTA_LOCAL_SHARE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/time.h"
#include "common/quota/bucket.h"
#include "common/quota/pool_script.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

class LocalShare {
 public:
  // `workers`: how many there were, this one included; one more may have come. Starts cold.
  // Slots that this worker holds of before count as its own.
  LocalShare(const PoolSpec& spec, int64_t workers, MonoTime now);

  // Of the limits, between 0 and 1.
  double share() const { return share_; }

  // As PoolStore::Reserve(). `held`: slots that the worker holds of before.
  ReserveAnswer Reserve(MonoTime now, const ReserveRequest& request, absl::Duration horizon,
                        MonoTime gate_until, int64_t held);
  // False for an id that was not reserved here.
  bool Settle(ReservationId id, Settlement settlement, const Costs& actual);

  int64_t open() const { return static_cast<int64_t>(open_.size()); }
  int64_t free_slots(int64_t held) const;

  // For Redis, when it is back: what is not paid for yet of each limit, and what was sent in each
  // second.
  Costs Debt(MonoTime now) const;
  std::vector<LocalCell> Cells(MonoTime now) const;
  // Visits id, job, model and send time of what is open.
  template <typename Visit>
  void EachOpen(Visit visit) const {
    for (const auto& [id, open] : open_) visit(id, open.job_id, open.model, open.at);
  }

 private:
  struct Open {
    uint64_t job_id = 0;
    uint32_t model = 0;
    Costs reserved{};
    MonoTime at;
  };
  struct Second {
    int64_t second = 0;
    Costs costs{};
  };

  void Note(MonoTime at, const Costs& costs, int64_t sign);

  double share_;
  int64_t slots_;  // of the gauge; max when there is none
  std::vector<Bucket> buckets_;
  MonoTime newest_;
  absl::flat_hash_map<ReservationId, Open> open_;
  std::deque<Second> seconds_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_LOCAL_SHARE_H_
