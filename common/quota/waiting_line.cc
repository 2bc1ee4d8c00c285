#include "common/quota/waiting_line.h"

#include <algorithm>

#include "common/base/log.h"

namespace headrace::quota {

void WaitingLine::Add(WaitingAttempt* attempt, bool again) {
  if (flows_.size() >= sweep_at_) Sweep();
  const ReserveRequest& request = attempt->request;
  WaitingFlow* flow = &flows_[FlowKey{request.job_id, request.model}];
  if (flow->job == nullptr) {
    flow->job = &jobs_[request.job_id];
    ++flow->job->flows;
  }
  if (flow->empty()) {
    flow->job->weight_milli = WeightMilli(request.job_weight);
    flow->weight_milli = WeightMilli(request.weight);
    flow->job->models_milli += flow->weight_milli;
    flow->virtual_time = std::max(flow->virtual_time, virtual_time_);
    flow->active_index = active_.size();
    active_.push_back(flow);
  }
  attempt->flow = flow;
  attempt->again = again;
  (again ? flow->again : flow->fresh).PushBack(attempt);
  ++size_;
}

void WaitingLine::Remove(WaitingAttempt* attempt) {
  WaitingFlow* flow = attempt->flow;
  HR_CHECK(flow != nullptr && attempt->linked()) << "an attempt left the line twice";
  attempt->Unlink();
  attempt->flow = nullptr;
  --size_;
  if (!flow->empty()) return;
  flow->job->models_milli -= flow->weight_milli;
  active_.back()->active_index = flow->active_index;
  active_[flow->active_index] = active_.back();
  active_.pop_back();
}

WaitingAttempt* WaitingLine::First() {
  if (active_.empty()) return nullptr;
  WaitingFlow* flow = active_.front();
  return flow->again.empty() ? flow->fresh.front() : flow->again.front();
}

WaitingFlow* WaitingLine::Earliest() {
  WaitingFlow* earliest = nullptr;
  for (WaitingFlow* flow : active_) {
    if (flow->cursor == nullptr) continue;
    if (earliest == nullptr || flow->tag < earliest->tag) earliest = flow;
  }
  return earliest;
}

void WaitingLine::Served(FlowKey key, int64_t pool_us) {
  const auto it = flows_.find(key);
  if (it == flows_.end()) return;
  WaitingFlow& flow = it->second;
  if (flow.empty()) flow.virtual_time = std::max(flow.virtual_time, virtual_time_);
  virtual_time_ = std::max(virtual_time_, flow.virtual_time);
  flow.virtual_time += std::max<int64_t>(1, VirtualTime(pool_us, flow.share_milli()));
}

void WaitingLine::Correct(FlowKey key, int64_t pool_us) {
  const auto it = flows_.find(key);
  if (it != flows_.end()) it->second.virtual_time += VirtualTime(pool_us, it->second.share_milli());
}

// A flow that comes back starts at the virtual time of the pool, so nothing is lost with an empty
// one that is not ahead of it.
void WaitingLine::Sweep() {
  absl::erase_if(flows_, [this](const auto& entry) {
    const WaitingFlow& flow = entry.second;
    if (!flow.empty() || flow.virtual_time > virtual_time_) return false;
    if (flow.job != nullptr) --flow.job->flows;
    return true;
  });
  absl::erase_if(jobs_, [](const auto& entry) { return entry.second.flows == 0; });
  sweep_at_ = std::max<size_t>(64, flows_.size() * 2);
}

}  // namespace headrace::quota
