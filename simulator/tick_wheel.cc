#include "simulator/tick_wheel.h"

#include <algorithm>

namespace headrace::simulator {

void WheelNode::Leave() {
  if (!linked()) return;
  Unlink();
  --wheel_->size_;
}

TickWheel::TickWheel(Reactor* reactor, absl::Duration tick)
    : reactor_(reactor),
      tick_ns_(absl::ToInt64Nanoseconds(tick)),
      done_tick_(reactor->Now().nanos() / tick_ns_) {}

void TickWheel::Add(WheelNode* node, MonoTime when) {
  node->Leave();
  const int64_t wanted =
      when == MonoTime::Max() ? when.nanos() / tick_ns_ : (when.nanos() + tick_ns_ - 1) / tick_ns_;
  node->wheel_ = this;
  node->due_tick_ = std::max(wanted, done_tick_ + 1);
  Slot(node->due_tick_).PushBack(node);
  ++size_;
  // A node of a later round wakes its slot early once per round, which is harmless.
  const int64_t wake = done_tick_ + 1 + (node->due_tick_ - done_tick_ - 1) % kSlots;
  if (!timer_.armed() || wake < armed_tick_) {
    armed_tick_ = wake;
    reactor_->Arm(
        &timer_, MonoTime::FromNanos(wake * tick_ns_),
        [](void* wheel) { static_cast<TickWheel*>(wheel)->Fire(); }, this);
  }
}

void TickWheel::ArmNext() {
  if (size_ == 0) return;
  int64_t tick = done_tick_ + 1;
  while (Slot(tick).empty() && tick < done_tick_ + kSlots) ++tick;
  armed_tick_ = tick;
  reactor_->Arm(
      &timer_, MonoTime::FromNanos(tick * tick_ns_),
      [](void* wheel) { static_cast<TickWheel*>(wheel)->Fire(); }, this);
}

void TickWheel::Fire() {
  const MonoTime now = reactor_->Now();
  const int64_t now_tick = now.nanos() / tick_ns_;
  const int64_t first = done_tick_ + 1;
  // After a long stall every slot is visited once, not once per missed tick.
  const int64_t last = std::min(now_tick, first + kSlots - 1);
  done_tick_ = std::max(done_tick_, now_tick);
  for (int64_t tick = first; tick <= last; ++tick) {
    // Nodes of later rounds go back; what is added meanwhile lands in later ticks.
    List<WheelNode> later;
    while (WheelNode* node = Slot(tick).PopFront()) {
      if (node->due_tick_ > now_tick) {
        later.PushBack(node);
        continue;
      }
      --size_;
      node->OnTick(now);
    }
    while (WheelNode* node = later.PopFront()) Slot(tick).PushBack(node);
  }
  ArmNext();
}

}  // namespace headrace::simulator
