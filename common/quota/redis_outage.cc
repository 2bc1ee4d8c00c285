// A RedisPool without Redis: when it goes on its own, and what it allows then.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/redis_pool.h"

namespace headrace::quota {
namespace {

constexpr absl::Duration kAskAgain = absl::Seconds(1);
// Between tries to reach Redis while on its own: of all workers at different times.
constexpr absl::Duration kLeastProbe = absl::Milliseconds(500);
constexpr absl::Duration kMostProbe = absl::Milliseconds(1500);

// An error of the script itself, or of what it was given: sent again it fails again.
bool IsOurs(redis::Error error) {
  return error == redis::Error::kServer || error == redis::Error::kCrossSlot;
}

}  // namespace

void RedisPool::OnNoAnswer(const redis::Outcome& outcome) {
  const MonoTime now = reactor_->Now();
  trouble_ = outcome.text;
  if (IsOurs(outcome.error)) {
    HR_LOG(kError) << "pool " << spec_.name << ": Redis refused a call: " << outcome.text;
    if (pending_) {
      // Nothing of it is known to have happened; those who wait ask again, later.
      Pending pending = *std::exchange(pending_, std::nullopt);
      for (Asking* asking : pending.asking) {
        ReserveAnswer later{.kind = ReserveAnswer::Kind::kRetryAt, .at = now + kAskAgain};
        asking->answers = std::vector<ReserveAnswer>(asking->requests.size(), later);
        asking->done.Set();
      }
    }
  }
  if (!silent_since_) silent_since_ = now;
  if (!local_ && now - *silent_since_ < options_.outage_after) return;
  if (!local_) GoLocal();
  if (pending_) {
    // It is made anew when Redis is back, with what has happened since.
    Pending pending = *std::exchange(pending_, std::nullopt);
    for (Asking* asking : pending.asking) {
      // They may have been booked all the same.
      for (const ReserveRequest& request : asking->requests) {
        pending.settled.push_back(Settled{request.id, Settlement::kNotSent, Costs{}});
      }
    }
    settled_.insert(settled_.begin(), pending.settled.begin(), pending.settled.end());
    tell_at_ = now;
    for (Asking* asking : pending.asking) AnswerLocally(asking);
  }
  AnswerAllLocally();
}

void RedisPool::AnswerAllLocally() {
  while (!asking_.empty()) {
    Asking* asking = asking_.front();
    asking_.pop_front();
    AnswerLocally(asking);
  }
}

Task<bool> RedisPool::Probe(StopToken stop) {
  PoolCall call;
  call.worker = options_.worker;
  call.ops.Snapshot();
  const MonoTime now = reactor_->Now();
  if (options_.test_clock) call.test_clock_us = absl::StrCat(now.nanos() / 1000);
  ++stats_.calls;
  std::vector<std::string> args = PoolArgs(std::move(call));
  redis::CallOptions call_options{
      .deadline = now + options_.call_timeout, .stop = stop, .idempotent = true};
  const redis::Outcome outcome =
      co_await server_->Eval(&PoolScript(), keys_, std::move(args), call_options);
  if (!outcome.ok()) ++stats_.failed;
  co_return outcome.ok();
}

// Until Redis is back. Reserve() answers by itself meanwhile.
Task<void> RedisPool::RunLocal(StopToken stop) {
  while (local_ && !stop.stopped()) {
    const bool slept = co_await Sleep(reactor_, random_.Between(kLeastProbe, kMostProbe), stop);
    if (!slept) break;
    const bool reached = co_await Probe(stop);
    if (!reached) continue;
    rejoining_ = true;
    const bool answered = co_await CallOnce(stop);
    rejoining_ = false;
    if (!answered) AnswerAllLocally();
  }
}

void RedisPool::GoLocal() {
  const MonoTime now = reactor_->Now();
  PoolSpec spec = spec_;
  if (hint_.in_flight_limit > 0) {
    std::erase_if(spec.dimensions,
                  [](const DimensionSpec& d) { return d.mechanics == Mechanics::kGauge; });
    spec.dimensions.push_back(DimensionSpec{.dimension = Dimension::kInFlight,
                                            .mechanics = Mechanics::kGauge,
                                            .limit = hint_.in_flight_limit});
  }
  local_.emplace(spec, std::max(workers_, options_.least_workers), now);
  local_since_ = now;
  UpdateLocalHint();
  HR_LOG(kWarning) << "pool " << spec_.name << ": " << Snapshot().notice;
}

void RedisPool::UpdateLocalHint() {
  hint_.free_slots = local_->free_slots(static_cast<int64_t>(held_.size()));
  hint_.look_ahead = 1;
}

ReserveAnswer RedisPool::LocalAnswer(const ReserveRequest& request, absl::Duration horizon) {
  const MonoTime now = reactor_->Now();
  if (snapshot_.closed) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kClosed, .text = snapshot_.closed_text};
  }
  // Who has never heard of the pool knows neither how many share it nor what was sent.
  if (!answered_ || now - local_since_ >= options_.local_for) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kRetryAt, .at = now + kAskAgain};
  }
  return local_->Reserve(now, request, horizon, hint_.gate_until,
                         static_cast<int64_t>(held_.size()));
}

void RedisPool::AnswerLocally(Asking* asking) {
  std::vector<ReserveAnswer> answers;
  answers.reserve(asking->requests.size());
  for (const ReserveRequest& request : asking->requests) {
    answers.push_back(LocalAnswer(request, asking->horizon));
  }
  UpdateLocalHint();
  if (asking->requests.empty()) {
    asking->answers = absl::UnavailableError(Snapshot().notice);
  } else {
    asking->answers = std::move(answers);
  }
  asking->done.Set();
}

Task<void> RedisPool::Leave() {
  if (local_ || !answered_) co_return;
  PoolCall call;
  call.worker = options_.worker;
  call.number = ++number_;
  call.channel = channel_;
  for (const Settled& settled : settled_) {
    call.ops.Settle(settled.id, settled.settlement, settled.actual);
  }
  settled_.clear();
  call.ops.Leave();
  const MonoTime now = reactor_->Now();
  if (options_.test_clock) call.test_clock_us = absl::StrCat(now.nanos() / 1000);
  std::vector<std::string> args = PoolArgs(std::move(call));
  redis::CallOptions call_options{.deadline = now + options_.call_timeout, .idempotent = true};
  const redis::Outcome outcome =
      co_await server_->Eval(&PoolScript(), keys_, std::move(args), call_options);
  if (!outcome.ok()) {
    HR_LOG(kWarning) << "pool " << spec_.name << ": leaving without a word: " << outcome.text;
  }
}

}  // namespace headrace::quota
