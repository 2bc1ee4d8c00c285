#include "coordinator/jobs/job_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/outcome/exit_code.h"

namespace headrace {
namespace {

constexpr absl::string_view kRegisterDir = "jobs";
constexpr absl::string_view kJobEnding = ".yaml";
constexpr absl::string_view kEndEnding = ".ended";
// Rates of jobs come from samples this far apart.
constexpr absl::Duration kSample = absl::Milliseconds(500);
// Ended jobs that status lists; older ones are on the disk. Chosen, not measured.
constexpr size_t kMaxEndedListed = 100;

// The end of a job on one line: state, exit code, reason.
std::string RenderEnd(const JobEnd& end) {
  return absl::StrCat(end.state, "\t", static_cast<int>(end.exit_code), "\t", end.reason, "\n");
}

std::optional<JobEnd> ParseEnd(absl::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::StripSuffix(text, "\n"), absl::MaxSplits('\t', 2));
  int code = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &code)) return std::nullopt;
  return JobEnd{parts[0], static_cast<ExitCode>(code), parts[2]};
}

JobEnd CouldNotBegin(const absl::Status& status) {
  return {"error", ExitCode::kError, std::string(status.message())};
}

// A job that goes on with the next start is not at its end.
bool IsOver(const JobEnd& end) { return end.state != "interrupted" && end.state != "error"; }

}  // namespace

JobTable::JobTable(JobTableOptions options, Disk* disk, Reactor* reactor, Coordinator* coordinator)
    : options_(std::move(options)),
      disk_(disk),
      reactor_(reactor),
      coordinator_(coordinator),
      begun_(reactor->Now()),
      thread_(reactor),
      opening_(reactor),
      runs_(reactor, StopToken()),
      sampling_(reactor, StopToken()) {}

JobTable::~JobTable() = default;

// ---------------------------------------------------------------------------------------------
// The register

std::string JobTable::FileOf(uint64_t id, absl::string_view ending) const {
  return absl::StrCat(options_.dir, "/", kRegisterDir, "/", id, ending);
}

absl::StatusOr<std::unique_ptr<JobTable>> JobTable::Open(JobTableOptions options, Disk* disk,
                                                         Reactor* reactor,
                                                         Coordinator* coordinator) {
  std::unique_ptr<JobTable> table(new JobTable(std::move(options), disk, reactor, coordinator));
  HR_RETURN_IF_ERROR(table->ReadRegister());
  return table;
}

absl::Status JobTable::ReadRegister() {
  if (options_.dir.empty()) return absl::OkStatus();
  const std::string dir = absl::StrCat(options_.dir, "/", kRegisterDir);
  HR_RETURN_IF_ERROR(disk_->MakeDirs(dir));
  HR_ASSIGN_OR_RETURN(lock_, disk_->Lock(absl::StrCat(dir, "/lock")));
  HR_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_->List(dir));
  for (const std::string& name : names) {
    absl::string_view number = name;
    uint64_t id = 0;
    if (!absl::ConsumeSuffix(&number, kJobEnding) || !absl::SimpleAtoi(number, &id)) continue;
    auto entry = std::make_unique<Entry>();
    entry->id = id;
    const std::string path = absl::StrCat(dir, "/", name);
    HR_ASSIGN_OR_RETURN(entry->yaml, disk_->ReadWhole(path));
    // Written by this program: what cannot be read is damage, and no job is dropped silently.
    HR_ASSIGN_OR_RETURN(const JobConfig job, ParseJob(entry->yaml, path));
    entry->name = job.name;
    entry->output_dir = job.output_dir;
    next_id_ = std::max(next_id_, id + 1);
    if (std::find(names.begin(), names.end(), absl::StrCat(id, kEndEnding)) != names.end()) {
      HR_ASSIGN_OR_RETURN(const std::string text, disk_->ReadWhole(FileOf(id, kEndEnding)));
      entry->end = ParseEnd(text).value_or(JobEnd{"ended", ExitCode::kError, ""});
    }
    jobs_[id] = std::move(entry);
  }
  return absl::OkStatus();
}

Task<absl::Status> JobTable::WriteFile(std::string path, std::string content) {
  auto write = [this, &path, &content] { return disk_->WriteWhole(path, content); };
  co_return co_await thread_.Run(write);
}

