// The event loop of one role: it resumes coroutines, fires timers, watches file descriptors, and
// runs what other threads post. There are two: EpollReactor on the real clock, and VirtualReactor,
// which jumps from timer to timer so that a test of an hour takes a moment and repeats exactly.
//
// One thread runs a reactor and owns everything in it. Only Post() may be called from elsewhere.
// One turn is: posted functions, due timers, ready coroutines, end-of-turn hooks, then the wait for
// file descriptors.
#ifndef HEADRACE_COMMON_ASYNC_REACTOR_H_
#define HEADRACE_COMMON_ASYNC_REACTOR_H_

#include <coroutine>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/task.h"
#include "common/base/time.h"

namespace headrace {

// A timer that lives in its owner. Fires at most once per arming; cancelled when destroyed.
class Timer {
 public:
  using Function = void (*)(void* context);

  Timer() = default;
  ~Timer() { HR_CHECK(!armed()) << "a timer was destroyed while armed"; }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return heap_index_ != kNotArmed; }
  MonoTime when() const { return when_; }

 private:
  friend class Reactor;
  static constexpr size_t kNotArmed = ~size_t{0};

  MonoTime when_;
  uint64_t sequence_ = 0;  // equal times fire in the order in which they were armed
  size_t heap_index_ = kNotArmed;
  Function function_ = nullptr;
  void* context_ = nullptr;
};

// Called at the end of the turn in which it was requested; for gathering writes.
class EndOfTurn : public ListNode<EndOfTurn> {
 public:
  virtual ~EndOfTurn() { Unlink(); }
  virtual void OnEndOfTurn() = 0;
};

// Told when a file descriptor is ready. `events` are EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR,
// EPOLLRDHUP as in epoll_ctl(2), level-triggered.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  virtual void OnFdReady(uint32_t events) = 0;
};

class Reactor {
 public:
  virtual ~Reactor();

  virtual MonoTime Now() const = 0;
  // Wall time, for records that people read.
  virtual absl::Time WallNow() const = 0;

  // Resumes `handle` in a later step of the loop, never inside this call.
  void Schedule(std::coroutine_handle<> handle) { ready_.push_back(handle); }

  // Runs `function` on the reactor's thread. Thread-safe; functions of one thread run in order.
  // After the loop has ended, functions are kept and destroyed with the reactor.
  virtual void Post(absl::AnyInvocable<void()> function) = 0;

  // Arms `timer`, or moves it when it is armed. A time in the past fires in the next turn, and
  // MonoTime::Max() never: that disarms.
  void Arm(Timer* timer, MonoTime when, Timer::Function function, void* context);
  void Cancel(Timer* timer);

  // Calls `hook` once at the end of this turn; asking twice is asking once.
  void RequestEndOfTurn(EndOfTurn* hook) {
    if (!hook->linked()) end_of_turn_.PushBack(hook);
  }

  // Starts, changes or ends the watch on `fd`. After Unwatch() the handler is not called again, not
  // even for an event that has already arrived. Close the fd only after Unwatch(). A virtual
  // reactor has no file descriptors and CHECK-fails.
  virtual absl::Status Watch(int fd, uint32_t events, FdHandler* handler) = 0;
  virtual void Rewatch(int fd, uint32_t events, FdHandler* handler) = 0;
  virtual void Unwatch(int fd) = 0;

  // Runs `main` and the loop until `main` has ended; rethrows what it threw. Nothing posted or
  // watched is called after the end of `main`.
  void Run(Task<void> main);

  size_t timer_count() const { return timers_.size(); }
  size_t ready_count() const { return ready_.size(); }

 protected:
  Reactor() = default;

  // Runs timers due at Now(). True if any fired.
  bool FireTimers();
  // Resumes what was ready when called. True if any was.
  virtual bool RunReady();
  void RunEndOfTurn();
  bool HasTimers() const { return !timers_.empty(); }
  bool main_done() const { return main_done_; }
  MonoTime NextTimer() const { return timers_.empty() ? MonoTime::Max() : timers_.front()->when_; }
  // One turn. False if nothing can ever happen again: nothing ready, posted, armed or watched.
  virtual bool Turn() = 0;

  std::deque<std::coroutine_handle<>> ready_;

 private:
  static bool Earlier(const Timer* a, const Timer* b) {
    return a->when_ != b->when_ ? a->when_ < b->when_ : a->sequence_ < b->sequence_;
  }
  void SiftUp(size_t index);
  void SiftDown(size_t index);
  void Place(size_t index, Timer* timer) {
    timers_[index] = timer;
    timer->heap_index_ = index;
  }

  std::vector<Timer*> timers_;  // a binary heap, earliest first
  uint64_t next_sequence_ = 0;
  bool main_done_ = false;
  List<EndOfTurn> end_of_turn_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_REACTOR_H_
