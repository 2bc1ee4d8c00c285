#include "coordinator/run/job_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/units.h"

namespace headrace {
namespace {

std::vector<double> Weights(const JobConfig& job) {
  std::vector<double> weights;
  for (const ModelJob& model : job.models) weights.push_back(model.weight);
  return weights;
}

}  // namespace

JobRunner::JobRunner(Reactor* reactor, JobConfig job, JobRunnerOptions options,
                     const Dataset* dataset, BlockingThread* dataset_thread, RunStore* store,
                     JobState* state, JobCluster* cluster)
    : reactor_(reactor),
      job_(std::move(job)),
      options_(std::move(options)),
      dataset_format_(dataset->format()),
      store_(store),
      state_(state),
      cluster_(cluster),
      durable_(*state),
      totals_(job_),
      in_flight_(job_, options_.job_id),
      turns_(Weights(job_)),
      held_(job_.models.size()),
      awaited_(options_.awaited_workers.begin(), options_.awaited_workers.end()),
      learning_(!awaited_.empty()),
      learning_until_(reactor->Now() + options_.lease),
      next_batch_(options_.first_batch),
      reserved_batches_(options_.first_batch),
      ended_(reactor),
      work_(reactor, StopToken()) {
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
    feeds_.push_back(std::make_unique<Feed>(ModelIndex(static_cast<uint32_t>(i)), depth,
                                            options_.max_item_bytes, dataset, state_,
                                            dataset_thread, &work_, std::move(hooks)));
  }
}

JobRunner::~JobRunner() = default;

v1::JobSpec JobRunner::Spec() const { return ToJobSpec(job_, options_); }

Task<JobEnd> JobRunner::Run() {
  if (learning_) {
    HR_LOG(kInfo) << job_.name << ": waiting for " << awaited_.size()
                  << " workers of the run's earlier start, "
                  << headrace::FormatDuration(options_.lease) << " at most";
  }
  CheckBudget();
  Advance();
  co_await ended_.Wait(StopToken());
  work_.RequestStop({StopCode::kOwnerDone, "the job has ended"});
  co_await work_.Join();
  if (!write_failed_) co_await ForgetConnectedWorkers();

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

// What is connected at the end holds nothing of the job any more: the next start need not wait for
// it.
Task<void> JobRunner::ForgetConnectedWorkers() {
  TaskScope records(reactor_, StopToken());
  for (const auto& [worker, recorded] : recorded_) {
    if (!cluster_->connected(worker)) continue;
    records.Spawn(RecordWorker(this, worker, names_[worker], /*present=*/false));
  }
  co_await records.Join();
}

void JobRunner::Stop(std::string state, ExitCode exit_code, std::string reason) {
  if (stop_.has_value() || ended_.is_set()) return;
  HR_LOG(kWarning) << job_.name << ": stopping: " << reason;
  stop_ = JobEnd{std::move(state), exit_code, std::move(reason)};
  store_->StopWaitingForSpace();
  v1::CoordinatorMessage message;
  message.mutable_drain()->set_job_id(options_.job_id);
  message.mutable_drain()->set_reason(stop_->reason);
  cluster_->Broadcast(message);
  Advance();
}

void JobRunner::OnPoolState(WorkerKey worker, const v1::PoolState& state) {
  const auto part = in_flight_.OnBeat(reactor_->Now(), worker, state);
  if (part.has_value()) TellPart(*part);
}

void JobRunner::TellPart(const InFlightControl::Part& part) {
  v1::CoordinatorMessage message;
  *message.mutable_in_flight_limit() = part.limit;
  cluster_->Send(part.worker, std::move(message));
}

void JobRunner::Tick() {
  if (ended_.is_set()) return;
  const MonoTime now = reactor_->Now();
  for (const InFlightControl::Part& part : in_flight_.Tick(now)) TellPart(part);
  if (learning_ && now >= learning_until_) {
    EndLearning("the rest have not come within one lease");
  }
  const std::vector<BatchId> expired = leases_.Expire(now);
  if (!expired.empty()) {
    HR_LOG(kWarning) << job_.name << ": the leases of " << expired.size()
                     << " batches expired; they are issued again";
    OnLost(expired);
  }
  Advance();
}

void JobRunner::EndLearning(absl::string_view why) {
  learning_ = false;
  HR_LOG(kInfo) << job_.name << ": going on with " << totals_.adopted_batches
                << " batches of the earlier start: " << why;
  // Whoever has not come by now is waited for by no later start either.
  for (const WorkerName& name : awaited_) {
    work_.Spawn(RecordWorker(this, WorkerKey(0), name, /*present=*/false));
  }
  awaited_.clear();
}

bool JobRunner::TooManyFailed(int64_t failed) const {
  const FailureLimit& limit = job_.max_failed;
  if (!limit.share.has_value()) return failed > limit.count;
  return static_cast<double>(failed) > *limit.share * static_cast<double>(state_->total());
}

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

bool JobRunner::Quiet() const {
  if (commits_under_way_ > 0) return false;
  if (state_->done()) return true;
  if (!stop_.has_value()) return false;
  // A worker that is away keeps its results; it brings them when the run is started again.
  for (const auto& [id, lease] : leases_.all()) {
    if (lease.live && cluster_->connected(lease.worker)) return false;
  }
  return true;
}

void JobRunner::Advance() {
  if (ended_.is_set()) return;
  if (!stop_.has_value()) {
    // What is read ahead is taken, and a worker that brings it along could not go on with it.
    if (!learning_) {
      for (const std::unique_ptr<Feed>& feed : feeds_) feed->Refill();
    }
    cluster_->PumpGrants();
    ReleaseHeldAtEnd();
  }
  if (Quiet()) ended_.Set();
}

Task<void> JobRunner::SaveSnapshot(JobRunner* self) {
  absl::Status status = co_await self->store_->SaveSnapshot(self->durable_.Snapshot());
  self->saving_ = false;
  if (!status.ok()) HR_LOG(kWarning) << "no snapshot was saved: " << status.message();
}

}  // namespace headrace