Task<absl::StatusOr<std::unique_ptr<JobRun>>> JobTable::OpenRun(JobConfig job, uint64_t id) {
  auto open = [this, &job, id] {
    JobRunOptions options;
    options.job_id = id;
    options.build = options_.build;
    options.lease = options_.lease;
    options.copy_dataset = options_.copy_dataset;
    return JobRun::Open(std::move(job), std::move(options), disk_, reactor_);
  };
  co_return co_await opening_.Run(open);
}

// ---------------------------------------------------------------------------------------------
// Runs

Task<void> JobTable::Start() {
  sampling_.Spawn(SampleLoop(this));
  for (auto& [id, entry] : jobs_) {
    if (entry->end.has_value() || stopping_) continue;
    absl::StatusOr<JobConfig> job = ParseJob(entry->yaml, FileOf(id, kJobEnding));
    absl::Status status = job.ok() ? FinishJob(&*job) : job.status();
    if (status.ok()) {
      absl::StatusOr<std::unique_ptr<JobRun>> run = co_await OpenRun(*std::move(job), id);
      status = run.status();
      if (run.ok() && !stopping_) {
        (*run)->Attach(coordinator_);
        runs_.Spawn(RunEntry(this, entry.get(), *std::move(run)));
      }
    }
    if (status.ok()) continue;
    HR_LOG(kError) << "job " << entry->name << " cannot go on: " << status.message();
    entry->end = CouldNotBegin(status);
  }
}

Task<FinishedJob> JobTable::RunOne(std::unique_ptr<JobRun> run) {
  auto entry = std::make_unique<Entry>();
  Entry* const added = entry.get();
  sampling_.Spawn(SampleLoop(this));
  run->Attach(coordinator_);
  added->id = run->runner()->id();
  added->registered = false;
  added->name = run->job().name;
  added->output_dir = run->job().output_dir;
  added->yaml = ToYaml(run->job());
  next_id_ = std::max(next_id_, added->id + 1);
  jobs_[added->id] = std::move(entry);
  co_await RunEntry(this, added, std::move(run));
  FinishedJob finished;
  finished.end = *added->end;
  finished.summary = std::move(added->summary);
  co_return finished;
}

const ProgressSnapshot* JobTable::progress(uint64_t job_id) const {
  const auto it = jobs_.find(job_id);
  return it == jobs_.end() ? nullptr : &it->second->progress;
}

bool JobTable::handing_out() const {
  if (stopping_) return false;
  for (const auto& [id, entry] : jobs_) {
    const JobRunner* runner = entry->run == nullptr ? nullptr : entry->run->runner();
    if (runner == nullptr) continue;
    if (runner->learning() || !runner->store().waiting_for().empty()) return false;
  }
  return true;
}

Task<void> JobTable::RunEntry(JobTable* self, Entry* entry, std::unique_ptr<JobRun> run) {
  entry->run = std::move(run);
  entry->end.reset();
  entry->meter = std::make_unique<ProgressMeter>(entry->run->runner(), self->coordinator_,
                                                 self->reactor_->Now());
  JobEnd end = co_await entry->run->Run();
  entry->progress = entry->meter->Sample(self->reactor_->Now(), /*finished=*/true);
  if (entry->cancelled && end.state == "stopped") end.state = "cancelled";
  if (!entry->run->closed().ok()) {
    end = JobEnd{"error", ExitCode::kError, std::string(entry->run->closed().message())};
  } else {
    // The totals of the run are read again from its files, which takes a while for a large one.
    auto write = [entry] { return entry->run->WriteFiles(); };
    absl::StatusOr<RunSummary> written = co_await entry->run->thread()->Run(write);
    if (written.ok()) {
      if (!entry->registered) entry->summary = *std::move(written);
    } else {
      HR_LOG(kError) << "job " << entry->name << ": " << written.status().message();
      if (end.exit_code == ExitCode::kOk) {
        end = JobEnd{"error", ExitCode::kError, std::string(written.status().message())};
      }
    }
  }
  HR_LOG(kInfo) << "job " << entry->name << " has ended: " << end.state
                << (end.reason.empty() ? "" : ": ") << end.reason;
  if (IsOver(end) && entry->registered) {
    const absl::Status marked =
        co_await self->WriteFile(self->FileOf(entry->id, kEndEnding), RenderEnd(end));
    if (!marked.ok()) HR_LOG(kError) << "job " << entry->name << ": " << marked.message();
  }
  entry->meter.reset();
  entry->run.reset();
  const bool error = end.state == "error";
  entry->end = std::move(end);
  if (error) self->failed_.RequestStop({StopCode::kPolicy, entry->end->reason});
}

