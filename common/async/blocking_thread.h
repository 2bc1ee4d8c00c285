// One thread for work that may block, for a reactor that must not.
#ifndef HEADRACE_COMMON_ASYNC_BLOCKING_THREAD_H_
#define HEADRACE_COMMON_ASYNC_BLOCKING_THREAD_H_

#include <coroutine>
#include <deque>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "common/async/reactor.h"
#include "common/base/mutex.h"

namespace headrace {

// Runs functions one after another on its own thread and resumes the caller on the reactor with the
// result:
//
//   StatusOr<Row> row = co_await disk_thread.Run([&] { return cursor->Read(); });
//
// With `inline_for_tests` the function runs at once on the reactor, for virtual time. The queue has
// no limit of its own: each caller waits for its one function. Destruction waits for the queue.
class BlockingThread {
 public:
  explicit BlockingThread(Reactor* reactor, bool inline_for_tests = false);
  ~BlockingThread();
  BlockingThread(const BlockingThread&) = delete;
  BlockingThread& operator=(const BlockingThread&) = delete;

  template <typename F>
  class [[nodiscard]] Awaiter {
   public:
    using Result = std::invoke_result_t<F>;
    Awaiter(BlockingThread* thread, F function) : thread_(thread), function_(std::move(function)) {}
    bool await_ready() {
      if (!thread_->inline_) return false;
      result_.emplace(function_());
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      thread_->Enqueue([this, handle] {
        result_.emplace(function_());
        Reactor* reactor = thread_->reactor_;
        reactor->Post([reactor, handle] { reactor->Schedule(handle); });
      });
    }
    Result await_resume() { return std::move(*result_); }

   private:
    BlockingThread* const thread_;
    F function_;
    std::optional<Result> result_;
  };
  // `function` must return a value. It cannot be cancelled.
  template <typename F>
  Awaiter<F> Run(F function) {
    return Awaiter<F>(this, std::move(function));
  }

 private:
  void Enqueue(absl::AnyInvocable<void()> function);
  void Loop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || ending_; }

  Reactor* const reactor_;
  const bool inline_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_BLOCKING_THREAD_H_
