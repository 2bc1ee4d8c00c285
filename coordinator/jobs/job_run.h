// A job with all that its run stands on: dataset, run directory, item states, and the runner. From
// the check of the dataset to summary.json.
#ifndef HEADRACE_COORDINATOR_JOBS_JOB_RUN_H_
#define HEADRACE_COORDINATOR_JOBS_JOB_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/blocking_thread.h"
#include "common/async/reactor.h"
#include "common/async/task.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/job/job.h"
#include "coordinator/plan/job_state.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/run/run_summary.h"
#include "coordinator/store/run_store.h"

namespace headrace {

struct JobRunOptions {
  uint64_t job_id = 1;
  std::string build;  // of this program, for summary.json
  absl::Duration lease = absl::Seconds(60);
  bool record_workers = true;  // see JobRunnerOptions, as the next
  size_t max_item_bytes = JobRunnerOptions{}.max_item_bytes;
  // Makes a file in the run directory of a dataset that is a URL, and perhaps one with ".json" at
  // its end, and gives the dataset with its path: the rest of the coordinator speaks no HTTP.
  // Without it, a URL is refused.
  std::function<absl::StatusOr<DatasetJob>(const DatasetJob& dataset, const std::string& dir)>
      copy_dataset;
  // Called when the dataset was read, before the run directory is taken and the first thread
  // starts.
  absl::AnyInvocable<void()> on_dataset_read;
};

class JobRun {
 public:
  // Reads the whole dataset once, and takes and recovers the run directory. `job` is finished
  // (FinishJob). Blocking; not on the reactor's thread once that runs. Errors: as the dataset and
  // RunStore::Open say.
  static absl::StatusOr<std::unique_ptr<JobRun>> Open(JobConfig job, JobRunOptions options,
                                                      Disk* disk, Reactor* reactor);
  ~JobRun();

  // Joins the workers of `coordinator`, which outlives it. Once, before Run().
  void Attach(Coordinator* coordinator);
  // Runs the job, leaves the coordinator, and closes the directory.
  // A job that ends because it is to go on in a later process ("interrupted") or that could not
  // write ("error") keeps what its workers hold for that.
  Task<JobEnd> Run();
  // Writes summary.json and results.csv. After Run(). Blocking.
  absl::StatusOr<RunSummary> WriteFiles() const;

  // nullptr before Attach().
  JobRunner* runner() { return runner_.get(); }
  const JobRunner* runner() const { return runner_.get(); }
  const JobConfig& job() const { return job_; }
  const JobState& state() const { return state_; }
  BlockingThread* thread() { return &thread_; }
  // How the directory was closed; part of the result of Run().
  const absl::Status& closed() const { return closed_; }

 private:
  JobRun(JobConfig job, const JobRunOptions& options, DatasetInfo info, Reactor* reactor);

  const JobConfig job_;
  DatasetInfo info_;  // its order is moved into the state
  Reactor* const reactor_;
  const MonoTime begun_;
  RunFacts facts_;
  JobState state_;
  JobRunnerOptions runner_options_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<RunStore> store_;
  BlockingThread thread_;  // of the dataset's reads
  Coordinator* coordinator_ = nullptr;
  std::unique_ptr<JobRunner> runner_;
  JobEnd end_;
  absl::Status closed_;
};

// The gate of a worker for `job`, when the job leaves it open: the sum of its pools' bounds, at
// most kDefaultMaxInFlight.
inline constexpr int64_t kDefaultMaxInFlight = 2500;
int64_t MaxInFlight(const JobConfig& job);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOBS_JOB_RUN_H_
