// One worker process of a simulated cluster: a real Worker with its dialer, on the shared reactor.
#ifndef HEADRACE_TESTS_SUPPORT_SIM_WORKER_H_
#define HEADRACE_TESTS_SUPPORT_SIM_WORKER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "tests/support/fake_provider.h"
#include "tests/support/sim_checks.h"
#include "tests/support/sim_network.h"
#include "worker/session/dialer.h"
#include "worker/session/worker.h"

namespace headrace {

struct SimWorkerOptions {
  std::string id = "w";
  int process = 0;  // of the cluster, never reused; also the boot nonce
  uint64_t seed = 0;
  int64_t max_in_flight = 10;
  absl::Duration grace = absl::Seconds(10);
  absl::Duration max_delay = absl::Seconds(1);  // between two dials; well below a lease
};

class SimWorker {
 public:
  SimWorker(Reactor* reactor, SimWorkerOptions options, FakeProvider* provider, SimNetwork* network,
            SimChecks* checks)
      : reactor_(reactor),
        options_(std::move(options)),
        network_(network),
        environment_(reactor, provider),
        worker_(reactor, WorkerOptionsOf(options_), &environment_) {
    environment_.set_on_call([this, checks](const std::string& key) {
      checks->OnCall(options_.process, key);
      if (on_call_) on_call_(key);
    });
  }

  // The life of the process.
  Task<void> Run() {
    DialerOptions dialer;
    dialer.address = "coordinator";
    dialer.seed = options_.seed;
    dialer.grace = options_.grace;
    dialer.max_delay = options_.max_delay;
    StreamFactory dial = [this] { return network_->Dial(options_.process); };
    status_ = co_await ServeWithReconnects(reactor_, &worker_, std::move(dial), std::move(dialer),
                                           drain_.token());
    // Items that it holds still: another process has its name, or its time is up.
    ended_ = true;
    co_await worker_.Shutdown();
    gone_ = true;
  }

  // kill -9: from now on it calls and sends nothing, and nobody hears of what it held. Its frames
  // unwind behind the cut.
  void Kill(absl::Duration notice) {
    if (killed_ || ended_) return;
    killed_ = true;
    network_->Kill(options_.process, notice);
    environment_.Kill();
    worker_.CancelCalls({StopCode::kShutdown, "killed"});
    drain_.RequestStop({StopCode::kShutdown, "killed"});
  }
  // SIGTERM.
  void Drain() { drain_.RequestStop({StopCode::kDrain, "SIGTERM"}); }
  // Its network is held, and with `calls` its calls too, as of a process that was stopped.
  void Freeze(absl::Duration duration, bool calls) {
    network_->Hold(options_.process, duration);
    if (calls) environment_.HoldUntil(reactor_->Now() + duration);
  }
  // Told the key of each call that it makes.
  void set_on_call(absl::AnyInvocable<void(const std::string&)> f) { on_call_ = std::move(f); }

  const std::string& id() const { return options_.id; }
  int process() const { return options_.process; }
  Worker& worker() { return worker_; }
  const absl::Status& status() const { return status_; }
  bool killed() const { return killed_; }
  bool draining() const { return drain_.stopped(); }
  // Its session is over for good / all of it is gone.
  bool ended() const { return ended_; }
  bool gone() const { return gone_; }
  bool running() const { return !killed_ && !ended_; }
  // Answers that it paid for.
  int64_t paid() const { return environment_.paid(); }

 private:
  static WorkerOptions WorkerOptionsOf(const SimWorkerOptions& options) {
    WorkerOptions result;
    result.id = options.id;
    result.boot_nonce = std::to_string(options.process);
    result.max_in_flight = options.max_in_flight;
    result.seed = options.seed;
    return result;
  }

  Reactor* const reactor_;
  const SimWorkerOptions options_;
  SimNetwork* const network_;
  FakeEnvironment environment_;
  Worker worker_;
  StopSource drain_;
  absl::AnyInvocable<void(const std::string&)> on_call_;
  absl::Status status_;
  bool killed_ = false;
  bool ended_ = false;
  bool gone_ = false;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_WORKER_H_
