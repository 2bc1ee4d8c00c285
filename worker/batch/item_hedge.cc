// Hedging: an attempt that lasts far beyond the p99 of its model gets a second one beside it, once
// in an item's life, within the gate and the quota and a small share of all calls. The first ok
// wins; the other call is cancelled, and counted as possibly billed.
#include <algorithm>
#include <array>
#include <utility>

#include "common/async/scope.h"
#include "common/async/wait.h"
#include "worker/batch/item_loop.h"
#include "worker/batch/item_progress.h"

namespace headrace {
namespace {

// Fewer answers say nothing about a p99. Chosen, not measured.
constexpr int64_t kEnoughAnswers = 100;
// "Far beyond": this many times the p99, and no call is hedged before kMinHedgeDelay. Chosen, not
// measured.
constexpr int64_t kTimesP99 = 2;
constexpr absl::Duration kMinHedgeDelay = absl::Seconds(1);
// Second calls are at most one of this many, so that a slow provider is not given twice the load.
constexpr int64_t kCallsPerHedge = 100;

}  // namespace

// Two attempts of one item, the second begun late or never.
struct ItemLoop::Race {
  Race(Reactor* reactor, Progress* p, StopToken start, StopToken call)
      : progress(p), changed(reactor), first_stop(call), second_stop(call), second_wait(start) {}

  struct Leg {
    Attempt attempt;
    StopSource* stop = nullptr;
    bool begun = false;
    bool ended = false;
    bool ok() const { return ended && attempt.reply.error_class == ErrorClass::kNone; }
  };

  Progress* const progress;
  std::array<Leg, 2> legs;
  Event changed;  // a leg has ended
  StopSource first_stop;
  StopSource second_stop;
  StopSource second_wait;  // to start: ends with the first call
};

bool ItemLoop::MayHedge(const Progress& progress) const {
  return model_->hedge && !progress.hedged && model_->network_us.count() >= kEnoughAnswers &&
         model_->hedges < 1 + model_->network_us.count() / kCallsPerHedge;
}

absl::Duration ItemLoop::HedgeDelay() const {
  return std::max(kTimesP99 * absl::Microseconds(model_->network_us.Quantile(0.99)),
                  kMinHedgeDelay);
}

Task<void> ItemLoop::RunLeg(ItemLoop* self, Race* race, size_t index) {
  Race::Leg& leg = race->legs[index];
  co_await self->CallOnce(*race->progress, &leg.attempt, leg.stop->token());
  self->gate_->permits().Release();
  self->SettleAndLearn(race->progress, leg.attempt);
  leg.ended = true;
  race->second_wait.RequestStop({StopCode::kOwnerDone, "the first call has ended"});
  race->changed.Set();
}

Task<void> ItemLoop::MakeHedgedAttempt(Progress* progress, StopToken start, StopToken call) {
  Race race(reactor_, progress, start, call);
  TaskScope scope(reactor_, StopToken());
  Race::Leg& first = race.legs[0];
  Race::Leg& second = race.legs[1];
  first.stop = &race.first_stop;
  second.stop = &race.second_stop;
  first.attempt.ticket = progress->ticket;
  first.begun = true;
  ++progress->attempts;
  scope.Spawn(RunLeg(this, &race, 0));
  {
    DeadlineSource patience(reactor_, reactor_->Now() + HedgeDelay(), call);
    co_await race.changed.Wait(patience.token());
  }
  // A second call takes its turn at the gate and waits for the quota like any other, while the
  // first call lasts.
  bool permitted = false;
  if (!first.ended && !start.stopped() && MayHedge(*progress)) {
    permitted = co_await gate_->permits().Acquire(race.second_wait.token());
  }
  if (permitted) {
    second.attempt.ticket =
        co_await Reserve(*progress, race.second_wait.token(), race.second_wait.token());
    if (second.attempt.ticket.kind == quota::Ticket::Kind::kAdmitted) {
      second.begun = true;
      progress->hedged = true;
      ++model_->hedges;
      ++progress->attempts;
      scope.Spawn(RunLeg(this, &race, 1));
    } else {
      gate_->permits().Release();
    }
  }
  while (!first.ok() && !second.ok() && (!first.ended || (second.begun && !second.ended))) {
    race.changed.Reset();
    co_await race.changed.Wait(StopToken());
  }
  const size_t winner = second.ok() && !first.ok() ? 1 : 0;
  race.legs[1 - winner].stop->RequestStop({StopCode::kOwnerDone, "the other call was faster"});
  co_await scope.Join();
  progress->result = std::move(race.legs[winner].attempt.result);
  progress->reply = std::move(race.legs[winner].attempt.reply);
}

}  // namespace headrace
