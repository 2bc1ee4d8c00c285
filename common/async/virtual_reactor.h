// The reactor of tests and simulations: one thread, a clock that jumps, and an order of execution
// that a seed decides.
#ifndef HEADRACE_COMMON_ASYNC_VIRTUAL_REACTOR_H_
#define HEADRACE_COMMON_ASYNC_VIRTUAL_REACTOR_H_

#include <cstdint>
#include <deque>

#include "absl/functional/any_invocable.h"
#include "common/async/reactor.h"
#include "common/base/random.h"

namespace headrace {

class VirtualReactor final : public Reactor {
 public:
  // With `shuffle`, each turn resumes its ready coroutines in a random order drawn from `seed`;
  // without, in the order in which they became ready. Time starts at 1,000,000 s, so that a
  // subtraction below "now" is not negative.
  explicit VirtualReactor(uint64_t seed = 0, bool shuffle = false);
  ~VirtualReactor() override;

  MonoTime Now() const override { return now_; }
  absl::Time WallNow() const override { return wall_start_ + (now_ - start_); }
  void Post(absl::AnyInvocable<void()> function) override;
  absl::Status Watch(int fd, uint32_t events, FdHandler* handler) override;
  void Rewatch(int fd, uint32_t events, FdHandler* handler) override;
  void Unwatch(int fd) override;

  // The wall clock is set, forwards or back; Now() does not care.
  void JumpWall(absl::Duration by) { wall_start_ += by; }

  // Called before each resumption of a coroutine with the number of resumptions so far. A test
  // stops a scope at step k for every k, and so at every suspension point.
  void set_step_hook(absl::AnyInvocable<void(uint64_t step)> hook) { step_hook_ = std::move(hook); }
  uint64_t steps() const { return steps_; }

 private:
  bool RunReady() override;
  // With nothing ready the clock jumps to the next timer.
  bool Turn() override;

  const MonoTime start_ = MonoTime::FromNanos(1'000'000'000'000'000);
  absl::Time wall_start_ = absl::FromUnixSeconds(1'800'000'000);
  MonoTime now_ = start_;
  const bool shuffle_;
  Random random_;
  std::deque<absl::AnyInvocable<void()>> posted_;
  absl::AnyInvocable<void(uint64_t)> step_hook_;
  uint64_t steps_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_VIRTUAL_REACTOR_H_
