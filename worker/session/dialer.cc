#include "worker/session/dialer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/base/units.h"

namespace headrace {
namespace {

// A session that lasted this long was a good one: the next back-off starts anew.
constexpr absl::Duration kGoodSession = absl::Seconds(10);

class Dialer {
 public:
  Dialer(Reactor* reactor, Worker* worker, DialerOptions options, StopToken drain)
      : reactor_(reactor),
        worker_(worker),
        options_(std::move(options)),
        drain_(drain),
        random_(options_.seed),
        begun_(reactor->Now()) {
    on_drain_.Arm(drain, [](void* self) { static_cast<Dialer*>(self)->OnDrain(); }, this);
  }
  ~Dialer() {
    reactor_->Cancel(&cancel_timer_);
    reactor_->Cancel(&end_timer_);
  }

  Task<absl::Status> Run(StreamFactory factory) {
    while (true) {
      std::unique_ptr<WorkerStream> stream = factory();
      const MonoTime opened = reactor_->Now();
      absl::Status status = co_await Serve(stream.get());
      if (!absl::IsUnavailable(status)) co_return status;
      if (reactor_->Now() - opened >= kGoodSession) {
        tries_ = 0;
        begun_ = reactor_->Now();
      }
      if (end_.stopped() || (drain_.stopped() && worker_->idle())) co_return AtTheEnd(status);
      if (reactor_->Now() - begun_ >= options_.give_up_after) {
        co_return absl::DeadlineExceededError(
            absl::StrCat("no coordinator at ", options_.address, " within ",
                         headrace::FormatDuration(options_.give_up_after), ": ", status.message()));
      }
      Tell(status);
      const bool waited = co_await Wait();
      if (!waited && worker_->idle()) co_return AtTheEnd(status);
    }
  }

 private:
  Task<absl::Status> Serve(WorkerStream* stream) {
    absl::Status status = co_await worker_->Serve(stream, drain_, end_.token());
    co_await stream->Close(absl::OkStatus());
    co_return status;
  }

  // False when the end has come.
  Task<bool> Wait() {
    const absl::Duration ceiling =
        std::min(options_.first_delay * (1 << std::min(tries_, 10)), options_.max_delay);
    ++tries_;
    Sleep wait(reactor_, random_.Between(absl::ZeroDuration(), ceiling), end_.token());
    const bool waited = co_await wait;
    co_return waited;
  }

  // Once for each thing there is to say, not for each attempt.
  void Tell(const absl::Status& status) {
    std::string words(status.message());
    if (words == told_) return;
    told_ = std::move(words);
    const WorkerStats stats = worker_->stats();
    HR_LOG(kWarning) << "waiting for the coordinator at " << options_.address << ": " << told_
                     << (stats.batches > 0
                             ? absl::StrCat("; ", stats.batches, " batches go on meanwhile")
                             : "");
  }

  void OnDrain() {
    worker_->Drain(drain_.reason());
    reactor_->Arm(
        &cancel_timer_, reactor_->Now() + options_.grace / 2,
        [](void* self) {
          static_cast<Dialer*>(self)->worker_->CancelCalls(
              {StopCode::kDrain, "the grace period of the worker"});
        },
        this);
    reactor_->Arm(
        &end_timer_, reactor_->Now() + options_.grace,
        [](void* self) {
          static_cast<Dialer*>(self)->end_.RequestStop(
              {StopCode::kDeadline, "the grace period is over"});
        },
        this);
  }

  absl::Status AtTheEnd(const absl::Status& last) const {
    if (worker_->idle()) return absl::OkStatus();
    const WorkerStats stats = worker_->stats();
    return absl::UnavailableError(absl::StrCat(
        "the worker ends with ", stats.unacked_bytes,
        " bytes of results that could not be delivered; their items run again: ", last.message()));
  }

  Reactor* const reactor_;
  Worker* const worker_;
  const DialerOptions options_;
  const StopToken drain_;
  StopCallback on_drain_;
  Random random_;
  MonoTime begun_;  // of the present wait for a session
  int tries_ = 0;
  std::string told_;
  Timer cancel_timer_;
  Timer end_timer_;
  StopSource end_;  // the grace period is over
};

}  // namespace

Task<absl::Status> ServeWithReconnects(Reactor* reactor, Worker* worker, StreamFactory factory,
                                       DialerOptions options, StopToken drain) {
  Dialer dialer(reactor, worker, std::move(options), drain);
  co_return co_await dialer.Run(std::move(factory));
}

}  // namespace headrace
