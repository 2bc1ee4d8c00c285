#include "coordinator/run/job_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/outcome/result_line.h"

namespace headrace {
namespace {

// Batch ids are made durable in blocks, so that granting waits for no disk.
constexpr uint64_t kIdBlock = 4096;
// Workers are told that the job is done and have this long to leave. Chosen, not measured.
constexpr absl::Duration kFarewell = absl::Seconds(5);

std::vector<double> Weights(const JobConfig& job) {
  std::vector<double> weights;
  for (const ModelJob& model : job.models) weights.push_back(model.weight);
  return weights;
}

}  // namespace

JobRunner::JobRunner(Reactor* reactor, JobConfig job, JobRunnerOptions options,
                     const Dataset* dataset, BlockingThread* dataset_thread, RunStore* store,
                     JobState* state)
    : reactor_(reactor),
      job_(std::move(job)),
      options_(std::move(options)),
      store_(store),
      state_(state),
      durable_(*state),
      totals_(job_),
      turns_(Weights(job_)),
      held_(job_.models.size()),
      next_batch_(options_.first_batch),
      reserved_batches_(options_.first_batch),
      ended_(reactor),
      work_(reactor, StopToken()),
      streams_(reactor, StopToken()) {
  const auto depth = static_cast<size_t>(2 * job_.batch_size);
  for (size_t i = 0; i < job_.models.size(); ++i) {
    Feed::Hooks hooks;
    hooks.on_ready = [this] { Advance(); };
    hooks.on_bad_row = [this](v1::Item item, std::string error) {
      OnBadRow(std::move(item), error);
    };
    hooks.on_error = [this](absl::Status status) {
      Stop("error", ExitCode::kError,
           absl::StrCat("the dataset cannot be read: ", status.message()));
    };
    feeds_.push_back(std::make_unique<Feed>(ModelIndex(static_cast<uint32_t>(i)), depth, dataset,
                                            state_, dataset_thread, &work_, std::move(hooks)));
  }
}

JobRunner::~JobRunner() = default;

std::vector<const WorkerSession*> JobRunner::sessions() const {
  std::vector<const WorkerSession*> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  return all;
}

void JobRunner::AddStream(std::unique_ptr<CoordinatorStream> stream) {
  SessionHost* host = this;
  auto session = std::make_unique<WorkerSession>(reactor_, SessionId(next_session_++),
                                                 std::move(stream), options_.session, host);
  streams_.Spawn(RunSession(this, std::move(session)));
}

Task<void> JobRunner::RunSession(JobRunner* self, std::unique_ptr<WorkerSession> session) {
  co_await session->Run(self->close_sessions_.token());
}

Task<JobEnd> JobRunner::Run() {
  CheckBudget();
  Advance();
  co_await ended_.Wait(StopToken());
  work_.RequestStop({StopCode::kOwnerDone, "the job has ended"});
  co_await work_.Join();

  for (const auto& [id, session] : sessions_) SendJobDone(session);
  const MonoTime patience = reactor_->Now() + kFarewell;
  while (streams_.live() > 0 && reactor_->Now() < patience) {
    // The last session ends this wait; the steps only bound it.
    Sleep step(reactor_, absl::Milliseconds(2), StopToken());
    co_await step;
  }
  // A stop that came when the last items were under way has stopped nothing.
  const bool all_written = state_->done() && !write_failed_;
  if (stop_.has_value() && !all_written) co_return *stop_;
  JobEnd end{"complete", ExitCode::kOk, ""};
  if (TooManyFailed(state_->failed())) {
    end.exit_code = ExitCode::kTooManyFailures;
    end.reason = absl::StrCat(state_->failed(), " of ", state_->total(), " items failed");
  }
  co_return end;
}

Task<void> JobRunner::CloseSessions() {
  close_sessions_.RequestStop({StopCode::kShutdown, "the coordinator ends"});
  co_await streams_.WaitIdle();
}

Task<void> JobRunner::Shutdown() {
  co_await CloseSessions();
  co_await streams_.Join();
}

bool JobRunner::TooManyFailed(int64_t failed) const {
  const FailureLimit& limit = job_.max_failed;
  if (!limit.share.has_value()) return failed > limit.count;
  return static_cast<double>(failed) > *limit.share * static_cast<double>(state_->total());
}

void JobRunner::Stop(std::string state, ExitCode exit_code, std::string reason) {
  if (stop_.has_value() || ended_.is_set()) return;
  HR_LOG(kWarning) << "stopping: " << reason;
  stop_ = JobEnd{std::move(state), exit_code, std::move(reason)};
  for (const auto& [id, session] : sessions_) {
    v1::CoordinatorMessage message;
    message.mutable_drain()->set_reason(stop_->reason);
    session->Send(std::move(message));
  }
  Advance();
}

// ---------------------------------------------------------------------------------------------
// Sessions

void JobRunner::OnSessionOpen(WorkerSession* session) {
  sessions_[session->id()] = session;
  v1::CoordinatorMessage message;
  *message.mutable_job() = ToJobSpec(job_, options_);
  session->Send(std::move(message));
  if (ended_.is_set()) SendJobDone(session);
}

void JobRunner::SendJobDone(WorkerSession* session) {
  v1::CoordinatorMessage message;
  message.mutable_job_done()->set_job_id(options_.job_id);
  session->Send(std::move(message));
}

void JobRunner::OnCredits(WorkerSession* session) { PumpGrants(); }

void JobRunner::OnBeat(WorkerSession* session, const v1::Beat& beat) {
  const MonoTime expiry = reactor_->Now() + options_.session.lease;
  for (const v1::HeldBatch& held : beat.held()) {
    leases_.Renew(BatchId(held.batch_id()), Epoch(held.epoch()), expiry);
  }
}

void JobRunner::OnSessionClosed(WorkerSession* session) {
  sessions_.erase(session->id());
  for (BatchId batch : leases_.OfSession(session->id())) {
    const LeaseTable::Lease* lease = leases_.Find(batch);
    const size_t model = lease->grant.model();
    GiveBack(model, leases_.Remove(batch, Epoch(lease->grant.epoch())));
  }
  Advance();
}

// ---------------------------------------------------------------------------------------------
// Grants

bool JobRunner::Grantable(size_t model, uint64_t credits) const {
  const Feed& feed = *feeds_[model];
  if (credits == 0 || feed.ready() == 0) return false;
  const size_t wanted =
      std::min<size_t>({static_cast<size_t>(job_.batch_size), static_cast<size_t>(credits)});
  // A part of a batch goes out only when no more rows are on their way.
  return feed.ready() >= wanted || feed.dry();
}

void JobRunner::PumpGrants() {
  if (stop_.has_value()) return;
  for (const auto& [id, session] : sessions_) {
    auto credits = [this, asker = session](size_t model) {
      return asker->credits(options_.job_id, static_cast<uint32_t>(model));
    };
    while (true) {
      const std::optional<size_t> model =
          turns_.Next([this, &credits](size_t i) { return Grantable(i, credits(i)); });
      if (!model.has_value()) break;
      if (next_batch_ >= reserved_batches_) {
        if (!std::exchange(reserving_, true)) work_.Spawn(ReserveIds(this));
        return;
      }
      v1::Grant grant = MakeGrant(*model, std::min<size_t>(credits(*model), job_.batch_size));
      turns_.Serve(*model, grant.items_size());
      leases_.Add(session->id(), grant, reactor_->Now() + options_.session.lease);
      session->SendGrant(std::move(grant));
    }
  }
}

v1::Grant JobRunner::MakeGrant(size_t model, size_t max_items) {
  v1::Grant grant;
  grant.set_batch_id(next_batch_.value());
  next_batch_ = BatchId(next_batch_.value() + 1);
  grant.set_epoch(1);
  grant.set_job_id(options_.job_id);
  grant.set_model(static_cast<uint32_t>(model));
  grant.set_pass(feeds_[model]->pass());
  grant.set_ttl_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.session.lease)));
  for (v1::Item& item : feeds_[model]->Take(max_items)) *grant.add_items() = std::move(item);
  return grant;
}

