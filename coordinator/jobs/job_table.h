// The jobs of a coordinator that serves: submitted, running, ended. A submitted job is remembered
// on the disk until it has ended, so that a coordinator that starts again goes on with it.
//
//   DIR/jobs/<id>.yaml    a submitted job, as it was finished (without secrets)
//   DIR/jobs/<id>.ended   how it ended; a job without this file runs again with the next start
//   DIR/<name>/           its run directory
#ifndef HEADRACE_COORDINATOR_JOBS_JOB_TABLE_H_
#define HEADRACE_COORDINATOR_JOBS_JOB_TABLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/async/blocking_thread.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/jobs/job_run.h"
#include "coordinator/operator/operator.h"
#include "coordinator/progress/progress_meter.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/summary.h"

namespace headrace {

struct JobTableOptions {
  std::string dir;  // empty: jobs come by RunOne() only, and none can be submitted
  std::string boot_id;
  std::string build;
  absl::Duration lease = absl::Seconds(60);
  // See JobRunOptions. Is called on a thread of the table's own, and ends soon, with Cancelled,
  // once `give_up` is true.
  std::function<absl::StatusOr<DatasetJob>(const std::atomic<bool>& give_up,
                                           const DatasetJob& dataset, const std::string& dir)>
      copy_dataset;
};

struct FinishedJob {
  JobEnd end;
  std::optional<RunSummary> summary;  // absent when it could not be written
};

class JobTable final : public Operator {
 public:
  // Takes the directory and reads which jobs have not ended. Blocking. FailedPrecondition when
  // another coordinator has it. `coordinator` and `disk` outlive it.
  static absl::StatusOr<std::unique_ptr<JobTable>> Open(JobTableOptions options, Disk* disk,
                                                        Reactor* reactor, Coordinator* coordinator);
  ~JobTable() override;

  // Goes on with the jobs that have not ended, and ends when each has its dataset read and its
  // directory recovered: from then on the sessions of workers may be served. One that cannot be
  // opened is listed as ended with the reason.
  Task<void> Start();
  // Instead of Start(): runs one job, which is not remembered on the disk, to its end.
  Task<FinishedJob> RunOne(std::unique_ptr<JobRun> run);
  // No job waits for workers of an earlier start, or for room on the disk.
  bool handing_out() const;

  // Stops every job, to go on with the next start; no more are taken. Idempotent.
  void RequestStop(const std::string& reason);
  // Waits for the ends of all jobs. After RequestStop(); the last call.
  Task<void> Join();
  // The last sample of a job's progress, a few a second. nullptr for an unknown job.
  const ProgressSnapshot* progress(uint64_t job_id) const;
  // Stopped when a job could not write to the disk: the process should end, and be started again.
  StopToken failed() { return failed_.token(); }

  // Operator
  Task<absl::StatusOr<v1::SubmitJobResponse>> Submit(v1::SubmitJobRequest request,
                                                     StopToken stop) override;
  Task<absl::StatusOr<v1::CancelJobResponse>> Cancel(v1::CancelJobRequest request,
                                                     StopToken stop) override;
  absl::StatusOr<v1::GetStatusResponse> Status() override;

 private:
  struct Entry {
    uint64_t id = 0;
    std::string name;
    std::string output_dir;
    std::string yaml;
    std::unique_ptr<JobRun> run;  // while it runs
    std::unique_ptr<ProgressMeter> meter;
    ProgressSnapshot progress;  // the last sample
    bool registered = true;     // on the disk
    bool cancelled = false;
    std::string cancel_reason;
    std::atomic<bool> give_up{false};  // its opening is of no use any more
    std::optional<JobEnd> end;
    std::optional<RunSummary> summary;  // of an unregistered job
  };

  JobTable(JobTableOptions options, Disk* disk, Reactor* reactor, Coordinator* coordinator);
  absl::Status ReadRegister();
  std::string FileOf(uint64_t id, absl::string_view ending) const;
  Entry* FindRunning(absl::string_view name);
  Entry* Find(absl::string_view name_or_id);
  static Task<void> RunEntry(JobTable* self, Entry* entry, std::unique_ptr<JobRun> run);
  static Task<void> SampleLoop(JobTable* self);
  Task<absl::StatusOr<std::unique_ptr<JobRun>>> OpenRun(JobConfig job, Entry* entry);
  static void StopCancelled(const Entry& entry, JobRunner* runner);
  Task<absl::Status> WriteFile(std::string path, std::string content);
  v1::JobStatus StatusOf(const Entry& entry) const;
  v1::WorkerStatus StatusOf(const Coordinator::Worker& worker) const;

  const JobTableOptions options_;
  Disk* const disk_;
  Reactor* const reactor_;
  Coordinator* const coordinator_;
  const MonoTime begun_;
  std::unique_ptr<File> lock_;
  BlockingThread thread_;   // writes the register
  BlockingThread opening_;  // downloads and reads datasets, which may take hours
  std::map<uint64_t, std::unique_ptr<Entry>> jobs_;  // by id
  uint64_t next_id_ = 1;
  bool stopping_ = false;
  StopSource failed_;
  StopSource stop_sampling_;
  TaskScope runs_;
  TaskScope sampling_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOBS_JOB_TABLE_H_
