// A bounded queue between coroutines of one reactor.
#ifndef HEADRACE_COMMON_ASYNC_CHANNEL_H_
#define HEADRACE_COMMON_ASYNC_CHANNEL_H_

#include <coroutine>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/wait.h"
#include "common/base/log.h"

namespace headrace {

// Holds at most `capacity` values; a sender waits while it is full, a receiver while it is empty.
// Values arrive in the order of the calls to Send, and both kinds of waiters are served in the
// order in which they came. Close() ends it: later sends fail, and what is buffered can still be
// received. A stop loses nothing that was sent: a value goes to a receiver that gets it, or stays.
template <typename T>
class Channel {
 public:
  Channel(Reactor* reactor, size_t capacity) : reactor_(reactor), capacity_(capacity) {
    HR_CHECK(capacity > 0);
  }

  size_t size() const { return values_.size(); }
  size_t capacity() const { return capacity_; }
  bool closed() const { return closed_; }

  // False, with `value` untouched, when full or closed.
  bool TrySend(T&& value) {
    if (closed_) return false;
    if (ReceiveAwaiter* receiver = PopWaiter<ReceiveAwaiter>(&receivers_)) {
      receiver->value_.emplace(std::move(value));
      receiver->waiter_.Wake();
      return true;
    }
    if (values_.size() >= capacity_) return false;
    values_.push_back(std::move(value));
    return true;
  }

  // Empty when there is nothing to receive now.
  std::optional<T> TryReceive() {
    if (values_.empty()) return std::nullopt;
    std::optional<T> value(std::move(values_.front()));
    values_.pop_front();
    if (SendAwaiter* sender = PopWaiter<SendAwaiter>(&senders_)) {
      values_.push_back(std::move(sender->value_));
      sender->sent_ = true;
      sender->waiter_.Wake();
    }
    return value;
  }

  // Buffered values stay; waiting senders fail, and waiting receivers get nothing.
  void Close() {
    closed_ = true;
    while (SendAwaiter* sender = PopWaiter<SendAwaiter>(&senders_)) sender->waiter_.Wake();
    while (ReceiveAwaiter* receiver = PopWaiter<ReceiveAwaiter>(&receivers_)) {
      receiver->waiter_.Wake();
    }
  }

 private:
  // A waiter that knows which operation it belongs to.
  template <typename Owner>
  struct OwnedWaiter : Waiter {
    OwnedWaiter(Owner* o, StopToken stop) : Waiter(stop), owner(o) {}
    Owner* const owner;
  };

 public:
  class [[nodiscard]] SendAwaiter {
   public:
    SendAwaiter(Channel* channel, T value, StopToken stop)
        : channel_(channel), value_(std::move(value)), waiter_(this, stop) {}
    bool await_ready() {
      sent_ = channel_->TrySend(std::move(value_));
      return sent_ || channel_->closed_ || waiter_.stopped_before();
    }
    void await_suspend(std::coroutine_handle<> handle) {
      channel_->senders_.PushBack(&waiter_);
      waiter_.Suspend(channel_->reactor_, handle);
    }
    bool await_resume() const { return sent_; }

   private:
    friend class Channel;
    Channel* const channel_;
    T value_;
    bool sent_ = false;
    OwnedWaiter<SendAwaiter> waiter_;
  };

  class [[nodiscard]] ReceiveAwaiter {
   public:
    ReceiveAwaiter(Channel* channel, StopToken stop) : channel_(channel), waiter_(this, stop) {}
    bool await_ready() {
      value_ = channel_->TryReceive();
      return value_.has_value() || channel_->closed_ || waiter_.stopped_before();
    }
    void await_suspend(std::coroutine_handle<> handle) {
      channel_->receivers_.PushBack(&waiter_);
      waiter_.Suspend(channel_->reactor_, handle);
    }
    std::optional<T> await_resume() { return std::move(value_); }

   private:
    friend class Channel;
    Channel* const channel_;
    std::optional<T> value_;
    OwnedWaiter<ReceiveAwaiter> waiter_;
  };

  // co_await: true when sent, false when closed or stopped; the value is dropped then. Succeeds,
  // also when stopped, if there is room at once.
  SendAwaiter Send(T value, StopToken stop) { return SendAwaiter(this, std::move(value), stop); }

  // co_await: the next value; empty when closed and drained, or stopped. What is buffered is
  // received also when stopped.
  ReceiveAwaiter Receive(StopToken stop) { return ReceiveAwaiter(this, stop); }

 private:
  template <typename Awaiter>
  static Awaiter* PopWaiter(List<Waiter>* list) {
    Waiter* waiter = list->PopFront();
    return waiter == nullptr ? nullptr : static_cast<OwnedWaiter<Awaiter>*>(waiter)->owner;
  }

  Reactor* const reactor_;
  const size_t capacity_;
  std::deque<T> values_;
  bool closed_ = false;
  // A sender waits only while the queue is full, a receiver only while it is empty: TryReceive()
  // refills the queue from the first sender, and TrySend() serves the first receiver.
  List<Waiter> senders_;
  List<Waiter> receivers_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_CHANNEL_H_