Task<void> JobRunner::ReserveIds(JobRunner* self) {
  const BatchId up_to(self->next_batch_.value() + kIdBlock);
  absl::Status status = co_await self->store_->ReserveBatchIds(up_to);
  self->reserving_ = false;
  if (!status.ok()) {
    self->Stop("error", ExitCode::kError, absl::StrCat("the journal: ", status.message()));
    co_return;
  }
  self->reserved_batches_ = up_to;
  self->Advance();
}

void JobRunner::GiveBack(size_t model, std::vector<v1::Item> items) {
  std::vector<v1::Item> open;
  for (v1::Item& item : items) {
    if (!state_->resolved(ItemId(item.item()))) open.push_back(std::move(item));
  }
  totals_.given_back += static_cast<int64_t>(open.size());
  feeds_[model]->GiveBack(std::move(open));
}

// ---------------------------------------------------------------------------------------------
// Results

void JobRunner::OnResults(WorkerSession* session, v1::Results results) {
  Resolved resolved;
  resolved.records.reserve(static_cast<size_t>(results.results_size()));
  for (v1::ItemResult& result : *results.mutable_results()) {
    ResolveResult(std::move(result), &resolved);
  }
  for (const v1::BatchDone& done : results.done()) OnBatchDone(done);
  StartCommit(std::move(resolved), session->id(), results.chunk_seq());
  CheckLimits();
  Advance();
}

