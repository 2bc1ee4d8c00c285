#include "common/async/epoll_reactor.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace headrace {
namespace {

// Events taken from the kernel per turn; more wait there. Chosen, not measured.
constexpr int kMaxEventsPerTurn = 512;
// The longest sleep, so that a clock jump or a lost wake-up costs at most this.
constexpr absl::Duration kMaxWait = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<EpollReactor>> EpollReactor::Make() {
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) return ErrnoStatus(errno, "epoll_create1");
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    const int error = errno;
    close(epoll_fd);
    return ErrnoStatus(error, "eventfd");
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_fd;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0) {
    const int error = errno;
    close(wake_fd);
    close(epoll_fd);
    return ErrnoStatus(error, "epoll_ctl");
  }
  return std::unique_ptr<EpollReactor>(new EpollReactor(epoll_fd, wake_fd));
}

EpollReactor::EpollReactor(int epoll_fd, int wake_fd)
    : epoll_fd_(epoll_fd), wake_fd_(wake_fd), events_(kMaxEventsPerTurn) {}

EpollReactor::~EpollReactor() {
  HR_CHECK(handlers_.empty()) << handlers_.size() << " watched fds outlive their reactor";
  close(wake_fd_);
  close(epoll_fd_);
}

MonoTime EpollReactor::Now() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return MonoTime::FromNanos(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

absl::Time EpollReactor::WallNow() const { return absl::Now(); }

void EpollReactor::Post(absl::AnyInvocable<void()> function) {
  bool wake = false;
  {
    MutexLock lock(&mutex_);
    posted_.push_back(std::move(function));
    wake = !std::exchange(woken_, true);
  }
  if (wake) {
    const uint64_t one = 1;
    // The counter cannot overflow: at most one wake-up is pending.
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  }
}

absl::Status EpollReactor::Watch(int fd, uint32_t events, FdHandler* handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoStatus(errno, absl::StrCat("epoll_ctl(ADD, ", fd, ")"));
  }
  const bool added = handlers_.emplace(fd, handler).second;
  HR_CHECK(added) << "fd " << fd << " is watched already";
  return absl::OkStatus();
}

void EpollReactor::Rewatch(int fd, uint32_t events, FdHandler* handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  const int result = epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
  HR_CHECK(result == 0) << "epoll_ctl(MOD, " << fd << "): errno " << errno;
  handlers_[fd] = handler;
}

void EpollReactor::Unwatch(int fd) {
  if (handlers_.erase(fd) == 0) return;
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  for (int i = 0; i < event_count_; ++i) {
    if (events_[i].data.fd == fd) events_[i].data.fd = -1;
  }
}

void EpollReactor::RunPosted() {
  {
    MutexLock lock(&mutex_);
    woken_ = false;
    running_.swap(posted_);
  }
  for (absl::AnyInvocable<void()>& function : running_) function();
  running_.clear();
}

void EpollReactor::WaitForFds(bool block) {
  const MonoTime now = Now();
  int timeout_ms = 0;
  if (block) {
    const absl::Duration wait =
        HasTimers() ? std::clamp(NextTimer() - now, absl::ZeroDuration(), kMaxWait) : kMaxWait;
    timeout_ms =
        static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  }
  turn_us_.Record((now - turn_start_) / absl::Microseconds(1));
  const int count = epoll_wait(epoll_fd_, events_.data(), kMaxEventsPerTurn, timeout_ms);
  const int error = errno;
  turn_start_ = Now();
  if (count < 0) {
    HR_CHECK(error == EINTR) << "epoll_wait: errno " << error;
    return;
  }
  event_count_ = count;
  for (int i = 0; i < count; ++i) {
    const int fd = events_[i].data.fd;
    if (fd == wake_fd_) {
      uint64_t drained = 0;
      [[maybe_unused]] const ssize_t bytes = read(wake_fd_, &drained, sizeof(drained));
      RunPosted();
    } else if (fd >= 0) {
      auto it = handlers_.find(fd);
      if (it != handlers_.end()) it->second->OnFdReady(events_[i].events);
    }
  }
  event_count_ = 0;
}

bool EpollReactor::Turn() {
  if (turn_start_ == MonoTime()) turn_start_ = Now();
  FireTimers();
  RunReady();
  RunEndOfTurn();
  // The objects of posted functions and handlers may have died with the main task.
  if (!main_done()) WaitForFds(/*block=*/ready_.empty());
  return true;
}

}  // namespace headrace
