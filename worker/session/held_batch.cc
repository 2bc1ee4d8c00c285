#include "worker/session/held_batch.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/outcome/result_line.h"

namespace headrace {
namespace {

FailurePolicy PolicyOf(const std::string& on_failure) {
  if (on_failure == "fail_fast") return FailurePolicy::kFailFast;
  if (on_failure == "max_failed") return FailurePolicy::kMaxFailed;
  return FailurePolicy::kCollect;
}

// Half of the time at least is for starting, however slow the calls are.
MonoTime StartDeadlineOf(MonoTime leased, absl::Duration deadline, absl::Duration expected_call) {
  return leased + std::max(deadline - expected_call, deadline / 2);
}

BatchScopeOptions OptionsOf(const v1::Grant& grant, const v1::JobSpec& job, MonoTime now,
                            absl::Duration expected_call) {
  const absl::Duration deadline = absl::Milliseconds(job.batch_deadline_ms());
  BatchScopeOptions options;
  options.size = static_cast<size_t>(grant.items_size());
  options.deadline = now + deadline;
  options.start_deadline = StartDeadlineOf(now, deadline, expected_call);
  options.policy = PolicyOf(job.on_failure());
  options.max_failed = job.max_failed();
  return options;
}

int64_t Micros(absl::Duration duration) { return duration / absl::Microseconds(1); }

}  // namespace

HeldBatch::HeldBatch(Reactor* reactor, v1::Grant grant, MonoTime lease_end, const v1::JobSpec& job,
                     ModelRuntime* model, Gate* gate, Random* random, StopToken kill, Hooks hooks)
    : reactor_(reactor),
      grant_(std::move(grant)),
      run_key_(job.run_key()),
      model_(model),
      hooks_(hooks),
      ended_(static_cast<size_t>(grant_.items_size()), false),
      loop_(reactor, model, gate, random),
      deadline_(absl::Milliseconds(job.batch_deadline_ms())),
      options_(OptionsOf(grant_, job, reactor->Now(), loop_.ExpectedCallTime())),
      scope_(reactor, options_, this, this, model->drain.token(), kill) {
  start_deadline_ = options_.start_deadline;
  done_.set_batch_id(grant_.batch_id());
  done_.set_epoch(grant_.epoch());
  done_.set_job_id(grant_.job_id());
  Renew(lease_end);
}

HeldBatch::~HeldBatch() { reactor_->Cancel(&lease_timer_); }

void HeldBatch::Renew(MonoTime lease_end) {
  // What answers an older beat may come later.
  if (lease_timer_.armed() && lease_end <= lease_end_) return;
  lease_end_ = lease_end;
  reactor_->Cancel(&lease_timer_);
  if (lease_end == MonoTime::Max()) return;
  if (lease_end <= reactor_->Now()) return LoseLease();
  reactor_->Arm(
      &lease_timer_, lease_end, [](void* self) { static_cast<HeldBatch*>(self)->LoseLease(); },
      this);
}

void HeldBatch::LoseLease() {
  Drain({StopCode::kLeaseLost, "nothing was heard from the coordinator for a whole lease"});
}

v1::ReturnedItems HeldBatch::GiveBack(size_t count) {
  v1::ReturnedItems returned;
  returned.set_job_id(grant_.job_id());
  returned.set_batch_id(grant_.batch_id());
  returned.set_epoch(grant_.epoch());
  for (size_t index : scope_.GiveBack(count)) {
    ended_[index] = true;
    returned.add_items(grant_.items(static_cast<int>(index)).item());
  }
  return returned;
}

v1::HeldBatch HeldBatch::ToHeld(bool with_items) const {
  v1::HeldBatch held;
  held.set_batch_id(grant_.batch_id());
  held.set_epoch(grant_.epoch());
  held.set_job_id(grant_.job_id());
  held.set_model(grant_.model());
  held.set_pass(grant_.pass());
  held.set_not_started(static_cast<uint32_t>(scope_.not_started()));
  for (int i = 0; with_items && i < grant_.items_size(); ++i) {
    if (!ended_[static_cast<size_t>(i)]) held.add_open_items(grant_.items(i).item());
  }
  return held;
}

Task<void> HeldBatch::Run() {
  const BatchEnd end = co_await scope_.Run();
  done_.set_stop_code(static_cast<uint32_t>(end.stop.code));
  done_.set_reason(end.stop.text);
  if (model_->stopped.error_class != ErrorClass::kNone) {
    done_.set_stop_class(static_cast<uint32_t>(model_->stopped.error_class));
    done_.set_reason(model_->stopped.message);
  }
}

void HeldBatch::Cancel(const v1::Cancel& cancel) {
  StopReason reason{static_cast<StopCode>(cancel.stop_code()), cancel.reason()};
  if (cancel.items().empty()) {
    scope_.Cancel(std::move(reason));
    return;
  }
  for (int i = 0; i < grant_.items_size(); ++i) {
    for (uint64_t item : cancel.items()) {
      if (grant_.items(i).item() == item) scope_.CancelItem(static_cast<size_t>(i), reason);
    }
  }
}

void HeldBatch::TakeUp(const v1::Grant& grant, MonoTime lease_end) {
  grant_.set_epoch(grant.epoch());
  done_.set_epoch(grant.epoch());
  Renew(lease_end);
  absl::flat_hash_set<uint64_t> leased;
  for (const v1::Item& item : grant.items()) leased.insert(item.item());
  for (int i = 0; i < grant_.items_size(); ++i) {
    if (leased.contains(grant_.items(i).item())) continue;
    scope_.CancelItem(static_cast<size_t>(i), {StopCode::kLeaseLost, "another worker has it"});
  }
}

Task<bool> HeldBatch::Ready(StopToken stop) {
  const bool in_budget = co_await hooks_.budget->Wait(stop);
  if (!in_budget) co_return false;
  const bool ready = co_await loop_.Ready(stop);
  co_return ready;
}

Task<ItemOutcome> HeldBatch::Run(size_t index, StopToken start, StopToken call) {
  const v1::Item& item = grant_.items(static_cast<int>(index));
  ItemInput input;
  input.item = ItemId(item.item());
  input.row = RowIndex(item.row());
  input.custom_id = item.custom_id();
  input.expected = item.expected();
  input.request.user = item.user();
  input.request.system = item.system();
  input.request.messages_json = item.messages_json();
  input.request.body = item.body();
  input.request.url = item.url();
  // The same in every attempt, pass and start of the run.
  if (!run_key_.empty()) input.idempotency_key = absl::StrCat(run_key_, "-", item.item());
  input.pass = grant_.pass();
  input.batch = id();
  input.worker = hooks_.worker;
  input.max_line_bytes = hooks_.outbox->max_line_bytes();
  return loop_.Run(input, start_deadline_, start, call);
}

// By the calls that have ended since: a new worker does not know yet how fast they are.
MonoTime HeldBatch::StartDeadline() {
  start_deadline_ =
      StartDeadlineOf(options_.deadline - deadline_, deadline_, loop_.ExpectedCallTime());
  return start_deadline_;
}

void HeldBatch::OnOutcome(size_t index, ItemOutcome outcome) {
  const v1::Item& item = grant_.items(static_cast<int>(index));
  ended_[index] = true;
  if (outcome.kind == ItemOutcome::Kind::kNotStarted) {
    done_.add_not_started(item.item());
    hooks_.on_item_finished(hooks_.context, model_);
    return;
  }
  v1::ItemResult result;
  result.set_job_id(grant_.job_id());
  result.set_batch_id(grant_.batch_id());
  result.set_epoch(grant_.epoch());
  result.set_item(item.item());
  result.set_error_class(static_cast<uint32_t>(outcome.error_class));
  *result.mutable_line() = std::move(outcome.line);
  result.set_attempts(outcome.attempts);
  result.set_throttled(outcome.throttled);
  result.set_possibly_billed(outcome.possibly_billed);
  result.set_prompt_tokens(outcome.usage.prompt_tokens.value_or(-1));
  result.set_completion_tokens(outcome.usage.completion_tokens.value_or(-1));
  result.set_cached_tokens(outcome.usage.cached_tokens.value_or(-1));
  result.set_queue_us(Micros(outcome.times.queue));
  result.set_network_us(Micros(outcome.times.network));
  result.set_first_token_us(
      outcome.times.first_token.has_value() ? Micros(*outcome.times.first_token) : -1);
  result.set_total_us(Micros(outcome.times.total));
  if (!outcome.message.empty()) result.set_message(std::move(outcome.message));
  result.set_http_status(outcome.http_status);
  if (result.line().empty() && outcome.kind == ItemOutcome::Kind::kFailed) {
    // The item threw before it could write its line.
    ResultLine line;
    line.item = ItemId(item.item());
    line.row = RowIndex(item.row());
    line.model = model_->label;
    line.custom_id = item.custom_id();
    line.error_class = outcome.error_class;
    line.error_message = result.message();
    line.pass = grant_.pass();
    line.batch = id();
    line.worker = hooks_.worker;
    AppendResultLine(line, result.mutable_line());
  }
  hooks_.outbox->Add(std::move(result));
  hooks_.on_item_finished(hooks_.context, model_);
}

}  // namespace headrace
