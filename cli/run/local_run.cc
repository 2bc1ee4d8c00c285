#include "cli/run/local_run.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/run/local_worker.h"
#include "cli/run/run_report.h"
#include "cli/run/signals.h"
#include "common/async/blocking_thread.h"
#include "common/async/epoll_reactor.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/progress/progress_meter.h"
#include "coordinator/session/service.h"
#include "coordinator/store/run_store.h"

namespace headrace {
namespace {

// A live view is redrawn this often; the views choose what they show.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);
constexpr int64_t kDefaultMaxInFlight = 2500;
// The worker is told that the run is over and has this long to leave. Chosen, not measured.
constexpr absl::Duration kFarewell = absl::Seconds(5);

// Gives the item states what a run directory remembers.
class StateRecovery final : public RecoveryVisitor {
 public:
  explicit StateRecovery(JobState* state) : state_(state) {}

  void OnOutcome(ItemId item, ErrorClass error_class) override {
    if (state_->valid(item)) state_->RestoreOutcome(item, error_class);
  }
  void OnDeferred(const DeferredItem& item) override {
    if (state_->valid(item.item)) state_->RestoreDeferred(item.item, item.passes);
  }
  absl::Status OnSnapshot(absl::string_view snapshot) override { return state_->Restore(snapshot); }
  void OnBatchIdsReserved(BatchId up_to) override { next_batch = BatchId(up_to.value() + 1); }

  BatchId next_batch{1};

 private:
  JobState* const state_;
};

// The parts of one run that live while its reactor does.
struct Run {
  Run(EpollReactor* r, const JobConfig& job, const JobRunnerOptions& options,
      const Dataset* dataset, RunStore* store, JobState* state)
      : reactor(r),
        dataset_thread(r),
        coordinator(r, SessionOptions{}),
        runner(r, job, options, dataset, &dataset_thread, store, state, &coordinator),
        meter(&runner, &coordinator, r->Now()) {}

  EpollReactor* const reactor;
  BlockingThread dataset_thread;
  Coordinator coordinator;
  JobRunner runner;
  ProgressMeter meter;
  StopSource ticker_stop;
};

Task<void> ShowProgress(Run* run, ProgressView* view) {
  while (true) {
    view->Show(run->meter.Sample(run->reactor->Now(), /*finished=*/false));
    Sleep wait(run->reactor, kProgressInterval, run->ticker_stop.token());
    const bool waited = co_await wait;
    if (!waited) break;
  }
  view->Show(run->meter.Sample(run->reactor->Now(), /*finished=*/true));
}

struct Ending {
  JobEnd end;
  absl::Status closed;
};

// The reactor runs until gRPC has ended too: its last callbacks are answered here.
Task<void> Main(Run* run, RunStore* store, LocalWorker* worker, SessionServer* server,
                ProgressView* view, Ending* ending) {
  TaskScope ticker(run->reactor, StopToken());
  ticker.Spawn(ShowProgress(run, view));
  run->coordinator.AddJob(&run->runner);
  ending->end = co_await run->runner.Run();
  run->coordinator.RemoveJob(&run->runner, /*over=*/false);
  co_await run->coordinator.DismissWorkers("the run has ended", kFarewell);
  run->ticker_stop.RequestStop(StopCode::kOwnerDone);
  co_await ticker.Join();
  auto stop_worker = [worker] {
    worker->Stop();
    return true;
  };
  co_await run->dataset_thread.Run(stop_worker);
  co_await run->coordinator.CloseSessions("the run has ended");
  auto stop_server = [server] {
    server->Stop();
    return true;
  };
  co_await run->dataset_thread.Run(stop_server);
  co_await run->coordinator.Shutdown();
  ending->closed = co_await store->Close();
}

int64_t MaxInFlight(const JobConfig& job) {
  if (job.max_in_flight > 0) return job.max_in_flight;
  int64_t sum = 0;
  for (const PoolJob& pool : job.pools) {
    if (pool.max_in_flight == 0) return kDefaultMaxInFlight;
    sum += pool.max_in_flight;
  }
  return sum > 0 ? sum : kDefaultMaxInFlight;
}

void Interrupted(Run* run, int count) {
  if (count > 1) {
    // Everything acknowledged is on the disk; the rest is found and cut by the next start.
    std::fputs("\ninterrupted twice: leaving now; the same command resumes\n", stderr);
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  run->runner.Stop("interrupted", ExitCode::kInterrupted,
                   "interrupted: calls under way may end; the same command resumes");
}

}  // namespace

absl::StatusOr<LocalRunEnd> RunLocally(const LocalRunOptions& options) {
  ExitOnStopSignals();
  JobConfig job = options.job;
  job.max_in_flight = MaxInFlight(job);
  Disk* disk = Disk::Real();
  HR_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, Dataset::Open(job.dataset));
  HR_RETURN_IF_ERROR(disk->MakeDirs(job.output_dir));
  const absl::StatusOr<DatasetInfo> scanned = dataset->Scan(job.output_dir);
  if (!scanned.ok()) {
    rmdir(job.output_dir.c_str());  // only if it is empty
    return scanned.status();
  }
  const DatasetInfo& info = *scanned;
  for (const std::string& problem : info.problems) HR_LOG(kWarning) << problem;