Task<void> JobTable::SampleLoop(JobTable* self) {
  while (true) {
    for (auto& [id, entry] : self->jobs_) {
      if (entry->meter == nullptr) continue;
      entry->progress = entry->meter->Sample(self->reactor_->Now(), /*finished=*/false);
    }
    Sleep wait(self->reactor_, kSample, self->stop_sampling_.token());
    const bool waited = co_await wait;
    if (!waited) co_return;
  }
}

void JobTable::RequestStop(const std::string& reason) {
  stopping_ = true;
  for (auto& [id, entry] : jobs_) {
    if (entry->run != nullptr) {
      entry->run->runner()->Stop("interrupted", ExitCode::kInterrupted, reason);
    }
  }
}

Task<void> JobTable::Join() {
  co_await runs_.Join();
  stop_sampling_.RequestStop(StopCode::kShutdown);
  co_await sampling_.Join();
}

// ---------------------------------------------------------------------------------------------
// What operators ask

JobTable::Entry* JobTable::FindRunning(absl::string_view name) {
  for (auto& [id, entry] : jobs_) {
    if (entry->name == name && !entry->end.has_value()) return entry.get();
  }
  return nullptr;
}

JobTable::Entry* JobTable::Find(absl::string_view name_or_id) {
  uint64_t id = 0;
  if (absl::SimpleAtoi(name_or_id, &id) && jobs_.contains(id)) return jobs_[id].get();
  Entry* found = nullptr;  // the newest of its name
  for (auto& [key, entry] : jobs_) {
    if (entry->name == name_or_id) found = entry.get();
  }
  return found;
}

Task<absl::StatusOr<v1::SubmitJobResponse>> JobTable::Submit(v1::SubmitJobRequest request,
                                                             StopToken stop) {
  if (stopping_) co_return absl::UnavailableError("the coordinator is being stopped");
  if (options_.dir.empty()) {
    co_return absl::FailedPreconditionError(
        "this coordinator runs the one job that it was started with; start one without --job to "
        "submit jobs");
  }
  absl::StatusOr<JobConfig> parsed = ParseJob(request.job_yaml(), "job");
  if (!parsed.ok()) co_return parsed.status();
  JobConfig job = *std::move(parsed);
  // Where runs are kept is the coordinator's to say.
  job.output_dir = options_.dir;
  const absl::Status finished = FinishJob(&job);
  if (!finished.ok()) co_return finished;
  if (job.name == kRegisterDir) {
    co_return absl::InvalidArgumentError("job: this name is the coordinator's own; choose another");
  }
  job.output_dir = absl::StrCat(options_.dir, "/", job.name);
  const std::string yaml = ToYaml(job);

  v1::SubmitJobResponse response;
  response.set_output_dir(job.output_dir);
  if (const Entry* running = FindRunning(job.name)) {
    if (running->yaml != yaml) {
      co_return absl::FailedPreconditionError(
          absl::StrCat("a job named ", job.name,
                       " runs already with another content; cancel it, or use another name"));
    }
    response.set_job_id(running->id);
    response.set_existed(true);
    co_return response;
  }
  // An ended job of the same content is resumed under its id: its workers may still know it.
  Entry* entry = Find(job.name);
  if (entry == nullptr || entry->yaml != yaml) {
    auto fresh = std::make_unique<Entry>();
    entry = fresh.get();
    entry->id = next_id_++;
    entry->name = job.name;
    entry->output_dir = job.output_dir;
    entry->yaml = yaml;
    jobs_[entry->id] = std::move(fresh);
  }
  entry->end.reset();
  entry->cancelled = false;
  const uint64_t id = entry->id;
  absl::StatusOr<std::unique_ptr<JobRun>> run = co_await OpenRun(job, id);
  absl::Status status = run.status();
  if (status.ok()) status = co_await WriteFile(FileOf(id, kJobEnding), yaml);
  if (status.ok()) {
    auto forget_end = [this, id] { return disk_->Remove(FileOf(id, kEndEnding)); };
    status = co_await thread_.Run(forget_end);
  }
  if (status.ok() && stopping_) status = absl::UnavailableError("the coordinator is being stopped");
  if (!status.ok()) {
    entry->end = CouldNotBegin(status);
    co_return status;
  }
  (*run)->Attach(coordinator_);
  runs_.Spawn(RunEntry(this, entry, *std::move(run)));
  response.set_job_id(id);
  co_return response;
}

