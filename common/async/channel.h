// A bounded queue between coroutines of one reactor.
#ifndef HEADRACE_COMMON_ASYNC_CHANNEL_H_
#define HEADRACE_COMMON_ASYNC_CHANNEL_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/log.h"

namespace headrace {

// Holds at most `capacity` values; a sender waits while it is full, a receiver while it is empty.
// Close() ends it: later sends fail, and what is buffered can still be received. A stop loses
// nothing that was sent.
template <typename T>
class Channel {
 public:
  Channel(Reactor* reactor, size_t capacity)
      : capacity_(capacity), not_full_(reactor), not_empty_(reactor) {
    HR_CHECK(capacity > 0);
    Update();
  }

  size_t size() const { return values_.size(); }
  size_t capacity() const { return capacity_; }
  bool closed() const { return closed_; }

  // False, with `value` untouched, when full or closed.
  bool TrySend(T&& value) {
    if (closed_ || values_.size() >= capacity_) return false;
    values_.push_back(std::move(value));
    Update();
    return true;
  }
  // False when closed or stopped; the value is dropped then.
  Task<bool> Send(T value, StopToken stop) {
    while (!TrySend(std::move(value))) {
      if (closed_ || !co_await not_full_.Wait(stop)) co_return false;
    }
    co_return true;
  }

  std::optional<T> TryReceive() {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    Update();
    return value;
  }
  // Empty when closed and drained, or stopped.
  Task<std::optional<T>> Receive(StopToken stop) {
    while (true) {
      if (std::optional<T> value = TryReceive()) co_return value;
      if (closed_ || !co_await not_empty_.Wait(stop)) co_return std::nullopt;
    }
  }

  void Close() {
    closed_ = true;
    Update();
  }

 private:
  // Closing wakes both sides.
  void Update() {
    Show(&not_full_, closed_ || values_.size() < capacity_);
    Show(&not_empty_, closed_ || !values_.empty());
  }
  static void Show(Event* event, bool is) {
    if (is == event->is_set()) return;
    is ? event->Set() : event->Reset();
  }

  const size_t capacity_;
  std::deque<T> values_;
  bool closed_ = false;
  Event not_full_;
  Event not_empty_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_CHANNEL_H_
