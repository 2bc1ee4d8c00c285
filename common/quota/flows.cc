#include "common/quota/flows.h"

#include <algorithm>
#include <cmath>

namespace headrace::quota {

int64_t WeightMilli(double weight) {
  if (!(weight > 0.01)) return 10;
  return std::llround(std::min(weight, 1000.0) * 1000);
}

void FlowTable::Ask(FlowKey key, double weight, int64_t now_us, int64_t window_us) {
  if (flows_.size() >= sweep_at_) Sweep(now_us, window_us);
  auto [it, is_new] = flows_.try_emplace(key);
  Flow& flow = it->second;
  flow.weight_milli = WeightMilli(weight);
  flow.seen_us = now_us;
  const bool backlogged = !is_new && flow.refused_us >= now_us - window_us;
  if (!backlogged) flow.virtual_time = std::max(flow.virtual_time, virtual_time_);
}

bool FlowTable::MustYield(FlowKey key, int64_t now_us, int64_t window_us) const {
  if (flows_.size() < 2) return false;
  const auto self = flows_.find(key);
  if (self == flows_.end()) return false;
  const int64_t tolerated = self->second.virtual_time - kFairWindow;
  for (const auto& [other, flow] : flows_) {
    if (flow.refused && flow.refused_us >= now_us - window_us && flow.virtual_time < tolerated) {
      return true;
    }
  }
  return false;
}

void FlowTable::Served(FlowKey key, int64_t pool_us) {
  const auto it = flows_.find(key);
  if (it == flows_.end()) return;
  Flow& flow = it->second;
  flow.refused = false;
  virtual_time_ = std::max(virtual_time_, flow.virtual_time);
  flow.virtual_time += std::max<int64_t>(1, VirtualTime(pool_us, flow.weight_milli));
}

void FlowTable::Refused(FlowKey key, int64_t now_us) {
  const auto it = flows_.find(key);
  if (it == flows_.end()) return;
  it->second.refused = true;
  it->second.refused_us = now_us;
}

void FlowTable::Correct(FlowKey key, int64_t pool_us) {
  const auto it = flows_.find(key);
  if (it != flows_.end()) it->second.virtual_time += VirtualTime(pool_us, it->second.weight_milli);
}

void FlowTable::Sweep(int64_t now_us, int64_t window_us) {
  absl::erase_if(flows_,
                 [&](const auto& entry) { return entry.second.seen_us < now_us - window_us; });
  sweep_at_ = std::max<size_t>(64, flows_.size() * 2);
}

}  // namespace headrace::quota
