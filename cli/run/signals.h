// SIGINT and SIGTERM as events of a reactor.
#ifndef HEADRACE_CLI_RUN_SIGNALS_H_
#define HEADRACE_CLI_RUN_SIGNALS_H_

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"

namespace headrace {

// Until BlockStopSignals(): SIGINT or SIGTERM says that nothing was sent and ends the process with
// ExitCode::kInterrupted. For what a process does before its reactor runs. Ignored signals stay
// ignored.
void ExitOnStopSignals();

// Blocks SIGINT and SIGTERM in the calling thread and those it starts from then on, so that only a
// SignalWatch sees them. Before the first thread is started.
void BlockStopSignals();

// Calls `on_signal` with 1 for the first signal, 2 for the second, and so on, until destroyed.
class SignalWatch final : private FdHandler {
 public:
  static absl::StatusOr<std::unique_ptr<SignalWatch>> Start(
      Reactor* reactor, absl::AnyInvocable<void(int count)> on_signal);
  ~SignalWatch() override;

 private:
  SignalWatch(Reactor* reactor, int fd, absl::AnyInvocable<void(int)> on_signal);
  void OnFdReady(uint32_t events) override;

  Reactor* const reactor_;
  const int fd_;
  absl::AnyInvocable<void(int)> on_signal_;
  int count_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_SIGNALS_H_
