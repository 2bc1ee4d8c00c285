// What a coroutine can wait for: time, an event, a permit. Every wait takes a stop token and fails
// at once when that is stopped, before it suspends and while it does. A wake-up and a stop in the
// same turn: the first wins.
#ifndef HEADRACE_COMMON_ASYNC_WAIT_H_
#define HEADRACE_COMMON_ASYNC_WAIT_H_

#include <coroutine>
#include <cstdint>

#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/base/time.h"

namespace headrace {

// One suspended coroutine in a queue of waiters. For the primitives below; a coroutine frame that
// is destroyed while it waits leaves the queue.
class Waiter : public ListNode<Waiter> {
 public:
  explicit Waiter(StopToken stop) : stop_(stop) {}
  ~Waiter() { Unlink(); }

  bool stopped_before() const { return stop_.stopped(); }
  // Suspends `handle` until Wake() or the stop.
  void Suspend(Reactor* reactor, std::coroutine_handle<> handle);
  // Leaves the queue and schedules the coroutine, which will find woken() true. Does nothing after
  // a stop.
  void Wake();
  bool woken() const { return woken_; }

 private:
  void Resume();

  StopToken stop_;
  StopCallback callback_;
  Reactor* reactor_ = nullptr;
  std::coroutine_handle<> handle_;
  bool woken_ = false;
};

// co_await Sleep(...): true when the time has come, false when stopped first.
class [[nodiscard]] Sleep {
 public:
  Sleep(Reactor* reactor, MonoTime until, StopToken stop)
      : reactor_(reactor), until_(until), waiter_(stop) {}
  Sleep(Reactor* reactor, absl::Duration duration, StopToken stop)
      : Sleep(reactor, reactor->Now() + duration, stop) {}
  ~Sleep() { reactor_->Cancel(&timer_); }
  Sleep(const Sleep&) = delete;

  bool await_ready() const { return waiter_.stopped_before(); }
  void await_suspend(std::coroutine_handle<> handle);
  bool await_resume() const { return waiter_.woken(); }

 private:
  Reactor* const reactor_;
  const MonoTime until_;
  Waiter waiter_;
  Timer timer_;
};

// co_await Yield(reactor): lets everything else that is ready run first.
class [[nodiscard]] Yield {
 public:
  explicit Yield(Reactor* reactor) : reactor_(reactor) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) { reactor_->Schedule(handle); }
  void await_resume() const {}

 private:
  Reactor* const reactor_;
};

// A flag that coroutines wait for. Stays set until Reset(), so a Set() before the wait is not lost.
class Event {
 public:
  explicit Event(Reactor* reactor) : reactor_(reactor) {}

  bool is_set() const { return set_; }
  void Set();
  void Reset() { set_ = false; }

  class [[nodiscard]] Awaiter {
   public:
    Awaiter(Event* event, StopToken stop) : event_(event), waiter_(stop) {}
    bool await_ready() const { return event_->set_ || waiter_.stopped_before(); }
    void await_suspend(std::coroutine_handle<> handle) {
      event_->waiters_.PushBack(&waiter_);
      waiter_.Suspend(event_->reactor_, handle);
    }
    bool await_resume() const { return waiter_.woken() || event_->set_; }

   private:
    Event* const event_;
    Waiter waiter_;
  };
  // True when set, false when stopped while not set.
  Awaiter Wait(StopToken stop) { return Awaiter(this, stop); }

 private:
  Reactor* const reactor_;
  bool set_ = false;
  List<Waiter> waiters_;
};

// A counted set of permits, granted in the order of asking: a large request at the head is not
// starved by small ones behind it. One that is larger than the capacity holds up the queue until it
// gives up or the capacity grows.
class Semaphore {
 public:
  Semaphore(Reactor* reactor, int64_t capacity) : reactor_(reactor), capacity_(capacity) {}

  int64_t capacity() const { return capacity_; }
  int64_t in_use() const { return in_use_; }
  size_t waiting() const { return waiting_; }
  // A lower capacity takes nothing back; permits in use shrink as they are released.
  void SetCapacity(int64_t capacity);

  bool TryAcquire(int64_t permits = 1);
  // Gives back permits that an acquire granted.
  void Release(int64_t permits = 1);

  class [[nodiscard]] Awaiter {
   public:
    Awaiter(Semaphore* semaphore, int64_t permits, StopToken stop)
        : semaphore_(semaphore), permits_(permits), waiter_(this, stop) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    bool await_resume();

   private:
    friend class Semaphore;
    struct PermitWaiter : Waiter {
      PermitWaiter(Awaiter* o, StopToken stop) : Waiter(stop), owner(o) {}
      Awaiter* const owner;
    };

    Semaphore* const semaphore_;
    const int64_t permits_;
    PermitWaiter waiter_;
    bool granted_ = false;
    bool queued_ = false;
  };
  // True with the permits taken, false (and nothing taken) when stopped.
  Awaiter Acquire(StopToken stop, int64_t permits = 1) { return Awaiter(this, permits, stop); }

 private:
  void Grant();
  bool Fits(int64_t permits) const { return in_use_ + permits <= capacity_; }

  Reactor* const reactor_;
  int64_t capacity_;
  int64_t in_use_ = 0;
  size_t waiting_ = 0;
  List<Waiter> waiters_;
};

// Stops with kDeadline (or `code`) at a time, or with the parent's reason before that.
class DeadlineSource {
 public:
  DeadlineSource(Reactor* reactor, MonoTime deadline, StopToken parent,
                 StopCode code = StopCode::kDeadline);
  ~DeadlineSource() { reactor_->Cancel(&timer_); }

  StopToken token() { return source_.token(); }
  StopSource& source() { return source_; }
  MonoTime deadline() const { return deadline_; }

 private:
  Reactor* const reactor_;
  const MonoTime deadline_;
  const StopCode code_;
  StopSource source_;
  Timer timer_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_WAIT_H_
