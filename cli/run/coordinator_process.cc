#include "cli/run/coordinator_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/run/dataset_copy.h"
#include "cli/run/run_report.h"
#include "cli/run/signals.h"
#include "cli/version.h"
#include "common/async/blocking_thread.h"
#include "common/async/epoll_reactor.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/jobs/job_table.h"
#include "coordinator/store/disk.h"

namespace headrace {
namespace {

// A live view is redrawn, and health told, this often; the views choose what they show.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);
// Workers are told that the job is over and have this long to leave. Chosen, not measured.
constexpr absl::Duration kFarewell = absl::Seconds(5);
// A worker beats at least this many times a lease, so that some lost beats lose no lease.
constexpr int kBeatsPerLease = 5;
constexpr absl::Duration kMaxBeat = absl::Seconds(1);

SessionOptions SessionOptionsOf(const CoordinatorProcessOptions& options,
                                const std::string& boot_id) {
  SessionOptions session;
  session.lease = options.lease;
  session.beat = std::min(options.lease / kBeatsPerLease, kMaxBeat);
  session.silence = options.lease;
  session.boot_id = boot_id;
  return session;
}

// What lives while the process serves; everything runs on its reactor.
class Process {
 public:
  Process(const CoordinatorProcessOptions& options, EpollReactor* reactor, std::string boot_id)
      : options_(options),
        reactor_(reactor),
        helper_(reactor),
        coordinator_(reactor, SessionOptionsOf(options, boot_id)),
        stop_asked_(reactor) {}

  Coordinator* coordinator() { return &coordinator_; }

  // Runs `run`, or the submitted jobs when it is nullptr.
  Task<void> Main(JobTable* table, std::unique_ptr<JobRun> run, absl::StatusOr<ExitCode>* result) {
    table_ = table;
    StopCallback on_failed;
    on_failed.Arm(
        table->failed(), [](void* self) { static_cast<Process*>(self)->stop_asked_.Set(); }, this);
    // Workers that an earlier process knew may come at once: their jobs must be here by then.
    if (run == nullptr) co_await table->Start();
    const absl::Status serving = Serve();
    if (serving.ok()) {
      TaskScope watch(reactor_, StopToken());
      watch.Spawn(Watch(this, run == nullptr ? 0 : kOnlyJob));
      if (run == nullptr) {
        *result = co_await ServeJobs();
      } else {
        *result = co_await RunOne(std::move(run));
      }
      end_watch_.RequestStop(StopCode::kOwnerDone);
      co_await watch.Join();
    } else {
      *result = serving;
    }
    table->RequestStop("the coordinator ends");
    co_await table->Join();
    co_await coordinator_.CloseSessions("the coordinator has stopped; it may come back");
    auto stop_server = [this] {
      if (server_ != nullptr) server_->Stop();
      return true;
    };
    co_await helper_.Run(stop_server);
    co_await coordinator_.Shutdown();
  }

  void OnSignal(int count) {
    if (count > 1) {
      // Everything acknowledged is on the disk; the rest comes again with the next start.
      std::fputs("\ninterrupted twice: leaving now; the same command resumes\n", stderr);
      _exit(static_cast<int>(ExitCode::kInterrupted));
    }
    stop_asked_.Set();
    if (table_ != nullptr) {
      table_->RequestStop("interrupted: calls under way may end; the same command resumes");
    }
  }

 private:
  static constexpr uint64_t kOnlyJob = 1;

  absl::Status Serve() {
    HR_ASSIGN_OR_RETURN(
        server_, SessionServer::Start(
                     reactor_, [this](auto stream) { coordinator_.AddStream(std::move(stream)); },
                     table_, options_.server));
    // For scripts that let the port be chosen.
    std::printf("listening on %s\n", server_->address().c_str());
    std::fflush(stdout);
    return absl::OkStatus();
  }

