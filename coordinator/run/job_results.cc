// Results in, lines out: what each result means, and the commit that makes it durable.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/outcome/result_line.h"
#include "coordinator/run/job_runner.h"

namespace headrace {

void JobRunner::OnResults(WorkerKey worker, v1::Results results, bool fresh,
                          absl::AnyInvocable<void()> durable) {
  if (write_failed_) return;
  const Origin origin{worker, fresh};
  Resolved resolved;
  resolved.records.reserve(static_cast<size_t>(results.results_size()));
  for (v1::ItemResult& result : *results.mutable_results()) {
    ResolveResult(std::move(result), origin, &resolved);
  }
  for (const v1::ReturnedItems& returned : results.returned()) OnReturned(returned);
  for (const v1::BatchDone& done : results.done()) OnBatchDone(done);
  StartCommit(std::move(resolved), std::move(durable));
  CheckLimits();
  Advance();
}

void JobRunner::ResolveResult(v1::ItemResult result, Origin origin, Resolved* resolved) {
  const ItemId item(result.item());
  if (!state_->valid(item)) {
    HR_LOG(kWarning) << "a result of an unknown item " << item << " was dropped";
    return;
  }
  const ErrorClass error_class = ErrorClassFromWire(result.error_class());
  if (error_class == ErrorClass::kCancelled) {
    // Not an outcome: the item stays open in its lease and comes back with the batch's end.
    ++totals_.cancelled;
    totals_.possibly_billed += result.possibly_billed();
    return;
  }
  const size_t model = state_->model(item).value();
  const bool leased = leases_.Close(BatchId(result.batch_id()), Epoch(result.epoch()), item);
  if (!leased && error_class != ErrorClass::kNone) {
    // A late failure proves nothing while somebody else has the item.
    if (origin.fresh) totals_.CountSuperseded(job_, static_cast<uint32_t>(model), result);
    return;
  }
  if (!leased && !state_->resolved(item)) CancelElsewhere(item);
  const StopRule stop = GetErrorClassInfo(error_class).stop;
  if ((stop == StopRule::kModelIfRepeated || stop == StopRule::kModelAtOnce) &&
      state_->ok(state_->model(item)) == 0 && !state_->resolved(item)) {
    Hold(std::move(result), origin);
    return;
  }
  if (error_class == ErrorClass::kNone) ReleaseHeld(model, resolved);
  Accept(std::move(result), origin, resolved);
}

void JobRunner::Accept(v1::ItemResult result, Origin origin, Resolved* resolved) {
  const ItemId item(result.item());
  const ErrorClass error_class = ErrorClassFromWire(result.error_class());
  const uint32_t model = state_->model(item).value();
  const JobState::Verdict verdict = state_->Resolve(item, error_class);
  if (verdict == JobState::Verdict::kSuperseded) {
    if (origin.fresh) totals_.CountSuperseded(job_, model, result);
    return;
  }
  totals_.Count(job_, model, result, verdict != JobState::Verdict::kDeferred);
  if (verdict == JobState::Verdict::kDeferred) {
    DeferredItem record;
    record.item = item;
    record.error_class = error_class;
    record.passes = state_->failed_passes(item);
    record.attempts = result.attempts();
    resolved->deferred.push_back(record);
    return;
  }
  LogRecord record;
  record.file = verdict == JobState::Verdict::kOk ? LogFile::kResults : LogFile::kErrors;
  record.line = std::move(*result.mutable_line());
  resolved->records.push_back(std::move(record));
  resolved->outcomes.emplace_back(item, error_class);
}

void JobRunner::Hold(v1::ItemResult result, Origin origin) {
  const size_t model = state_->model(ItemId(result.item())).value();
  std::vector<Held>& held = held_[model];
  const ErrorClass error_class = ErrorClassFromWire(result.error_class());
  held.push_back({std::move(result), origin});
  // The job's own schema fails every item. In a batch file each row has one of its own.
  const bool at_once = GetErrorClassInfo(error_class).stop == StopRule::kModelAtOnce &&
                       dataset_format_ != DatasetFormat::kOpenAiBatch;
  if (!at_once && static_cast<int>(held.size()) < options_.config_errors_to_stop) return;
  Stop("stopped", ExitCode::kUsage,
       absl::StrCat("model ", job_.models[model].label, ": ", held.size(),
                    " items failed with a configuration error and none succeeded; they stay "
                    "unattempted. The last one: ",
                    held.back().result.message()));
}

void JobRunner::ReleaseHeld(size_t model, Resolved* resolved) {
  std::vector<Held> held = std::move(held_[model]);
  held_[model].clear();
  for (Held& h : held) Accept(std::move(h.result), h.origin, resolved);
}

void JobRunner::ReleaseHeldAtEnd() {
  Resolved resolved;
  for (size_t model = 0; model < held_.size(); ++model) {
    const auto held = static_cast<int64_t>(held_[model].size());
    // Too few items to tell a wrong configuration from bad luck: the failures are outcomes. The
    // next pass waits for them.
    const ModelIndex index(static_cast<uint32_t>(model));
    const bool rest_of_pass_is_done =
        !state_->has_untaken(index) && state_->outstanding(index) == held;
    if (held > 0 && rest_of_pass_is_done) ReleaseHeld(model, &resolved);
  }
  if (!resolved.empty()) StartCommit(std::move(resolved), nullptr);
}

void JobRunner::OnReturned(const v1::ReturnedItems& returned) {
  const BatchId batch(returned.batch_id());
  split_asked_.erase(batch);
  const LeaseTable::Lease* lease = leases_.Find(batch);
  if (lease == nullptr) return;
  const bool has_texts = lease->has_texts;
  v1::Grant grant;
  grant.set_model(lease->grant.model());
  const std::vector<uint64_t> ids(returned.items().begin(), returned.items().end());
  std::vector<v1::Item> items = leases_.RemoveItems(batch, Epoch(returned.epoch()), ids);
  if (items.empty()) return;
  ++totals_.split_batches;
  GiveBack(grant, has_texts, std::move(items));
}

void JobRunner::OnBatchDone(const v1::BatchDone& done) {
  const BatchId batch(done.batch_id());
  const LeaseTable::Lease* lease = leases_.Find(batch);
  if (lease == nullptr || lease->grant.epoch() != done.epoch()) return;
  const size_t model = lease->grant.model();
  EndLease(batch, Epoch(done.epoch()));
  const auto code = static_cast<StopCode>(done.stop_code());
  if (code == StopCode::kAccountStop || code == StopCode::kConfigStop) {
    const ErrorClass error_class = ErrorClassFromWire(done.stop_class());
    const ExitCode exit_code = error_class == ErrorClass::kAuth      ? ExitCode::kCredentials
                               : error_class == ErrorClass::kConfig  ? ExitCode::kUsage
                               : error_class == ErrorClass::kConnect ? ExitCode::kError
                                                                     : ExitCode::kBudget;
    Stop("stopped", exit_code,
         absl::StrCat("model ", job_.models[model].label, ": ", ErrorClassName(error_class), ": ",
                      done.reason()));
  } else if (code == StopCode::kPolicy) {
    Stop("stopped", ExitCode::kTooManyFailures, done.reason());
  }
}

void JobRunner::StartCommit(Resolved resolved, absl::AnyInvocable<void()> durable) {
  ++commits_under_way_;
  work_.Spawn(Commit(this, std::move(resolved), std::move(durable)));
}

Task<void> JobRunner::Commit(JobRunner* self, Resolved resolved,
                             absl::AnyInvocable<void()> durable) {
  absl::Status status;
  if (!resolved.empty()) {
    status = co_await self->store_->Append(std::move(resolved.records), resolved.deferred);
  }
  --self->commits_under_way_;
  if (!status.ok() || self->write_failed_) {
    self->write_failed_ = true;
    // Nothing of this chunk is acknowledged; a later start reads what is really on the disk.
    self->Stop("error", ExitCode::kError,
               absl::StrCat("results cannot be written: ", status.message()));
    self->ended_.Set();
    co_return;
  }
  for (const auto& [item, error_class] : resolved.outcomes) {
    self->durable_.RestoreOutcome(item, error_class);
  }
  for (const DeferredItem& item : resolved.deferred) {
    self->durable_.RestoreDeferred(item.item, item.passes);
  }
  if (durable != nullptr) durable();
  if (self->store_->snapshot_wanted() && !std::exchange(self->saving_, true)) {
    self->work_.Spawn(SaveSnapshot(self));
  }
  self->Advance();
}

}  // namespace headrace
