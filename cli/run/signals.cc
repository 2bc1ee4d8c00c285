#include "cli/run/signals.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/exit_code.h"
#include "common/base/status.h"

namespace headrace {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void ExitNow(int /*signal*/) {
  constexpr char kText[] = "\ninterrupted before the run began; nothing was sent\n";
  // Nobody is told when standard error is gone.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace

void ExitOnStopSignals() {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = ExitNow;
    sigaction(number, &action, nullptr);
  }
}

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

absl::StatusOr<std::unique_ptr<SignalWatch>> SignalWatch::Start(
    Reactor* reactor, absl::AnyInvocable<void(int count)> on_signal) {
  const sigset_t set = StopSignals();
  const int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "signalfd");
  std::unique_ptr<SignalWatch> watch(new SignalWatch(reactor, fd, std::move(on_signal)));
  HR_RETURN_IF_ERROR(reactor->Watch(fd, EPOLLIN, watch.get()));
  return watch;
}

SignalWatch::SignalWatch(Reactor* reactor, int fd, absl::AnyInvocable<void(int)> on_signal)
    : reactor_(reactor), fd_(fd), on_signal_(std::move(on_signal)) {}

SignalWatch::~SignalWatch() {
  reactor_->Unwatch(fd_);
  close(fd_);
}

void SignalWatch::OnFdReady(uint32_t events) {
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    on_signal_(++count_);
  }
}

}  // namespace headrace
