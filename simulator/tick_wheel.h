// A timer wheel with coarse ticks, for very many timers that fire often: adding, removing and
// firing are O(1), and all that is due in one tick fires together, so that writes can be gathered.
#ifndef HEADRACE_SIMULATOR_TICK_WHEEL_H_
#define HEADRACE_SIMULATOR_TICK_WHEEL_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"

namespace headrace::simulator {

class TickWheel;

// Base of what a wheel calls. Leaves its wheel when destroyed.
class WheelNode : public ListNode<WheelNode> {
 public:
  virtual ~WheelNode() { Leave(); }
  // Called once for each TickWheel::Add(). May add again.
  virtual void OnTick(MonoTime now) = 0;
  void Leave();

 private:
  friend class TickWheel;
  TickWheel* wheel_ = nullptr;
  int64_t due_tick_ = 0;
};

// Runs on its reactor's thread. Nodes must have left before it is destroyed.
class TickWheel {
 public:
  TickWheel(Reactor* reactor, absl::Duration tick);
  ~TickWheel() { reactor_->Cancel(&timer_); }

  // Calls node->OnTick() in the first tick that is not before `when`, but never inside this call.
  // Moves a node that is in the wheel already.
  void Add(WheelNode* node, MonoTime when);

  size_t size() const { return size_; }

 private:
  friend class WheelNode;
  static constexpr int64_t kSlots = 1024;

  List<WheelNode>& Slot(int64_t tick) { return slots_[static_cast<size_t>(tick % kSlots)]; }
  void ArmNext();
  void Fire();

  Reactor* const reactor_;
  const int64_t tick_ns_;
  Timer timer_;
  int64_t armed_tick_ = 0;  // valid while timer_ is armed
  int64_t done_tick_;       // everything up to this tick has fired
  size_t size_ = 0;
  std::array<List<WheelNode>, kSlots> slots_;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_TICK_WHEEL_H_
