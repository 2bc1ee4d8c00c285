#include "common/async/blocking_thread.h"

namespace headrace {

BlockingThread::BlockingThread(Reactor* reactor, bool inline_for_tests)
    : reactor_(reactor), inline_(inline_for_tests) {
  if (!inline_) thread_ = std::thread([this] { Loop(); });
}

BlockingThread::~BlockingThread() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BlockingThread::Enqueue(absl::AnyInvocable<void()> function) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(function));
}

void BlockingThread::Loop() {
  while (true) {
    absl::AnyInvocable<void()> function;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &BlockingThread::HasWork));
      if (queue_.empty()) return;
      function = std::move(queue_.front());
      queue_.pop_front();
    }
    function();
  }
}

}  // namespace headrace