  Task<ExitCode> RunOne(std::unique_ptr<JobRun> run) {
    const JobConfig job = run->job();
    FinishedJob finished = co_await table_->RunOne(std::move(run));
    if (finished.end.state != "interrupted" && finished.end.state != "error") {
      co_await coordinator_.DismissWorkers("the job has ended", kFarewell);
    }
    if (finished.summary.has_value()) summary_ = RenderRunEnd(job, *finished.summary);
    co_return finished.end.exit_code;
  }

  Task<ExitCode> ServeJobs() {
    co_await stop_asked_.Wait(StopToken());
    if (!table_->failed().stopped()) co_return ExitCode::kInterrupted;
    HR_LOG(kError) << "the coordinator ends: " << table_->failed().reason().text
                   << "; workers keep their results for the next start";
    co_return ExitCode::kError;
  }

  // Tells health, and shows the progress of `job` unless that is 0.
  static Task<void> Watch(Process* self, uint64_t job) {
    std::unique_ptr<ProgressView> view =
        ProgressView::Make(job == 0 ? ProgressMode::kNone : self->options_.progress,
                           StderrOutput(self->options_.no_color));
    while (true) {
      self->server_->SetServing(self->table_->handing_out());
      const ProgressSnapshot* progress = self->table_->progress(job);
      if (progress != nullptr) view->Show(*progress);
      Sleep wait(self->reactor_, kProgressInterval, self->end_watch_.token());
      const bool waited = co_await wait;
      if (!waited) break;
    }
    self->server_->SetServing(false);
    const ProgressSnapshot* progress = self->table_->progress(job);
    if (progress != nullptr) view->Show(*progress);
    view.reset();
    std::printf("%s", self->summary_.c_str());
  }

  const CoordinatorProcessOptions& options_;
  EpollReactor* const reactor_;
  BlockingThread helper_;
  Coordinator coordinator_;
  JobTable* table_ = nullptr;
  std::unique_ptr<SessionServer> server_;
  Event stop_asked_;
  StopSource end_watch_;
  std::string summary_;
};

}  // namespace

absl::StatusOr<ExitCode> RunCoordinator(const CoordinatorProcessOptions& options) {
  ExitOnStopSignals();
  rpc::QuietGrpcLog();
  // Told before a large dataset is read.
  HR_RETURN_IF_ERROR(SessionServer::Check(options.server));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<EpollReactor> reactor, EpollReactor::Make());
  std::unique_ptr<JobRun> run;
  if (options.job.has_value()) {
    JobRunOptions job_options;
    job_options.build = Version();
    job_options.lease = options.lease;
    job_options.copy_dataset = CopyDataset;
    job_options.on_dataset_read = BlockStopSignals;
    HR_ASSIGN_OR_RETURN(
        run, JobRun::Open(*options.job, std::move(job_options), Disk::Real(), reactor.get()));
  } else {
    BlockStopSignals();
  }
  Random random(RandomSeed());
  const std::string boot_id = absl::StrCat(absl::Hex(random(), absl::kZeroPad16));
  Process process(options, reactor.get(), boot_id);
  JobTableOptions table_options;
  if (!options.job.has_value()) table_options.dir = options.dir;
  table_options.boot_id = boot_id;
  table_options.build = Version();
  table_options.lease = options.lease;
  table_options.copy_dataset = CopyDatasetUnless;
  HR_ASSIGN_OR_RETURN(
      std::unique_ptr<JobTable> table,
      JobTable::Open(table_options, Disk::Real(), reactor.get(), process.coordinator()));
  HR_ASSIGN_OR_RETURN(
      std::unique_ptr<SignalWatch> signals,
      SignalWatch::Start(reactor.get(), [&process](int count) { process.OnSignal(count); }));
  absl::StatusOr<ExitCode> result = ExitCode::kError;
  reactor->Run(process.Main(table.get(), std::move(run), &result));
  return result;
}

}  // namespace headrace
