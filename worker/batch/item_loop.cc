#include "worker/batch/item_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "worker/batch/item_progress.h"

namespace headrace {
namespace {

// Messages of failures travel in every result chunk. Chosen, not measured.
constexpr size_t kMaxMessageBytes = 2000;
// A refusal is shown in one line of the progress. Chosen, not measured.
constexpr size_t kMaxRefusalBytes = 160;

// A model that hears only "later" for this long, and this often, is parked: case B5. Chosen: as
// long as a hint is waited for, and more calls than chance explains.
constexpr absl::Duration kMinRefused = absl::Minutes(10);
constexpr int64_t kMinRefusals = 10;

// Why no model of the account is called any more after `reply`.
std::string StopMessage(const provider::Reply& reply, const RetryRule::Decision& decision) {
  if (reply.error_class == ErrorClass::kConnect) {
    return absl::StrCat("the provider cannot be reached: ", reply.message);
  }
  if (decision.kind != RetryRule::Decision::Kind::kParked) return reply.message;
  if (decision.wait == absl::ZeroDuration()) {
    return absl::StrCat("the provider has refused every call for more than ",
                        headrace::FormatDuration(kMinRefused), ": ", reply.message);
  }
  return absl::StrCat("the provider asks to wait ", headrace::FormatDuration(decision.wait), ": ",
                      reply.message);
}

// Makes of the outcome of an answer whose line is too long one that says so. It is final: the next
// answer may be as long, and this one is paid for. What it cost stays on record.
void LeaveOutAnswer(size_t max_line_bytes, ResultLine* line, ItemOutcome* outcome) {
  outcome->kind = ItemOutcome::Kind::kFailed;
  outcome->error_class = ErrorClass::kNeverFits;
  outcome->message = absl::StrCat("the answer cannot be kept: its result has ",
                                  outcome->line.size(), " bytes, more than the ", max_line_bytes,
                                  " that one result may have on its way to the coordinator");
  line->error_class = outcome->error_class;
  line->error_message = outcome->message;
  line->body = line->expected = "";
  // Ids are short, but nothing says that they must be.
  const std::string custom_id = ExcerptUtf8(line->custom_id, kMaxMessageBytes);
  line->custom_id = custom_id;
  outcome->line.clear();
  outcome->line.shrink_to_fit();
  AppendResultLine(*line, &outcome->line);
}

}  // namespace

Task<bool> ItemLoop::Ready(StopToken stop) {
  const bool admitted = co_await model_->starts.Acquire(stop);
  co_return admitted;
}

absl::Duration ItemLoop::ExpectedCallTime() const {
  // Fewer answers say nothing about a tail: then a call may take all of its time. Chosen, not
  // measured.
  constexpr int64_t kEnough = 20;
  if (model_->network_us.count() < kEnough) return model_->timeouts.total;
  return absl::Microseconds(model_->network_us.Quantile(0.95)) * 1.25;
}

Task<ItemOutcome> ItemLoop::Run(ItemInput input, MonoTime start_deadline, StopToken start,
                                StopToken call) {
  Progress progress(input, model_->retry);
  progress.holds_line = true;
  progress.begun = reactor_->Now();
  progress.started = reactor_->WallNow();

  input.request.idempotency_key = input.idempotency_key;
  absl::StatusOr<provider::BuiltRequest> built = model_->codec->Build(input.request);
  if (!built.ok()) {
    model_->starts.Release();
    progress.reply.error_class = ErrorClass::kBadRow;
    progress.reply.message = std::string(built.status().message());
    co_return Finish(&progress);
  }
  progress.built = *std::move(built);
  progress.built.request.timeouts = model_->timeouts;

  while (true) {
    const bool admitted = co_await Admit(&progress, start, call);
    if (!admitted) {
      if (progress.reply.error_class == ErrorClass::kNeverFits) co_return Finish(&progress);
      if (progress.ticket.kind == quota::Ticket::Kind::kClosed) {
        StopAccount(ErrorClass::kNoMoney, progress.ticket.text);
      }
      if (progress.ticket.kind == quota::Ticket::Kind::kError && !start.stopped()) {
        // The store of the quota is away, which is no reason to spin.
        HR_LOG(kWarning) << "model " << model_->label << ": " << progress.ticket.text;
        Sleep wait(reactor_,
                   std::max(model_->retry.backoff.max_delay, RetryRule::kMinUncountedMaxDelay),
                   start);
        co_await wait;
        continue;
      }
      co_return Interrupted(&progress, start.reason());
    }
    if (MayHedge(progress)) {
      co_await MakeHedgedAttempt(&progress, start, call);
    } else {
      co_await MakeAttempt(&progress, call);
    }
    if (progress.result.end == http::CallEnd::kCancelled) {
      co_return Cancelled(&progress, call.reason());
    }
    if (progress.reply.error_class == ErrorClass::kNone) {
      model_->last_contact = reactor_->Now();
      model_->refused_since.reset();
      gate_->refusal.clear();
      co_return Finish(&progress);
    }

    const RetryRule::Decision decision = Decide(&progress);
    if (GetErrorClassInfo(progress.reply.error_class).stop == StopRule::kAccount ||
        decision.kind == RetryRule::Decision::Kind::kParked) {
      StopAccount(progress.reply.error_class, StopMessage(progress.reply, decision));
      // The item did nothing wrong: it stays unattempted, and a later run starts it again.
      co_return NotStarted(&progress, StopReason{StopCode::kAccountStop, model_->stopped.message});
    }
    if (decision.kind == RetryRule::Decision::Kind::kFinal) co_return Finish(&progress);
    if (reactor_->Now() + decision.wait > start_deadline) {
      co_return Interrupted(&progress, StopReason{StopCode::kDeadline, "no time for a retry"});
    }
    ++gate_->backing_off;
    ++model_->backing_off;
    Sleep wait(reactor_, decision.wait, start);
    const bool waited = co_await wait;
    --gate_->backing_off;
    --model_->backing_off;
    if (!waited) co_return Interrupted(&progress, start.reason());
  }
}

void ItemLoop::StopAccount(ErrorClass error_class, std::string message) {
  if (model_->stopped.error_class != ErrorClass::kNone) return;
  model_->stopped = {error_class, std::move(message)};
  model_->on_account_stop(model_->context, model_);
}

// The end of an item between two attempts, or before the first.
ItemOutcome ItemLoop::Interrupted(Progress* progress, StopReason reason) {
  // Where the time is up, a failed attempt is the item's outcome, or the item might come back for
  // ever; "later" is none. Every other stop ends the run or this worker, and takes no attempts from
  // the item. A provider that is out of reach for a while is no failure of the item.
  const bool outage =
      progress->reply.error_class == ErrorClass::kConnect && model_->last_contact.has_value();
  if (reason.code == StopCode::kDeadline && progress->rule.counted() > 0 && !outage) {
    return Finish(progress);
  }
  ItemOutcome outcome = NotStarted(progress, std::move(reason));
  if (progress->possibly_billed == 0) return outcome;
  outcome.kind = ItemOutcome::Kind::kCancelled;
  outcome.error_class = ErrorClass::kCancelled;
  outcome.possibly_billed = progress->possibly_billed;
  return outcome;
}

RetryRule::Decision ItemLoop::Decide(Progress* progress) {
  using Kind = RetryRule::Decision::Kind;
  const provider::Reply& reply = progress->reply;
  const bool unreached = reply.error_class == ErrorClass::kConnect;
  const bool throttled = GetErrorClassInfo(reply.error_class).attempt == AttemptRule::kThrottle;
  if (throttled) ++gate_->throttled;
  if (throttled || unreached) gate_->refusal = ExcerptUtf8(reply.message, kMaxRefusalBytes);
  if (!unreached) {
    model_->last_contact = reactor_->Now();
    RetryRule::Decision decision =
        progress->rule.Next(reply.error_class, reply.retry_after, random_, reply.possibly_billed);
    if (!throttled) {
      model_->refused_since.reset();
    } else if (RefusedTooLong() && decision.kind == Kind::kRetry) {
      decision = {Kind::kParked, {}};
    }
    return decision;
  }
  // A provider out of reach is nobody's failure: no item may be lost to it. One that was never
  // reached is given an item's attempts; one that was is waited for as long as it may ask for.
  if (!model_->last_contact.has_value()) {
    RetryRule::Decision decision = progress->rule.Next(reply.error_class, std::nullopt, random_);
    if (decision.kind == Kind::kFinal) decision.kind = Kind::kParked;
    return decision;
  }
  if (reactor_->Now() - *model_->last_contact > model_->retry.max_retry_after) {
    return {Kind::kParked, {}};
  }
  return progress->rule.NextUnsent(random_);
}

bool ItemLoop::RefusedTooLong() {
  const MonoTime now = reactor_->Now();
  if (!model_->refused_since.has_value()) {
    model_->refused_since = now;
    model_->refusals = 0;
  }
  // A call on the wire may yet be answered.
  return ++model_->refusals >= kMinRefusals && model_->on_the_wire == 0 &&
         now - *model_->refused_since > std::max(kMinRefused, model_->retry.max_retry_after);
}

Task<bool> ItemLoop::Admit(Progress* progress, StopToken start, StopToken call) {
  progress->ticket = {};
  if (!progress->holds_line) {
    const bool in_line = co_await model_->starts.Acquire(start);
    if (!in_line) co_return false;
    progress->holds_line = true;
  }
  const bool permitted = co_await gate_->permits().Acquire(start);
  if (permitted) progress->ticket = co_await Reserve(*progress, start, call);
  model_->starts.Release();
  progress->holds_line = false;
  if (!permitted) co_return false;
  if (progress->ticket.kind == quota::Ticket::Kind::kAdmitted) co_return true;
  gate_->permits().Release();
  if (progress->ticket.kind == quota::Ticket::Kind::kNeverFits) {
    progress->reply = {};
    progress->reply.error_class = ErrorClass::kNeverFits;
    progress->reply.message = progress->ticket.text;
  }
  co_return false;
}

Task<quota::Ticket> ItemLoop::Reserve(const Progress& progress, StopToken start, StopToken call) {
  const quota::TokenEstimate estimate = model_->estimator->Estimate(progress.built.features);
  const quota::Costs costs =
      quota::EstimateCosts(estimate, progress.built.max_output, model_->charging);
  return model_->pool->Admit(model_->quota_job_id, model_->model, model_->weight, costs, start,
                             model_->job_weight, call);
}

Task<void> ItemLoop::MakeAttempt(Progress* progress, StopToken call) {
  ++progress->attempts;
  Attempt attempt;
  attempt.ticket = progress->ticket;
  co_await CallOnce(*progress, &attempt, call);
  gate_->permits().Release();
  SettleAndLearn(progress, attempt);
  progress->result = std::move(attempt.result);
  progress->reply = std::move(attempt.reply);
}

Task<void> ItemLoop::CallOnce(const Progress& progress, Attempt* attempt, StopToken call) {
  ++model_->on_the_wire;
  gate_->peak_on_the_wire = std::max(gate_->peak_on_the_wire, ++gate_->on_the_wire);
  model_->pool->BeginCall();
  const MonoTime begun = reactor_->Now();
  std::unique_ptr<provider::ReplyReader> reader = model_->codec->NewReader(progress.built);
  attempt->result = co_await model_->client->Call(&progress.built.request, reader.get(), call);
  attempt->reply = reader->Finish(attempt->result);
  --gate_->on_the_wire;
  --model_->on_the_wire;
  model_->pool->EndCall(ShownBy(*attempt, reactor_->Now() - begun));
}

quota::FlightEnd ItemLoop::ShownBy(const Attempt& attempt, absl::Duration in_flight) const {
  using Kind = quota::FlightEnd::Kind;
  // Jobs that share a pool have models of the same numbers.
  constexpr uint64_t kModelsOfAJob = 7;
  const provider::Reply& reply = attempt.reply;
  quota::FlightEnd end;
  end.group = static_cast<size_t>(model_->job_id * kModelsOfAJob + model_->model) %
              quota::FlightSample::kGroups;
  end.in_flight = in_flight;
  end.tokens = reply.usage.completion_tokens.value_or(0);
  const bool throttled =
      reply.penalty == quota::Penalty::Kind::kRate || reply.penalty == quota::Penalty::Kind::kRamp;
  if (attempt.result.end == http::CallEnd::kCancelled) {
    end.kind = Kind::kCancelled;
  } else if (reply.error_class == ErrorClass::kNone) {
    end.kind = Kind::kAnswered;
  } else if (reply.penalty == quota::Penalty::Kind::kCapacity ||
             (throttled &&
              (reply.penalty_dimension == quota::Dimension::kInFlight || !model_->rates_limited))) {
    end.kind = Kind::kRefused;
  }
  return end;
}

void ItemLoop::SettleAndLearn(Progress* progress, const Attempt& attempt) {
  const provider::Reply& reply = attempt.reply;
  const Usage& usage = reply.usage;
  const bool cancelled = attempt.result.end == http::CallEnd::kCancelled;
  const quota::Settlement settlement =
      !cancelled
          ? reply.settlement
          : (attempt.result.sends > 0 ? quota::Settlement::kUnknown : quota::Settlement::kNotSent);
  const quota::Costs actual =
      quota::ActualCosts(attempt.ticket.reserved, usage.prompt_tokens, usage.completion_tokens,
                         model_->charging, usage.cached_tokens);
  const bool throttled =
      reply.penalty == quota::Penalty::Kind::kRate || reply.penalty == quota::Penalty::Kind::kRamp;
  model_->pool->Settle(attempt.ticket, quota::SettlementBy(model_->charging, settlement, throttled),
                       actual);
  if (attempt.result.stamps.sent.has_value()) Observe(attempt);
  if (usage.prompt_tokens.has_value() || usage.completion_tokens.has_value()) {
    model_->estimator->Learn(progress->built.features, usage.prompt_tokens,
                             usage.completion_tokens);
  }
  if (reply.possibly_billed || (cancelled && attempt.result.sends > 0)) {
    ++progress->possibly_billed;
  }
  const http::Stamps& stamps = attempt.result.stamps;
  if (reply.error_class == ErrorClass::kNone && stamps.sent.has_value()) {
    model_->network_us.Record((stamps.end - *stamps.sent) / absl::Microseconds(1));
  }
  if (reply.penalty.has_value()) {
    quota::Penalty penalty;
    penalty.kind = *reply.penalty;
    penalty.dimension = reply.penalty_dimension;
    penalty.retry_after = reply.retry_after;
    penalty.sent_at = stamps.sent.value_or(stamps.queued);
    penalty.text = reply.message;
    model_->pool->Penalize(penalty);
  }
}

// What the answer says about the limits; its figures are of when the provider took the call.
void ItemLoop::Observe(const Attempt& attempt) {
  const provider::RateHeaders& rate = attempt.reply.rate;
  const std::pair<quota::Dimension, const provider::RateHeaders::Limit*> limits[] = {
      {quota::Dimension::kRequests, &rate.requests},
      {quota::Dimension::kTokens, &rate.tokens},
      {quota::Dimension::kInputTokens, &rate.input_tokens},
      {quota::Dimension::kOutputTokens, &rate.output_tokens}};
  for (const auto& [dimension, said] : limits) {
    const std::optional<quota::Observation> observation =
        quota::Observe(quota::LimitWords{dimension, said->limit, said->remaining, said->reset},
                       attempt.ticket.reserved, attempt.ticket.expected,
                       *attempt.result.stamps.sent, attempt.reply.error_class == ErrorClass::kNone);
    if (observation.has_value()) model_->pool->Observe(*observation);
  }
  const std::optional<quota::ThrottleFigures> figures =
      attempt.reply.penalty == quota::Penalty::Kind::kRate
          ? quota::ReadThrottleFigures(attempt.reply.message)
          : std::nullopt;
  if (!figures.has_value()) return;
  const quota::Dimension dimension =
      attempt.reply.penalty_dimension.value_or(quota::Dimension::kTokens);
  model_->pool->Observe(quota::Observe(*figures, dimension, attempt.ticket.reserved,
                                       attempt.ticket.expected, *attempt.result.stamps.sent));
}

ItemOutcome ItemLoop::NotStarted(Progress* progress, StopReason reason) {
  ItemOutcome outcome;
  outcome.kind = ItemOutcome::Kind::kNotStarted;
  outcome.stop = std::move(reason);
  outcome.attempts = progress->attempts;
  outcome.throttled = static_cast<uint32_t>(progress->rule.throttled());
  return outcome;
}

ItemOutcome ItemLoop::Cancelled(Progress* progress, StopReason reason) {
  if (reason.code == StopCode::kDeadline) {
    progress->reply.error_class = ErrorClass::kBatchDeadline;
    progress->reply.message = "the batch's deadline came while the call was under way";
    return Finish(progress);
  }
  ItemOutcome outcome = NotStarted(progress, std::move(reason));
  outcome.kind = ItemOutcome::Kind::kCancelled;
  outcome.error_class = ErrorClass::kCancelled;
  outcome.possibly_billed = progress->possibly_billed;
  return outcome;
}

ItemOutcome ItemLoop::Finish(Progress* progress) {
  const provider::Reply& reply = progress->reply;
  const http::Stamps& stamps = progress->result.stamps;
  const MonoTime now = reactor_->Now();

  ItemOutcome outcome;
  outcome.kind =
      reply.error_class == ErrorClass::kNone ? ItemOutcome::Kind::kOk : ItemOutcome::Kind::kFailed;
  outcome.error_class = reply.error_class;
  outcome.message = ExcerptUtf8(reply.message, kMaxMessageBytes);
  outcome.http_status = reply.http_status;
  outcome.attempts = progress->attempts;
  outcome.throttled = static_cast<uint32_t>(progress->rule.throttled());
  outcome.possibly_billed = progress->possibly_billed;
  outcome.usage = reply.usage;
  ItemTimes& times = outcome.times;
  times.total = now - progress->begun;
  times.queue = stamps.sent.has_value() ? *stamps.sent - progress->begun : times.total;
  if (stamps.sent.has_value()) {
    times.network = stamps.end - *stamps.sent;
    if (stamps.headers.has_value()) times.first_byte = *stamps.headers - *stamps.sent;
    if (progress->built.stream && stamps.first_body.has_value()) {
      times.first_token = *stamps.first_body - *stamps.sent;
    }
  }
  times.connect = stamps.connect;
  times.read_tick = stamps.read_tick;

  ResultLine line;
  line.item = progress->input.item;
  line.row = progress->input.row;
  line.model = model_->label;
  line.custom_id = progress->input.custom_id;
  line.error_class = reply.error_class;
  line.error_message = outcome.message;
  line.http_status = reply.http_status;
  line.request_id = reply.request_id;
  line.body = reply.body;
  line.finish_reason = reply.finish_reason;
  line.expected = progress->input.expected;
  line.attempts = outcome.attempts;
  line.possibly_billed = outcome.possibly_billed;
  line.pass = progress->input.pass;
  line.usage = reply.usage;
  line.times = times;
  line.worker = progress->input.worker;
  line.batch = progress->input.batch;
  line.started = progress->started;
  line.flags = reply.flags;
  outcome.line.reserve(reply.body.size() + 1024);
  AppendResultLine(line, &outcome.line);
  if (outcome.line.size() > progress->input.max_line_bytes) {
    LeaveOutAnswer(progress->input.max_line_bytes, &line, &outcome);
  }
  return outcome;
}

}  // namespace headrace
