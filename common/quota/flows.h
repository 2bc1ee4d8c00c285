// Fair shares: start-time fair queueing between the jobs of a pool, and between the models of a
// job.
//
// A flow's virtual time is what it has been given, in microseconds of the whole pool, divided by
// its weight. A flow yields while another one that was refused is more than kFairWindow behind it.
// Who is furthest behind never yields, so the pool never idles for fairness. A flow that comes back
// from a pause is lifted to the virtual time of the pool and can neither claim what it did not use
// nor be held to what it used alone (the counter lift of VTC, arXiv 2401.00588).
#ifndef HEADRACE_COMMON_QUOTA_FLOWS_H_
#define HEADRACE_COMMON_QUOTA_FLOWS_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace headrace::quota {

struct FlowKey {
  uint64_t job_id = 0;
  uint32_t model = 0;

  friend auto operator<=>(const FlowKey&, const FlowKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const FlowKey& key) {
    return H::combine(std::move(state), key.job_id, key.model);
  }
};

// Virtual time is counted in sixteenths of a microsecond, so that a small request of a heavy flow
// still counts.
inline constexpr int64_t kVirtualPerUs = 16;
// How far a flow may be ahead of another: 250 ms of pool time, chosen, not measured.
inline constexpr int64_t kFairWindow = 250'000 * kVirtualPerUs;
// The pool time of a request where nothing but slots is limited, so that the window is five
// requests.
inline constexpr int64_t kSlotUs = 50'000;

// Weights are kept in thousandths, clamped to [0.01, 1,000].
int64_t WeightMilli(double weight);

// `pool_us` of pool time as virtual time of a flow; at most 19 hours count, to stay below 2^53.
inline int64_t VirtualTime(int64_t pool_us, int64_t weight_milli) {
  constexpr int64_t kMost = int64_t{1} << 36;
  return std::clamp(pool_us, -kMost, kMost) * (1000 * kVirtualPerUs) / weight_milli;
}

class FlowTable {
 public:
  // Call before the other functions for each request. A flow that was not refused within
  // `window_us` has no backlog and is lifted.
  void Ask(FlowKey key, double weight, int64_t now_us, int64_t window_us);
  // True when another flow, refused within `window_us`, must go first.
  bool MustYield(FlowKey key, int64_t now_us, int64_t window_us) const;
  void Served(FlowKey key, int64_t pool_us);
  void Refused(FlowKey key, int64_t now_us);
  // Corrects what the flow was given, of either sign. Nothing for a flow that is forgotten.
  void Correct(FlowKey key, int64_t pool_us);

  // Forgets the flows that have not asked within `window_us`, apart from `keep`.
  void Sweep(FlowKey keep, int64_t now_us, int64_t window_us);
  bool Has(FlowKey key) const { return flows_.contains(key); }
  size_t size() const { return flows_.size(); }

 private:
  static constexpr int64_t kNever = -(int64_t{1} << 52);

  struct Flow {
    int64_t virtual_time = 0;
    int64_t weight_milli = 1000;
    int64_t seen_us = 0;
    int64_t refused_us = kNever;
    bool refused = false;  // the last answer was a refusal
  };

  absl::flat_hash_map<FlowKey, Flow> flows_;
  int64_t virtual_time_ = 0;  // of the whole: the largest start of what was served
};

// The flows of a pool on two levels. A model of a job yields to other jobs as its job does, and
// within it to other models: three models of one job have no more than one model of another.
class FairShares {
 public:
  // As FlowTable's; `job_weight` is the job's within the pool, `weight` the model's within the job.
  void Ask(FlowKey key, double job_weight, double weight, int64_t now_us, int64_t window_us);
  bool MustYield(FlowKey key, int64_t now_us, int64_t window_us) const;
  void Served(FlowKey key, int64_t pool_us);
  void Refused(FlowKey key, int64_t now_us);
  void Correct(FlowKey key, int64_t pool_us);

 private:
  static FlowKey JobOf(FlowKey key) { return FlowKey{key.job_id, 0}; }

  FlowTable jobs_;
  absl::flat_hash_map<uint64_t, FlowTable> models_;  // by job, the same jobs
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_FLOWS_H_
