#include "coordinator/jobs/job_run.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/quota/knee.h"
#include "coordinator/job/check_job.h"
#include "coordinator/job/schema_check.h"
#include "coordinator/store/run_files.h"

namespace headrace {
namespace {

// Gives the item states what a run directory remembers.
class StateRecovery final : public RecoveryVisitor {
 public:
  StateRecovery(JobState* state, JobRunnerOptions* options) : state_(state), options_(options) {}

  void OnOutcome(ItemId item, ErrorClass error_class) override {
    if (state_->valid(item)) state_->RestoreOutcome(item, error_class);
  }
  void OnDeferred(const DeferredItem& item) override {
    if (state_->valid(item.item)) state_->RestoreDeferred(item.item, item.passes);
  }
  absl::Status OnSnapshot(absl::string_view snapshot) override { return state_->Restore(snapshot); }
  void OnBatchIdsReserved(BatchId up_to) override {
    options_->first_batch = BatchId(up_to.value() + 1);
  }
  void OnWorker(absl::string_view worker_id, absl::string_view boot_nonce) override {
    options_->awaited_workers.push_back({std::string(worker_id), std::string(boot_nonce)});
  }

 private:
  JobState* const state_;
  JobRunnerOptions* const options_;
};

RunIdentity IdentityOf(const JobConfig& job, const DatasetInfo& info) {
  RunIdentity identity;
  identity.job_yaml = ToYaml(job);
  identity.dataset_sha256 = info.sha256;
  identity.rows = info.rows;
  identity.models = static_cast<int64_t>(job.models.size());
  return identity;
}

// The dataset with the path of a file.
absl::StatusOr<DatasetJob> LocalDataset(const JobConfig& job, const JobRunOptions& options,
                                        Disk* disk) {
  if (!IsUrl(job.dataset.path) || !options.copy_dataset) return job.dataset;
  HR_RETURN_IF_ERROR(disk->MakeDirs(job.output_dir));
  return options.copy_dataset(job.dataset, job.output_dir);
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadLocal(const DatasetJob& local, const std::string& dir,
                                                   Disk* disk, DatasetInfo* info) {
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, Dataset::Open(local));
  HR_RETURN_IF_ERROR(disk->MakeDirs(dir));
  HR_ASSIGN_OR_RETURN(*info, dataset->Scan(dir));
  return dataset;
}

// A failure leaves no empty directory, and no copy that would stand in the way of a better one.
absl::StatusOr<std::unique_ptr<Dataset>> ReadDataset(const JobConfig& job,
                                                     const JobRunOptions& options, Disk* disk,
                                                     DatasetInfo* info) {
  const std::string& dir = job.output_dir;
  const absl::StatusOr<DatasetJob> local = LocalDataset(job, options, disk);
  absl::Status status = local.status();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Dataset>> dataset = ReadLocal(*local, dir, disk, info);
    if (dataset.ok()) return dataset;
    status = dataset.status();
    const bool has_begun = access(absl::StrCat(dir, "/", kLockFile).c_str(), F_OK) == 0;
    if (local->path != job.dataset.path && !has_begun) {
      unlink(local->path.c_str());
      unlink(absl::StrCat(local->path, ".json").c_str());
    }
  }
  rmdir(dir.c_str());  // only if it is empty
  return status;
}

JobConfig WithGate(JobConfig job) {
  job.max_in_flight = MaxInFlight(job);
  return job;
}

}  // namespace

int64_t MaxInFlight(const JobConfig& job) {
  if (job.max_in_flight > 0) return job.max_in_flight;
  int64_t sum = 0;
  for (const PoolJob& pool : job.pools) {
    const bool found = FindsInFlight(job, pool);
    if (pool.max_in_flight == 0 && !found) return kDefaultMaxInFlight;
    sum += pool.max_in_flight > 0 ? pool.max_in_flight : quota::KneeFinder::kMost;
  }
  sum = std::min(sum, kMaxInFlight);
  return sum > 0 ? sum : kDefaultMaxInFlight;
}

