// Task<T>: a lazy coroutine that is awaited exactly once.
//
//   Task<int> Twice(int x) { co_return 2 * x; }
//   Task<void> Caller() { int y = co_await Twice(21); }
//
// It starts when awaited, on the awaiter's thread, and resumes the awaiter when it ends. A child
// that ends without suspending returns to its parent like a function call, so a loop over a million
// ready children needs no more stack than one, whatever the compiler makes of tail calls.
//
// Rules: parameters by value; collaborators are pointers to something that outlives the task; no
// capturing lambda is itself a coroutine. A task that was started must run to its end before it is
// destroyed; TaskScope sees to that.
#ifndef HEADRACE_COMMON_ASYNC_TASK_H_
#define HEADRACE_COMMON_ASYNC_TASK_H_

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "common/base/log.h"

namespace headrace {

template <typename T>
class Task;

namespace internal {

class PromiseBase {
 public:
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      PromiseBase& promise = self.promise();
      promise.done_ = true;
      // The parent is still inside its await_suspend when the child never suspended.
      if (promise.parent_suspended_) return promise.parent_;
      if (promise.on_done_ != nullptr) promise.on_done_(promise.context_, self);
      return std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };

  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

  // Runs the task from its start; true if it ended at once, else `parent` is resumed later.
  bool StartUnder(std::coroutine_handle<> self, std::coroutine_handle<> parent) {
    HR_CHECK(parent_ == nullptr) << "a task was awaited twice";
    parent_ = parent;
    self.resume();
    if (done_) return true;
    parent_suspended_ = true;
    return false;
  }
  // For a root task: `on_done` is called once, at the end, and owns the frame from then on.
  void SetOnDone(void (*on_done)(void* context, std::coroutine_handle<> self), void* context) {
    on_done_ = on_done;
    context_ = context;
  }
  void RethrowIfFailed() {
    if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
  }
  bool failed() const { return exception_ != nullptr; }

 private:
  std::coroutine_handle<> parent_;
  void (*on_done_)(void*, std::coroutine_handle<>) = nullptr;
  void* context_ = nullptr;
  std::exception_ptr exception_;
  bool done_ = false;
  bool parent_suspended_ = false;
};

template <typename T>
class Promise : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T TakeResult() {
    RethrowIfFailed();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void TakeResult() { RethrowIfFailed(); }
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      Reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { Reset(); }

  bool valid() const { return handle_ != nullptr; }

  class Awaiter {
   public:
    explicit Awaiter(Handle handle) : handle_(handle) {}
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> parent) {
      return !handle_.promise().StartUnder(handle_, parent);
    }
    T await_resume() { return handle_.promise().TakeResult(); }

   private:
    Handle handle_;
  };
  // The task must stay alive until the await is over: await it in the expression that made it, or
  // by name from a variable of the awaiting coroutine.
  Awaiter operator co_await() const {
    HR_CHECK(handle_ != nullptr) << "an empty task was awaited";
    return Awaiter(handle_);
  }

  // Gives up the frame; for TaskScope and the reactor.
  Handle Release() { return std::exchange(handle_, nullptr); }

 private:
  void Reset() {
    if (handle_ != nullptr) handle_.destroy();
    handle_ = nullptr;
  }

  Handle handle_;
};

namespace internal {

template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

}  // namespace internal
}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_TASK_H_
