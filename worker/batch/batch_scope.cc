#include "worker/batch/batch_scope.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace {

BatchScope::BatchScope(Reactor* reactor, BatchScopeOptions options, ItemRunner* runner,
                       OutcomeSink* sink, StopToken drain, StopToken cancel)
    : reactor_(reactor),
      options_(std::move(options)),
      runner_(runner),
      sink_(sink),
      outcomes_(options_.size, false),
      limit_(options_.size),
      start_stop_(drain),
      cancel_(cancel),
      item_stops_(options_.size, nullptr),
      // The children are stopped through their own tokens, so that each ends with its own outcome.
      scope_(reactor, StopToken()) {
  on_cancel_.Arm(
      cancel,
      [](void* self) {
        auto* scope = static_cast<BatchScope*>(self);
        scope->Cancel(scope->cancel_.reason());
      },
      this);
  if (options_.start_deadline != MonoTime::Max()) ArmStartDeadline(options_.start_deadline);
  if (options_.deadline != MonoTime::Max()) {
    reactor_->Arm(
        &deadline_timer_, options_.deadline,
        [](void* self) {
          static_cast<BatchScope*>(self)->Cancel({StopCode::kDeadline, "the batch's deadline"});
        },
        this);
  }
}

void BatchScope::ArmStartDeadline(MonoTime when) {
  reactor_->Arm(
      &start_timer_, when,
      [](void* context) {
        auto* self = static_cast<BatchScope*>(context);
        const MonoTime later = self->runner_->StartDeadline();
        if (later > self->reactor_->Now()) return self->ArmStartDeadline(later);
        self->Drain({StopCode::kDeadline, "too late to start"});
      },
      this);
}

BatchScope::~BatchScope() {
  reactor_->Cancel(&start_timer_);
  reactor_->Cancel(&deadline_timer_);
}

void BatchScope::Drain(StopReason reason) { start_stop_.RequestStop(std::move(reason)); }

std::vector<size_t> BatchScope::GiveBack(size_t count) {
  std::vector<size_t> indices;
  // The next item stays: its place in the line is asked for already.
  while (count-- > 0 && limit_ > next_ + 1) {
    indices.push_back(--limit_);
    ++end_.given_back;
  }
  return indices;
}

void BatchScope::Cancel(StopReason reason) {
  // Starts first, so that no child can begin an attempt between the two.
  start_stop_.RequestStop(reason);
  call_stop_.RequestStop(std::move(reason));
}

void BatchScope::CancelItem(size_t index, StopReason reason) {
  if (index >= limit_ || ended(index)) return;
  if (item_stops_[index] != nullptr) {
    item_stops_[index]->RequestStop(std::move(reason));
  } else {
    cancelled_items_.emplace(index, std::move(reason));
  }
}

Task<BatchEnd> BatchScope::Run() {
  while (next_ < limit_ && !start_stop_.stopped()) {
    const bool ready = co_await runner_->Ready(start_stop_.token());
    if (!ready) break;
    const bool spawned = scope_.Spawn(RunOne(this, next_));
    HR_CHECK(spawned);
    ++next_;
  }
  co_await scope_.Join();
  for (; next_ < limit_; ++next_) RecordNotStarted(next_);
  reactor_->Cancel(&start_timer_);
  reactor_->Cancel(&deadline_timer_);

  const size_t outcomes =
      end_.ok + end_.failed + end_.cancelled + end_.not_started + end_.given_back;
  HR_CHECK(outcomes == options_.size) << outcomes << " outcomes for " << options_.size << " items";
  end_.stop = call_stop_.stopped() ? call_stop_.reason() : start_stop_.reason();
  co_return end_;
}

Task<void> BatchScope::RunOne(BatchScope* self, size_t index) {
  StopSource call(self->call_stop_.token());
  StopSource start(self->start_stop_.token());
  // CancelItem ends the waits of the item as well as its call.
  StopCallback item_stop;
  struct Context {
    StopSource* call;
    StopSource* start;
  } context{&call, &start};
  item_stop.Arm(
      call.token(),
      [](void* c) {
        auto* stops = static_cast<Context*>(c);
        stops->start->RequestStop(stops->call->reason());
      },
      &context);
  self->item_stops_[index] = &call;
  auto cancelled = self->cancelled_items_.find(index);
  if (cancelled != self->cancelled_items_.end()) call.RequestStop(cancelled->second);
  ItemOutcome outcome;
  try {
    Task<ItemOutcome> run = self->runner_->Run(index, start.token(), call.token());
    outcome = co_await run;
  } catch (const std::exception& e) {
    HR_LOG(kError) << "an item threw: " << e.what();
    outcome.kind = ItemOutcome::Kind::kFailed;
    outcome.error_class = ErrorClass::kInternal;
    outcome.message = absl::StrCat("internal error: ", e.what());
  }
  self->item_stops_[index] = nullptr;
  self->Record(index, std::move(outcome));
}

void BatchScope::Record(size_t index, ItemOutcome outcome) {
  if (ended(index)) {
    ++end_.late_outcomes;
    HR_LOG(kWarning) << "a second outcome of item " << index << " of a batch was dropped";
    return;
  }
  outcomes_[index] = true;
  const bool failed = outcome.kind == ItemOutcome::Kind::kFailed;
  switch (outcome.kind) {
    case ItemOutcome::Kind::kOk:
      ++end_.ok;
      break;
    case ItemOutcome::Kind::kFailed:
      ++end_.failed;
      break;
    case ItemOutcome::Kind::kCancelled:
      ++end_.cancelled;
      break;
    case ItemOutcome::Kind::kNotStarted:
      ++end_.not_started;
      break;
  }
  sink_->OnOutcome(index, std::move(outcome));
  if (failed) ApplyPolicy();
}

void BatchScope::ApplyPolicy() {
  const auto failed = static_cast<int64_t>(end_.failed);
  if (options_.policy == FailurePolicy::kFailFast) {
    Cancel({StopCode::kPolicy, "fail_fast: an item failed"});
  } else if (options_.policy == FailurePolicy::kMaxFailed && failed > options_.max_failed) {
    Cancel({StopCode::kPolicy, absl::StrCat("max_failed: ", failed, " items failed, ",
                                            options_.max_failed, " allowed")});
  }
}

void BatchScope::RecordNotStarted(size_t index) {
  ItemOutcome outcome;
  outcome.kind = ItemOutcome::Kind::kNotStarted;
  outcome.stop = start_stop_.reason();
  Record(index, std::move(outcome));
}

}  // namespace headrace