void JobRunner::ResolveResult(v1::ItemResult result, Resolved* resolved) {
  const ItemId item(result.item());
  if (result.job_id() != options_.job_id || !state_->valid(item)) {
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
  leases_.Close(BatchId(result.batch_id()), Epoch(result.epoch()), item);
  const size_t model = state_->model(item).value();
  if (GetErrorClassInfo(error_class).stop == StopRule::kModelIfRepeated &&
      state_->ok(state_->model(item)) == 0 && !state_->resolved(item)) {
    Hold(std::move(result));
    return;
  }
  if (error_class == ErrorClass::kNone) ReleaseHeld(model, resolved);
  Accept(std::move(result), resolved);
}

void JobRunner::Accept(v1::ItemResult result, Resolved* resolved) {
  const ItemId item(result.item());
  const ErrorClass error_class = ErrorClassFromWire(result.error_class());
  const uint32_t model = state_->model(item).value();
  const JobState::Verdict verdict = state_->Resolve(item, error_class);
  if (verdict == JobState::Verdict::kSuperseded) {
    ++totals_.superseded;
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

void JobRunner::Hold(v1::ItemResult result) {
  const size_t model = state_->model(ItemId(result.item())).value();
  std::vector<Held>& held = held_[model];
  held.push_back({std::move(result)});
  if (static_cast<int>(held.size()) < options_.config_errors_to_stop) return;
  Stop("stopped", ExitCode::kUsage,
       absl::StrCat("model ", job_.models[model].label, ": ", held.size(),
                    " items failed with a configuration error and none succeeded; they stay "
                    "unattempted. The last one: ",
                    held.back().result.message()));
}

void JobRunner::ReleaseHeld(size_t model, Resolved* resolved) {
  std::vector<Held> held = std::move(held_[model]);
  held_[model].clear();
  for (Held& h : held) Accept(std::move(h.result), resolved);
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
  if (!resolved.records.empty() || !resolved.deferred.empty()) {
    StartCommit(std::move(resolved), SessionId(0), 0);
  }
}

void JobRunner::OnBatchDone(const v1::BatchDone& done) {
  const BatchId batch(done.batch_id());
  const LeaseTable::Lease* lease = leases_.Find(batch);
  if (lease == nullptr || lease->grant.epoch() != done.epoch()) return;
  const size_t model = lease->grant.model();
  GiveBack(model, leases_.Remove(batch, Epoch(done.epoch())));
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

void JobRunner::OnBadRow(v1::Item item, const std::string& error) {
  ResultLine line;
  line.item = ItemId(item.item());
  line.row = RowIndex(item.row());
  const uint32_t model = state_->model(line.item).value();
  line.model = job_.models[model].label;
  line.custom_id = item.custom_id();
  line.error_class = ErrorClass::kBadRow;
  line.error_message = error;
  line.pass = feeds_[model]->pass();
  line.started = reactor_->WallNow();
  v1::ItemResult result;
  result.set_job_id(options_.job_id);
  result.set_item(item.item());
  result.set_error_class(static_cast<uint32_t>(ErrorClass::kBadRow));
  result.set_prompt_tokens(-1);
  result.set_completion_tokens(-1);
  result.set_cached_tokens(-1);
  result.set_first_token_us(-1);
  AppendResultLine(line, result.mutable_line());
  Resolved resolved;
  Accept(std::move(result), &resolved);
  StartCommit(std::move(resolved), SessionId(0), 0);
  CheckLimits();
}

void JobRunner::StartCommit(Resolved resolved, SessionId session, uint64_t seq) {
  ++commits_under_way_;
  work_.Spawn(Commit(this, std::move(resolved), session, seq));
}

Task<void> JobRunner::Commit(JobRunner* self, Resolved resolved, SessionId session, uint64_t seq) {
  absl::Status status;
  if (!resolved.records.empty() || !resolved.deferred.empty()) {
    status = co_await self->store_->Append(std::move(resolved.records), resolved.deferred);
  }
  --self->commits_under_way_;
  if (!status.ok()) {
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
  auto it = self->sessions_.find(session);
  if (it != self->sessions_.end()) it->second->ChunkDurable(seq);
  if (self->store_->snapshot_wanted() && !std::exchange(self->saving_, true)) {
    self->work_.Spawn(SaveSnapshot(self));
  }
  self->Advance();
}

Task<void> JobRunner::SaveSnapshot(JobRunner* self) {
  absl::Status status = co_await self->store_->SaveSnapshot(self->durable_.Snapshot());
  self->saving_ = false;
  if (!status.ok()) HR_LOG(kWarning) << "no snapshot was saved: " << status.message();
}

// ---------------------------------------------------------------------------------------------
// Ends

void JobRunner::CheckBudget() {
  if (job_.max_cost_usd <= 0 || options_.spent_usd + totals_.cost_usd < job_.max_cost_usd) return;
  Stop("stopped", ExitCode::kBudget,
       absl::StrFormat("the budget of $%.2f is used up; raise max_cost to go on",
                       job_.max_cost_usd));
}

void JobRunner::CheckLimits() {
  CheckBudget();
  if (job_.on_failure == OnFailure::kCollect) return;
  const int64_t failed = state_->failed() + state_->deferred();
  if (job_.on_failure == OnFailure::kFailFast ? failed > 0 : TooManyFailed(failed)) {
    Stop("stopped", ExitCode::kTooManyFailures, absl::StrCat(failed, " items failed"));
  }
}

void JobRunner::Advance() {
  if (ended_.is_set()) return;
  if (!stop_.has_value()) {
    for (const std::unique_ptr<Feed>& feed : feeds_) feed->Refill();
    PumpGrants();
    ReleaseHeldAtEnd();
  }
  const bool quiet = commits_under_way_ == 0 && leases_.size() == 0;
  if (quiet && (state_->done() || stop_.has_value())) ended_.Set();
}

}  // namespace headrace
