#include "cli/run/local_run.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "cli/run/dataset_copy.h"
#include "cli/run/local_worker.h"
#include "cli/run/run_report.h"
#include "cli/run/signals.h"
#include "cli/version.h"
#include "common/async/blocking_thread.h"
#include "common/async/epoll_reactor.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/jobs/job_run.h"
#include "coordinator/progress/progress_meter.h"
#include "coordinator/session/service.h"

namespace headrace {
namespace {

// A live view is redrawn this often; the views choose what they show.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(500);
// The worker is told that the run is over and has this long to leave. Chosen, not measured.
constexpr absl::Duration kFarewell = absl::Seconds(5);

SessionOptions LocalSession() {
  SessionOptions session;
  session.max_chunk_bytes = kMaxPartBytes;
  return session;
}

// The parts of one run that live while its reactor does.
struct Run {
  explicit Run(EpollReactor* r) : reactor(r), helper(r), coordinator(r, LocalSession()) {}

  EpollReactor* const reactor;
  BlockingThread helper;
  Coordinator coordinator;
  StopSource ticker_stop;
};

Task<void> ShowProgress(Run* run, const JobRunner* runner, ProgressView* view) {
  ProgressMeter meter(runner, &run->coordinator, run->reactor->Now());
  while (true) {
    view->Show(meter.Sample(run->reactor->Now(), /*finished=*/false));
    Sleep wait(run->reactor, kProgressInterval, run->ticker_stop.token());
    const bool waited = co_await wait;
    if (!waited) break;
  }
  view->Show(meter.Sample(run->reactor->Now(), /*finished=*/true));
}

// The reactor runs until gRPC has ended too: its last callbacks are answered here.
Task<void> Main(Run* run, JobRun* job, LocalWorker* worker, SessionServer* server,
                ProgressView* view, JobEnd* end) {
  TaskScope ticker(run->reactor, StopToken());
  ticker.Spawn(ShowProgress(run, job->runner(), view));
  *end = co_await job->Run();
  co_await run->coordinator.DismissWorkers("the run has ended", kFarewell);
  run->ticker_stop.RequestStop(StopCode::kOwnerDone);
  co_await ticker.Join();
  auto stop_worker = [worker] {
    worker->Stop();
    return true;
  };
  co_await run->helper.Run(stop_worker);
  co_await run->coordinator.CloseSessions("the run has ended");
  auto stop_server = [server] {
    server->Stop();
    return true;
  };
  co_await run->helper.Run(stop_server);
  co_await run->coordinator.Shutdown();
}

void Interrupted(JobRun* job, int count) {
  if (count > 1) {
    // Everything acknowledged is on the disk; the rest is found and cut by the next start.
    std::fputs("\ninterrupted twice: leaving now; the same command resumes\n", stderr);
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  job->runner()->Stop("interrupted", ExitCode::kInterrupted,
                      "interrupted: calls under way may end; the same command resumes");
}

}  // namespace

absl::StatusOr<LocalRunEnd> RunLocally(const LocalRunOptions& options) {
  ExitOnStopSignals();
  HR_ASSIGN_OR_RETURN(std::unique_ptr<EpollReactor> reactor, EpollReactor::Make());
  JobRunOptions job_options;
  job_options.build = Version();
  job_options.record_workers = false;
  job_options.max_item_bytes = kMaxPartBytes;
  job_options.copy_dataset = CopyDataset;
  job_options.on_dataset_read = BlockStopSignals;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<JobRun> job, JobRun::Open(options.job, std::move(job_options),
                                                                Disk::Real(), reactor.get()));
  LocalRunEnd result;
  {
    Run run(reactor.get());
    job->Attach(&run.coordinator);
    HR_ASSIGN_OR_RETURN(std::unique_ptr<SessionServer> server,
                        SessionServer::StartInProcess(reactor.get(), [&run](auto stream) {
                          run.coordinator.AddStream(std::move(stream));
                        }));
    HR_ASSIGN_OR_RETURN(
        std::unique_ptr<SignalWatch> signals,
        SignalWatch::Start(reactor.get(), [&job](int count) { Interrupted(job.get(), count); }));
    WorkerOptions worker_options;
    worker_options.id = "local";
    worker_options.max_in_flight = job->job().max_in_flight;
    worker_options.seed = RandomSeed();
    HR_ASSIGN_OR_RETURN(std::unique_ptr<LocalWorker> worker,
                        LocalWorker::Start(server->InProcessChannel(), worker_options,
                                           options.redis, [&run, &job](absl::Status status) {
                                             if (status.ok()) return;
                                             run.reactor->Post([&job, status] {
                                               job->runner()->Stop("error", ExitCode::kError,
                                                                   std::string(status.message()));
                                             });
                                           }));
    std::unique_ptr<ProgressView> view =
        ProgressView::Make(options.progress, StderrOutput(options.no_color));
    reactor->Run(Main(&run, job.get(), worker.get(), server.get(), view.get(), &result.end));
  }
  HR_ASSIGN_OR_RETURN(result.summary, job->WriteFiles());
  return result;
}

}  // namespace headrace
