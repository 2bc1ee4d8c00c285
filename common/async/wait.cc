#include "common/async/wait.h"

#include "common/base/log.h"

namespace headrace {

void Waiter::Suspend(Reactor* reactor, std::coroutine_handle<> handle) {
  reactor_ = reactor;
  handle_ = handle;
  callback_.Arm(stop_, [](void* self) { static_cast<Waiter*>(self)->Resume(); }, this);
}

void Waiter::Wake() {
  if (handle_ == nullptr) return;  // a stop came first, and the coroutine has not run since
  woken_ = true;
  Resume();
}

void Waiter::Resume() {
  if (handle_ == nullptr) return;
  Unlink();
  callback_.Disarm();
  reactor_->Schedule(handle_);
  handle_ = nullptr;
}

void Sleep::await_suspend(std::coroutine_handle<> handle) {
  reactor_->Arm(&timer_, until_, [](void* self) { static_cast<Waiter*>(self)->Wake(); }, &waiter_);
  waiter_.Suspend(reactor_, handle);
}

void Event::Set() {
  set_ = true;
  while (Waiter* waiter = waiters_.PopFront()) waiter->Wake();
}

void Semaphore::SetCapacity(int64_t capacity) {
  capacity_ = capacity;
  Grant();
}

bool Semaphore::TryAcquire(int64_t permits) {
  if (!waiters_.empty() || !Fits(permits)) return false;
  in_use_ += permits;
  return true;
}

void Semaphore::Release(int64_t permits) {
  in_use_ -= permits;
  HR_CHECK(in_use_ >= 0) << "more permits were released than taken";
  Grant();
}

void Semaphore::Grant() {
  while (Waiter* waiter = waiters_.front()) {
    Awaiter* owner = static_cast<Awaiter::PermitWaiter*>(waiter)->owner;
    if (!Fits(owner->permits_)) return;
    in_use_ += owner->permits_;
    owner->granted_ = true;
    waiter->Wake();
  }
}

bool Semaphore::Awaiter::await_ready() {
  if (waiter_.stopped_before()) return true;
  granted_ = semaphore_->TryAcquire(permits_);
  return granted_;
}

void Semaphore::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  semaphore_->waiters_.PushBack(&waiter_);
  ++semaphore_->waiting_;
  queued_ = true;
  waiter_.Suspend(semaphore_->reactor_, handle);
}

bool Semaphore::Awaiter::await_resume() {
  if (queued_) {
    --semaphore_->waiting_;
    // One that gave up may have stood before one that fits now.
    if (!granted_) semaphore_->Grant();
  }
  return granted_;
}

DeadlineSource::DeadlineSource(Reactor* reactor, MonoTime deadline, StopToken parent, StopCode code)
    : reactor_(reactor), deadline_(deadline), code_(code), source_(parent) {
  reactor_->Arm(
      &timer_, deadline,
      [](void* self) {
        auto* deadline_source = static_cast<DeadlineSource*>(self);
        deadline_source->source_.RequestStop(deadline_source->code_);
      },
      this);
}

}  // namespace headrace
