// The reactor on the real clock and on epoll(7).
#ifndef HEADRACE_COMMON_ASYNC_EPOLL_REACTOR_H_
#define HEADRACE_COMMON_ASYNC_EPOLL_REACTOR_H_

#include <sys/epoll.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/base/histogram.h"
#include "common/base/mutex.h"

namespace headrace {

class EpollReactor final : public Reactor {
 public:
  // ResourceExhausted when the process is out of file descriptors.
  static absl::StatusOr<std::unique_ptr<EpollReactor>> Make();
  ~EpollReactor() override;

  MonoTime Now() const override;
  absl::Time WallNow() const override;
  void Post(absl::AnyInvocable<void()> function) override;
  absl::Status Watch(int fd, uint32_t events, FdHandler* handler) override;
  void Rewatch(int fd, uint32_t events, FdHandler* handler) override;
  void Unwatch(int fd) override;

  // How long turns took without the wait, in microseconds: the lag that an event can meet.
  const Histogram& turn_us() const { return turn_us_; }

 private:
  EpollReactor(int epoll_fd, int wake_fd);

  bool Turn() override;
  void RunPosted();
  void WaitForFds(bool block);

  const int epoll_fd_;
  const int wake_fd_;
  Mutex mutex_;
  std::vector<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> running_;  // swapped with posted_, keeps its capacity

  absl::flat_hash_map<int, FdHandler*> handlers_;
  // The events of this turn, so that Unwatch() can strike out what has not been told yet.
  std::vector<epoll_event> events_;
  int event_count_ = 0;
  MonoTime turn_start_;
  Histogram turn_us_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_EPOLL_REACTOR_H_
