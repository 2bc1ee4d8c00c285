#include "common/async/virtual_reactor.h"

#include <utility>

#include "common/base/log.h"

namespace headrace {

VirtualReactor::VirtualReactor(uint64_t seed, bool shuffle) : shuffle_(shuffle), random_(seed) {}

VirtualReactor::~VirtualReactor() = default;

void VirtualReactor::Post(absl::AnyInvocable<void()> function) {
  posted_.push_back(std::move(function));
}

absl::Status VirtualReactor::Watch(int fd, uint32_t events, FdHandler* handler) {
  HR_CHECK(false) << "a virtual reactor has no file descriptors";
  return absl::OkStatus();
}

void VirtualReactor::Rewatch(int fd, uint32_t events, FdHandler* handler) {
  HR_CHECK(false) << "a virtual reactor has no file descriptors";
}

void VirtualReactor::Unwatch(int fd) {
  HR_CHECK(false) << "a virtual reactor has no file descriptors";
}

bool VirtualReactor::RunReady() {
  const size_t count = ready_.size();
  for (size_t i = 0; i < count; ++i) {
    if (shuffle_) std::swap(ready_.front(), ready_[random_.Below(count - i)]);
    std::coroutine_handle<> handle = ready_.front();
    ready_.pop_front();
    if (step_hook_) step_hook_(steps_);
    ++steps_;
    handle.resume();
  }
  return count > 0;
}

bool VirtualReactor::Turn() {
  for (size_t count = posted_.size(); count > 0; --count) {
    absl::AnyInvocable<void()> function = std::move(posted_.front());
    posted_.pop_front();
    function();
  }
  FireTimers();
  RunReady();
  RunEndOfTurn();
  if (main_done() || !ready_.empty() || !posted_.empty()) return true;
  if (!HasTimers()) return false;
  if (NextTimer() > now_) now_ = NextTimer();
  return true;
}

}  // namespace headrace
