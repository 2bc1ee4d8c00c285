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
  if (absl::IsCancelled(status)) {
    return {"cancelled", ExitCode::kInterrupted, std::string(status.message())};
  }
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

Task<absl::StatusOr<std::unique_ptr<JobRun>>> JobTable::OpenRun(JobConfig job, Entry* entry) {
  entry->give_up = stopping_;
  auto open = [this, &job, entry]() -> absl::StatusOr<std::unique_ptr<JobRun>> {
    if (entry->give_up) return absl::CancelledError();
    JobRunOptions options;
    options.job_id = entry->id;
    options.build = options_.build;
    options.lease = options_.lease;
    if (options_.copy_dataset) {
      options.copy_dataset = [this, entry](const DatasetJob& dataset, const std::string& dir) {
        return options_.copy_dataset(entry->give_up, dataset, dir);
      };
    }
    return JobRun::Open(std::move(job), std::move(options), disk_, reactor_);
  };
  absl::StatusOr<std::unique_ptr<JobRun>> run = co_await opening_.Run(open);
  if (stopping_) co_return absl::UnavailableError("the coordinator is being stopped");
  if (entry->cancelled) co_return absl::CancelledError(entry->cancel_reason);
  co_return run;
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
      absl::StatusOr<std::unique_ptr<JobRun>> run = co_await OpenRun(*std::move(job), entry.get());
      status = run.status();
      if (run.ok()) {
        (*run)->Attach(coordinator_);
        runs_.Spawn(RunEntry(this, entry.get(), *std::move(run)));
      }
    }
    if (status.ok() || stopping_) continue;
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
  entry->progress = entry->meter->Sample(self->reactor_->Now(), /*finished=*/false);
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
    entry->give_up = true;
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
  entry->cancel_reason.clear();
  const uint64_t id = entry->id;
  absl::StatusOr<std::unique_ptr<JobRun>> run = co_await OpenRun(job, entry);
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
  if (entry->cancelled) StopCancelled(*entry, (*run)->runner());
  runs_.Spawn(RunEntry(this, entry, *std::move(run)));
  response.set_job_id(id);
  co_return response;
}

void JobTable::StopCancelled(const Entry& entry, JobRunner* runner) {
  runner->Stop("stopped", ExitCode::kInterrupted, entry.cancel_reason);
}

Task<absl::StatusOr<v1::CancelJobResponse>> JobTable::Cancel(v1::CancelJobRequest request,
                                                             StopToken stop) {
  Entry* entry = Find(request.job());
  if (entry == nullptr) {
    co_return absl::NotFoundError(absl::StrCat("no job ", request.job()));
  }
  if (!entry->end.has_value()) {
    entry->cancelled = true;
    entry->cancel_reason = request.reason().empty() ? "cancelled by an operator" : request.reason();
    entry->give_up = true;
    if (entry->run != nullptr) StopCancelled(*entry, entry->run->runner());
  }
  v1::CancelJobResponse response;
  *response.mutable_job() = StatusOf(*entry);
  co_return response;
}

}  // namespace headrace
