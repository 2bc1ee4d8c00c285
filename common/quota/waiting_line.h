// The attempts of one worker that wait for a pool: first come, first served within a flow, and
// start-time fair queueing between flows. The store shares by
// job and model; this order only has to be near what it will admit.
#ifndef HEADRACE_COMMON_QUOTA_WAITING_LINE_H_
#define HEADRACE_COMMON_QUOTA_WAITING_LINE_H_

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/base/time.h"
#include "common/quota/admission.h"
#include "common/quota/flows.h"
#include "common/quota/pool_store.h"

namespace headrace::quota {

struct WaitingFlow;

// One attempt on its way to an answer. Lives in the frame of Admit(), so waiting allocates nothing.
struct WaitingAttempt : ListNode<WaitingAttempt> {
  enum class State { kQueued, kAsking, kBooked, kAnswered };

  explicit WaitingAttempt(void* o) : owner(o) {}

  void* const owner;  // the Admission::Impl
  State state = State::kQueued;
  ReserveRequest request;
  WaitingFlow* flow = nullptr;  // while in line
  bool again = false;           // which of its two lists
  size_t asking_index = 0;      // kAsking
  MonoTime at;                  // the booked send time
  Costs expected{};             // of the answer
  uint64_t epoch = 0;           // of the pool, when it was booked
  int late_count = 0;           // times that it was booked anew for being late
  Timer timer;
  StopToken stop;
  bool outlasts_deadlines = false;  // once it is booked
  StopCallback on_stop;
  StopCallback on_call_stop;
  std::coroutine_handle<> handle;
  Ticket::Kind kind = Ticket::Kind::kStopped;  // kAnswered
  std::string text;
};

// The models of a job divide its weight while they wait.
struct WaitingJob {
  int64_t weight_milli = 1000;
  int64_t models_milli = 0;  // of its flows that are not empty, together
  int64_t flows = 0;
};

struct WaitingFlow {
  int64_t share_milli() const {
    return std::max<int64_t>(
        1, job->weight_milli * weight_milli / std::max(weight_milli, job->models_milli));
  }
  bool empty() const { return again.empty() && fresh.empty(); }

  int64_t virtual_time = 0;
  WaitingJob* job = nullptr;
  int64_t weight_milli = 1000;  // of the model; changes only while the flow is empty
  List<WaitingAttempt> again;   // were booked before; ahead of the others
  List<WaitingAttempt> fresh;
  size_t active_index = 0;  // in WaitingLine::active_, while not empty

  // Of PickBatch().
  WaitingAttempt* cursor = nullptr;
  int64_t tag = 0;
};

class WaitingLine {
 public:
  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }
  // False while at most one flow has ever waited: nobody to be fair to.
  bool fair() const { return flows_.size() > 1; }

  void Add(WaitingAttempt* attempt, bool again);
  void Remove(WaitingAttempt* attempt);
  WaitingAttempt* First();

  // The next `count` attempts in the order in which they should be served, and after them the first
  // of each flow that has none among those, in case the store lets that one go first. They stay in
  // line. `pool_us(costs)` is what an attempt takes from the pool.
  template <typename PoolUs>
  void PickBatch(size_t count, std::vector<WaitingAttempt*>* batch, PoolUs pool_us);

  // The flow got `pool_us` of the pool; Correct() moves that by what a settlement showed.
  void Served(FlowKey key, int64_t pool_us);
  void Correct(FlowKey key, int64_t pool_us);

 private:
  WaitingFlow* Earliest();
  void Sweep();

  absl::node_hash_map<FlowKey, WaitingFlow> flows_;
  absl::node_hash_map<uint64_t, WaitingJob> jobs_;
  std::vector<WaitingFlow*> active_;
  int64_t size_ = 0;
  int64_t virtual_time_ = 0;  // the largest start of what was served
  size_t sweep_at_ = 64;
};

template <typename PoolUs>
void WaitingLine::PickBatch(size_t count, std::vector<WaitingAttempt*>* batch, PoolUs pool_us) {
  batch->clear();
  for (WaitingFlow* flow : active_) {
    flow->cursor = flow->again.empty() ? flow->fresh.front() : flow->again.front();
    flow->tag = flow->virtual_time;
  }
  while (batch->size() < count) {
    WaitingFlow* flow = Earliest();
    if (flow == nullptr) break;
    WaitingAttempt* attempt = flow->cursor;
    batch->push_back(attempt);
    flow->tag +=
        std::max<int64_t>(1, VirtualTime(pool_us(attempt->request.costs), flow->share_milli()));
    const bool was_again = attempt->again;
    flow->cursor = (was_again ? flow->again : flow->fresh).Next(attempt);
    if (flow->cursor == nullptr && was_again) flow->cursor = flow->fresh.front();
  }
  for (WaitingFlow* flow : active_) {
    WaitingAttempt* first = flow->again.empty() ? flow->fresh.front() : flow->again.front();
    if (flow->cursor == first) batch->push_back(first);
  }
}

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_WAITING_LINE_H_