  // From here on there are threads.
  BlockStopSignals();
  HR_ASSIGN_OR_RETURN(std::unique_ptr<EpollReactor> reactor, EpollReactor::Make());
  JobState state(info.rows, static_cast<int64_t>(job.models.size()), job.passes);
  StateRecovery recovery(&state);
  RunIdentity identity;
  identity.job_yaml = ToYaml(options.job);
  identity.dataset_sha256 = info.sha256;
  identity.rows = info.rows;
  identity.models = static_cast<int64_t>(job.models.size());
  RecoveryReport report;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store,
                      RunStore::Open(job.output_dir, identity, RunStoreOptions{}, disk,
                                     reactor.get(), &recovery, &report));
  for (const std::string& warning : report.warnings) HR_LOG(kWarning) << warning;
  if (report.resumed) {
    HR_LOG(kInfo) << "resuming " << job.output_dir << ": " << state.ok() << " ok, "
                  << state.failed() << " failed, " << state.total() - state.ok() - state.failed()
                  << " to do";
  }

  JobRunnerOptions runner_options;
  runner_options.first_batch = recovery.next_batch;
  runner_options.record_workers = false;
  if (job.max_cost_usd > 0 && report.resumed) {
    HR_ASSIGN_OR_RETURN(runner_options.spent_usd, SpentUsd(job));
  }
  runner_options.run_key = absl::StrCat(absl::Hex(absl::ToUnixMicros(report.first_start)), "-",
                                        info.sha256.substr(0, 16));
  LocalRunEnd result;
  RunFacts facts;
  facts.dataset_sha256 = info.sha256;
  facts.rows = info.rows;
  facts.started = reactor->WallNow();
  facts.first_start = report.first_start;
  facts.starts = report.starts;
  const MonoTime begun = reactor->Now();
  Ending ending;
  {
    Run run(reactor.get(), job, runner_options, dataset.get(), store.get(), &state);
    HR_ASSIGN_OR_RETURN(std::unique_ptr<SessionServer> server,
                        SessionServer::StartInProcess(reactor.get(), [&run](auto stream) {
                          run.coordinator.AddStream(std::move(stream));
                        }));
    HR_ASSIGN_OR_RETURN(
        std::unique_ptr<SignalWatch> signals,
        SignalWatch::Start(reactor.get(), [&run](int count) { Interrupted(&run, count); }));
    WorkerOptions worker_options;
    worker_options.id = "local";
    worker_options.max_in_flight = job.max_in_flight;
    worker_options.seed = RandomSeed();
    HR_ASSIGN_OR_RETURN(
        std::unique_ptr<LocalWorker> worker,
        LocalWorker::Start(server->InProcessChannel(), worker_options, [&run](absl::Status status) {
          if (status.ok()) return;
          run.reactor->Post([&run, status] {
            run.runner.Stop("error", ExitCode::kError, std::string(status.message()));
          });
        }));
    std::unique_ptr<ProgressView> view =
        ProgressView::Make(options.progress, StderrOutput(options.no_color));
    reactor->Run(Main(&run, store.get(), worker.get(), server.get(), view.get(), &ending));
    facts.throttled = run.runner.totals().throttled;
  }
  HR_RETURN_IF_ERROR(ending.closed);
  result.end = std::move(ending.end);
  facts.elapsed = reactor->Now() - begun;
  HR_ASSIGN_OR_RETURN(result.summary, WriteRunFiles(job, result.end, facts));
  return result;
}

}  // namespace headrace
