#include "common/async/reactor.h"

#include <utility>

#include "common/base/log.h"

namespace headrace {

Reactor::~Reactor() {
  HR_CHECK(timers_.empty()) << timers_.size() << " timers outlive their reactor";
  HR_CHECK(ready_.empty()) << ready_.size() << " coroutines outlive their reactor";
}

void Reactor::Arm(Timer* timer, MonoTime when, Timer::Function function, void* context) {
  if (when == MonoTime::Max()) return Cancel(timer);
  timer->function_ = function;
  timer->context_ = context;
  timer->sequence_ = next_sequence_++;
  if (!timer->armed()) {
    timer->when_ = when;
    timers_.push_back(timer);
    timer->heap_index_ = timers_.size() - 1;
    SiftUp(timer->heap_index_);
    return;
  }
  timer->when_ = when;
  SiftUp(timer->heap_index_);
  SiftDown(timer->heap_index_);
}

void Reactor::Cancel(Timer* timer) {
  if (!timer->armed()) return;
  const size_t index = timer->heap_index_;
  timer->heap_index_ = Timer::kNotArmed;
  Timer* last = timers_.back();
  timers_.pop_back();
  if (last == timer) return;
  Place(index, last);
  SiftUp(index);
  SiftDown(last->heap_index_);
}

void Reactor::SiftUp(size_t index) {
  Timer* timer = timers_[index];
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (!Earlier(timer, timers_[parent])) break;
    Place(index, timers_[parent]);
    index = parent;
  }
  Place(index, timer);
}

void Reactor::SiftDown(size_t index) {
  Timer* timer = timers_[index];
  while (true) {
    size_t child = 2 * index + 1;
    if (child >= timers_.size()) break;
    if (child + 1 < timers_.size() && Earlier(timers_[child + 1], timers_[child])) ++child;
    if (!Earlier(timers_[child], timer)) break;
    Place(index, timers_[child]);
    index = child;
  }
  Place(index, timer);
}

bool Reactor::FireTimers() {
  // Timers armed by a firing one wait for the next turn, so a timer that re-arms itself in the past
  // cannot starve the loop.
  const uint64_t limit = next_sequence_;
  const MonoTime now = Now();
  bool fired = false;
  while (!timers_.empty() && timers_.front()->when_ <= now && timers_.front()->sequence_ < limit) {
    Timer* timer = timers_.front();
    Cancel(timer);
    fired = true;
    timer->function_(timer->context_);
  }
  return fired;
}

bool Reactor::RunReady() {
  const size_t count = ready_.size();
  for (size_t i = 0; i < count; ++i) {
    std::coroutine_handle<> handle = ready_.front();
    ready_.pop_front();
    handle.resume();
  }
  return count > 0;
}

void Reactor::RunEndOfTurn() {
  while (EndOfTurn* hook = end_of_turn_.PopFront()) hook->OnEndOfTurn();
}

void Reactor::Run(Task<void> main) {
  auto handle = main.Release();
  main_done_ = false;
  handle.promise().SetOnDone(
      [](void* context, std::coroutine_handle<>) { *static_cast<bool*>(context) = true; },
      &main_done_);
  Schedule(handle);
  while (!main_done_) {
    const bool alive = Turn();
    HR_CHECK(alive || main_done_) << "everything waits for an event that can never come";
  }
  Task<void> owner(handle);
  handle.promise().TakeResult();
}

}  // namespace headrace
