#include "common/async/scope.h"

#include <exception>

#include "common/base/log.h"

namespace headrace {
namespace {

using VoidHandle = Task<void>::Handle;

void CheckDidNotThrow(std::coroutine_handle<> child) {
  auto& promise = VoidHandle::from_address(child.address()).promise();
  if (!promise.failed()) return;
  try {
    promise.RethrowIfFailed();
  } catch (const std::exception& e) {
    HR_CHECK(false) << "a child of a scope threw: " << e.what();
  } catch (...) {
    HR_CHECK(false) << "a child of a scope threw something that is no std::exception";
  }
}

}  // namespace

TaskScope::TaskScope(Reactor* reactor, StopToken parent)
    : reactor_(reactor), stop_(parent), idle_(reactor) {
  idle_.Set();
}

TaskScope::~TaskScope() { HR_CHECK(live_ == 0) << live_ << " children outlive their scope"; }

bool TaskScope::Spawn(Task<void> child) {
  if (closed_ || stopped()) return false;
  VoidHandle handle = child.Release();
  handle.promise().SetOnDone(&TaskScope::OnChildDone, this);
  ++live_;
  idle_.Reset();
  reactor_->Schedule(handle);
  return true;
}

void TaskScope::OnChildDone(void* scope, std::coroutine_handle<> child) {
  // The child is still inside its last suspension, so its frame is destroyed at the end of the
  // turn.
  auto* self = static_cast<TaskScope*>(scope);
  self->finished_.push_back(child);
  self->reactor_->RequestEndOfTurn(self);
}

void TaskScope::OnEndOfTurn() {
  std::vector<std::coroutine_handle<>> finished;
  finished.swap(finished_);
  for (std::coroutine_handle<> child : finished) {
    CheckDidNotThrow(child);
    child.destroy();
  }
  // Last of all: an owner that is woken now finds every frame gone.
  live_ -= finished.size();
  if (live_ == 0) idle_.Set();
}

Task<void> TaskScope::Join() {
  closed_ = true;
  co_await idle_.Wait(StopToken());
}

Task<void> TaskScope::WaitIdle() { co_await idle_.Wait(StopToken()); }

}  // namespace headrace
