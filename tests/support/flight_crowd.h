// Workers that call a provider with so many slots, through pools of any kind, in virtual time: what
// number of calls in flight they find together.
#ifndef HEADRACE_TESTS_SUPPORT_FLIGHT_CROWD_H_
#define HEADRACE_TESTS_SUPPORT_FLIGHT_CROWD_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/quota/admission.h"
#include "common/quota/pool_store.h"

namespace headrace::quota {

struct FlightCrowdOptions {
  int64_t slots = 30;                         // of the provider
  absl::Duration latency = absl::Seconds(1);  // in a slot, without the noise
  double noise = 0.3;                         // spread of its logarithm
  int streams = 100;                          // calls that each worker would make at a time
  absl::Duration beat = absl::Seconds(1);
  uint64_t seed = 1;
};

class FlightCrowd {
 public:
  // Takes a worker's sample, as its session does with each beat.
  using OnSample = absl::AnyInvocable<void(size_t worker, const FlightSample& sample)>;

  // One worker for each of `stores`, which outlive it; their pool is "p".
  FlightCrowd(Reactor* reactor, FlightCrowdOptions options, std::vector<PoolStore*> stores,
              OnSample on_sample)
      : reactor_(reactor),
        options_(options),
        random_(options.seed),
        slots_(reactor, options.slots),
        on_sample_(std::move(on_sample)) {
    for (PoolStore* store : stores) {
      workers_.push_back(std::make_unique<Admission>(reactor, store, "p",
                                                     static_cast<uint32_t>(workers_.size() + 1)));
    }
  }

  int64_t in_flight = 0;
  int64_t most_in_flight = 0;
  int64_t answered = 0;

  // Calls for so long, then lets what is under way end.
  Task<void> Run(absl::Duration duration) {
    TaskScope scope(reactor_, StopToken());
    for (size_t w = 0; w < workers_.size(); ++w) {
      scope.Spawn(Beats(this, w, scope.token()));
      for (int i = 0; i < options_.streams; ++i) scope.Spawn(Stream(this, w, scope.token()));
    }
    Sleep wait(reactor_, duration, StopToken());
    co_await wait;
    scope.RequestStop(StopReason{StopCode::kOwnerDone, {}});
    co_await scope.Join();
    for (const auto& worker : workers_) co_await worker->Shutdown();
  }

 private:
  static Task<void> Beats(FlightCrowd* self, size_t worker, StopToken stop) {
    // Workers do not beat together.
    Sleep first(self->reactor_, self->options_.beat * self->random_.Unit(), stop);
    co_await first;
    while (true) {
      Sleep wait(self->reactor_, self->options_.beat, stop);
      const bool waited = co_await wait;
      if (!waited) co_return;
      self->on_sample_(worker, self->workers_[worker]->TakeSample());
    }
  }

  static Task<void> Stream(FlightCrowd* self, size_t number, StopToken stop) {
    Admission* const worker = self->workers_[number].get();
    while (!stop.stopped()) {
      const Ticket ticket = co_await worker->Admit(1, 0, 1, Costs{1, 0, 0, 0, 1, 0, 0}, stop);
      if (ticket.kind != Ticket::Kind::kAdmitted) co_return;
      worker->BeginCall();
      const MonoTime begun = self->reactor_->Now();
      self->most_in_flight = std::max(self->most_in_flight, ++self->in_flight);
      co_await self->slots_.Acquire(StopToken());
      double normal = -6;
      for (int i = 0; i < 12; ++i) normal += self->random_.Unit();
      Sleep served(self->reactor_, self->options_.latency * std::exp(self->options_.noise * normal),
                   StopToken());
      co_await served;
      self->slots_.Release();
      --self->in_flight;
      ++self->answered;
      worker->EndCall({.kind = FlightEnd::Kind::kAnswered,
                       .in_flight = self->reactor_->Now() - begun,
                       .tokens = 100});
      worker->Settle(ticket, Settlement::kCharged, ticket.reserved);
    }
  }

  Reactor* const reactor_;
  const FlightCrowdOptions options_;
  Random random_;
  Semaphore slots_;
  OnSample on_sample_;
  std::vector<std::unique_ptr<Admission>> workers_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_SUPPORT_FLIGHT_CROWD_H_
