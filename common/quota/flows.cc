#include "common/quota/flows.h"

#include <algorithm>
#include <cmath>

namespace headrace::quota {

int64_t WeightMilli(double weight) {
  if (!(weight > 0.01)) return 10;
  return std::llround(std::min(weight, 1000.0) * 1000);
}

void FlowTable::Ask(FlowKey key, double weight, int64_t now_us, int64_t window_us) {
  const bool is_new = !flows_.contains(key);
  if (is_new) Sweep(key, now_us, window_us);
  const auto it = flows_.try_emplace(key).first;
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

void FlowTable::Sweep(FlowKey keep, int64_t now_us, int64_t window_us) {
  absl::erase_if(flows_, [&](const auto& entry) {
    return entry.first != keep && entry.second.seen_us < now_us - window_us;
  });
}

void FairShares::Ask(FlowKey key, double job_weight, double weight, int64_t now_us,
                     int64_t window_us) {
  const bool is_new = !jobs_.Has(JobOf(key));
  jobs_.Ask(JobOf(key), job_weight, now_us, window_us);
  if (is_new) {
    absl::erase_if(models_, [this](const auto& job) { return !jobs_.Has(FlowKey{job.first, 0}); });
  }
  models_[key.job_id].Ask(key, weight, now_us, window_us);
}

bool FairShares::MustYield(FlowKey key, int64_t now_us, int64_t window_us) const {
  if (jobs_.MustYield(JobOf(key), now_us, window_us)) return true;
  const auto models = models_.find(key.job_id);
  return models != models_.end() && models->second.MustYield(key, now_us, window_us);
}

void FairShares::Served(FlowKey key, int64_t pool_us) {
  jobs_.Served(JobOf(key), pool_us);
  if (const auto it = models_.find(key.job_id); it != models_.end())
    it->second.Served(key, pool_us);
}

void FairShares::Refused(FlowKey key, int64_t now_us) {
  jobs_.Refused(JobOf(key), now_us);
  if (const auto it = models_.find(key.job_id); it != models_.end())
    it->second.Refused(key, now_us);
}

void FairShares::Correct(FlowKey key, int64_t pool_us) {
  jobs_.Correct(JobOf(key), pool_us);
  if (const auto it = models_.find(key.job_id); it != models_.end())
    it->second.Correct(key, pool_us);
}

}  // namespace headrace::quota