Task<absl::StatusOr<v1::CancelJobResponse>> JobTable::Cancel(v1::CancelJobRequest request,
                                                             StopToken stop) {
  Entry* entry = Find(request.job());
  if (entry == nullptr) {
    co_return absl::NotFoundError(absl::StrCat("no job ", request.job()));
  }
  if (entry->run != nullptr) {
    entry->cancelled = true;
    entry->run->runner()->Stop(
        "stopped", ExitCode::kInterrupted,
        request.reason().empty() ? "cancelled by an operator" : request.reason());
  }
  v1::CancelJobResponse response;
  *response.mutable_job() = StatusOf(*entry);
  co_return response;
}

absl::StatusOr<v1::GetStatusResponse> JobTable::Status() {
  v1::GetStatusResponse response;
  response.set_coordinator_boot_id(options_.boot_id);
  response.set_build(options_.build);
  response.set_uptime_ms(absl::ToInt64Milliseconds(reactor_->Now() - begun_));
  response.set_state(stopping_ ? "draining" : "serving");
  size_t ended = 0;
  for (const auto& [id, entry] : jobs_) ended += entry->end.has_value() ? 1 : 0;
  for (const auto& [id, entry] : jobs_) {
    if (entry->end.has_value() && ended-- > kMaxEndedListed) continue;
    *response.add_jobs() = StatusOf(*entry);
  }
  for (const Coordinator::Worker* worker : coordinator_->workers()) {
    *response.add_workers() = StatusOf(*worker);
  }
  return response;
}

v1::JobStatus JobTable::StatusOf(const Entry& entry) const {
  v1::JobStatus status;
  status.set_job_id(entry.id);
  status.set_name(entry.name);
  status.set_output_dir(entry.output_dir);
  status.set_eta_ms(-1);
  const ProgressSnapshot& progress = entry.progress;
  status.set_total(progress.total);
  status.set_ok(progress.ok);
  status.set_failed(progress.failed);
  status.set_deferred(progress.deferred);
  status.set_retries(progress.retries);
  status.set_throttled(progress.throttled);
  status.set_cost_usd(progress.cost_usd.value_or(0));
  if (entry.end.has_value()) {
    status.set_state(entry.end->state);
    status.set_reason(entry.end->reason);
    status.set_exit_code(static_cast<int32_t>(entry.end->exit_code));
    return status;
  }
  if (entry.run == nullptr || entry.run->runner() == nullptr) {
    status.set_state("opening");
    return status;
  }
  const JobRunner& runner = *entry.run->runner();
  status.set_total(runner.state().total());
  status.set_ok(runner.state().ok());
  status.set_failed(runner.state().failed());
  status.set_deferred(runner.state().deferred());
  status.set_items_per_minute(progress.items_per_minute);
  if (progress.eta.has_value()) status.set_eta_ms(absl::ToInt64Milliseconds(*progress.eta));
  status.set_waiting_for(progress.waiting_for);
  status.set_limited_by(progress.limited_by);
  status.set_batches(static_cast<uint32_t>(runner.leases().live()));
  status.set_leased_items(runner.leased_items());
  status.set_superseded(runner.totals().superseded);
  if (runner.stopping().has_value()) {
    status.set_state("stopping");
    status.set_reason(runner.stopping()->reason);
  } else if (runner.learning()) {
    status.set_state("learning");
  } else {
    status.set_state(coordinator_->sessions().empty() ? "waiting" : "running");
  }
  return status;
}

v1::WorkerStatus JobTable::StatusOf(const Coordinator::Worker& worker) const {
  v1::WorkerStatus status;
  status.set_worker_id(worker.name.id);
  status.set_connected(worker.session != nullptr);
  status.set_build(worker.build);
  status.set_max_in_flight(worker.max_in_flight);
  MonoTime heard = worker.last_heard;
  if (worker.session != nullptr) {
    const v1::Beat& beat = worker.session->last_beat();
    heard = worker.session->last_heard();
    status.set_in_flight(beat.in_flight());
    status.set_unacked_bytes(beat.unacked_bytes());
    status.set_peer(worker.session->peer().address);
    status.set_waiting_for(beat.waiting_for());
  }
  status.set_last_heard_ms(absl::ToInt64Milliseconds(reactor_->Now() - heard));
  for (JobRunner* job : coordinator_->jobs()) {
    for (BatchId batch : job->leases().OfWorker(worker.key)) {
      status.set_batches(status.batches() + 1);
      status.set_leased_items(status.leased_items() +
                              static_cast<int64_t>(job->leases().Find(batch)->open.size()));
    }
  }
  return status;
}

}  // namespace headrace
