#include "common/async/blocking_thread.h"

namespace headrace {

BlockingThread::BlockingThread(Reactor* reactor, bool inline_for_tests)
    : reactor_(reactor), inline_(inline_for_tests) {
  if (!inline_) thread_ = std::thread([this] { Loop(); });
}

BlockingThread::~BlockingThread() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
  }
  changed_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void BlockingThread::Enqueue(absl::AnyInvocable<void()> function) {
  {
    MutexLock lock(&mutex_);
    queue_.push_back(std::move(function));
  }
  changed_.NotifyOne();
}

void BlockingThread::Loop() {
  while (true) {
    absl::AnyInvocable<void()> function;
    {
      MutexLock lock(&mutex_);
      while (!HasWork()) changed_.Wait(&mutex_);
      if (queue_.empty()) return;
      function = std::move(queue_.front());
      queue_.pop_front();
    }
    function();
  }
}

}  // namespace headrace