JobRun::JobRun(JobConfig job, const JobRunOptions& options, DatasetInfo info, Reactor* reactor)
    : job_(WithGate(std::move(job))),
      info_(std::move(info)),
      reactor_(reactor),
      begun_(reactor->Now()),
      state_(info_.rows, static_cast<int64_t>(job_.models.size()), job_.passes,
             RowOrder(std::exchange(info_.order, {}))),
      thread_(reactor) {
  runner_options_.job_id = options.job_id;
  runner_options_.lease = options.lease;
  runner_options_.record_workers = options.record_workers;
  runner_options_.max_item_bytes = options.max_item_bytes;
  facts_.build = options.build;
  facts_.dataset_sha256 = info_.sha256;
  facts_.rows = info_.rows;
  facts_.started = reactor->WallNow();
}

JobRun::~JobRun() = default;

absl::StatusOr<std::unique_ptr<JobRun>> JobRun::Open(JobConfig job, JobRunOptions options,
                                                     Disk* disk, Reactor* reactor) {
  // Jobs that are submitted come this way alone.
  const SchemaFindings schemas = CheckJobSchemas(job, "");
  if (!schemas.errors.empty()) return absl::InvalidArgumentError(schemas.errors.front());
  DatasetInfo info;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, ReadDataset(job, options, disk, &info));
  for (const std::string& problem : info.problems) HR_LOG(kWarning) << problem;
  const RunIdentity identity = IdentityOf(job, info);
  if (options.on_dataset_read != nullptr) options.on_dataset_read();

  std::unique_ptr<JobRun> run(new JobRun(std::move(job), options, std::move(info), reactor));
  run->dataset_ = std::move(dataset);
  StateRecovery recovery(&run->state_, &run->runner_options_);
  RecoveryReport report;
  HR_ASSIGN_OR_RETURN(run->store_, RunStore::Open(run->job_.output_dir, identity, RunStoreOptions{},
                                                  disk, reactor, &recovery, &report));
  for (const std::string& warning : report.warnings) HR_LOG(kWarning) << warning;
  const JobState& state = run->state_;
  if (report.resumed) {
    HR_LOG(kInfo) << "resuming " << run->job_.output_dir << ": " << state.ok() << " ok, "
                  << state.failed() << " failed, " << state.total() - state.ok() - state.failed()
                  << " to do";
  }
  if (run->job_.max_cost_usd > 0 && report.resumed) {
    HR_ASSIGN_OR_RETURN(run->runner_options_.spent_usd, SpentUsd(run->job_));
  }
  run->runner_options_.run_key = absl::StrCat(absl::Hex(absl::ToUnixMicros(report.first_start)),
                                              "-", run->info_.sha256.substr(0, 16));
  run->facts_.first_start = report.first_start;
  run->facts_.starts = report.starts;
  return run;
}

void JobRun::Attach(Coordinator* coordinator) {
  coordinator_ = coordinator;
  runner_ = std::make_unique<JobRunner>(reactor_, job_, runner_options_, dataset_.get(), &thread_,
                                        store_.get(), &state_, coordinator);
  coordinator->AddJob(runner_.get(), job_.job_weight);
}

Task<JobEnd> JobRun::Run() {
  end_ = co_await runner_->Run();
  const bool goes_on = end_.state == "interrupted" || end_.state == "error";
  coordinator_->RemoveJob(runner_.get(), /*over=*/!goes_on);
  facts_.throttled = runner_->totals().throttled;
  facts_.found_in_flight = runner_->found_in_flight();
  closed_ = co_await store_->Close();
  facts_.elapsed = reactor_->Now() - begun_;
  co_return end_;
}

absl::StatusOr<RunSummary> JobRun::WriteFiles() const {
  HR_RETURN_IF_ERROR(closed_);
  return WriteRunFiles(job_, end_, facts_);
}

}  // namespace headrace
