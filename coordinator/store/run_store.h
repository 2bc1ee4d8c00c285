// The run directory: append-only result logs that are the sink, a small control journal, and the
// one thread that writes them. Nothing else of the coordinator touches the disk while a job runs.
#ifndef HEADRACE_COORDINATOR_STORE_RUN_STORE_H_
#define HEADRACE_COORDINATOR_STORE_RUN_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/task.h"
#include "common/base/histogram.h"
#include "common/base/ids.h"
#include "common/outcome/error_class.h"
#include "coordinator/store/disk.h"

namespace headrace {

enum class LogFile { kResults, kErrors };

// One finished line (common/outcome/result_line.h), for one of the two logs.
struct LogRecord {
  LogFile file = LogFile::kResults;
  std::string line;  // without line end
};

// An item that failed in a pass and will be run again in a later one. Not a line: only final
// outcomes are lines.
struct DeferredItem {
  ItemId item;
  ErrorClass error_class = ErrorClass::kNone;
  uint32_t passes = 1;    // passes that it has failed in
  uint32_t attempts = 0;  // calls made so far, over all passes
};

// What identifies a run; a later start with another identity is refused with what differs.
struct RunIdentity {
  std::string job_yaml;  // job.resolved.yaml
  std::string dataset_sha256;
  int64_t rows = 0;
  int64_t models = 0;
};

// Told what a run directory holds, before Open() returns: the snapshot, reserved batch ids,
// deferrals, then the lines of results.jsonl and of errors.jsonl, each in order. What the snapshot
// holds may be told again.
class RecoveryVisitor {
 public:
  virtual ~RecoveryVisitor() = default;
  // A durable line. The caller decides what a second line of one item means (first ok wins).
  virtual void OnOutcome(ItemId item, ErrorClass error_class) = 0;
  // Comes before the outcomes. Values, not changes; the last one of an item counts. For an item
  // that already has an outcome it means nothing.
  virtual void OnDeferred(const DeferredItem& item) = 0;
  // The bytes given to the last durable SaveSnapshot(), before anything that came after it.
  virtual absl::Status OnSnapshot(absl::string_view snapshot) = 0;
  // The highest batch id that was ever reserved.
  virtual void OnBatchIdsReserved(BatchId up_to) = 0;
  // Once for each worker process that RecordWorker() made present and nothing made absent since, by
  // id; comes before the outcomes.
  virtual void OnWorker(absl::string_view worker_id, absl::string_view boot_nonce) {}
};

struct RecoveryReport {
  int64_t starts = 0;      // of the run directory, this one included
  absl::Time first_start;  // wall time of the first of them
  bool resumed = false;    // the directory held a run already
  int64_t results = 0;     // durable lines, after recovery
  int64_t errors = 0;
  int64_t torn_bytes = 0;             // cut from the ends of the files and kept in *.torn
  int64_t scanned_bytes = 0;          // of the logs, read beyond the snapshot
  std::vector<std::string> warnings;  // for people: what was cut, which snapshot was not used
};

struct RunStoreOptions {
  absl::Duration commit_interval = absl::Milliseconds(10);  // group commit: time, or
  size_t commit_records = 512;                              // records, or
  size_t commit_bytes = size_t{1} << 20;                    // bytes, whichever comes first
  size_t max_queued_records = 10'000;                       // appenders wait beyond this, or beyond
  size_t max_queued_bytes = size_t{64} << 20;               // this many bytes
  int64_t snapshot_bytes = int64_t{64} << 20;  // a snapshot is wanted after this much log, and
  int64_t log_per_snapshot = 4;                // this many times the size of the last snapshot
  int64_t journal_bytes = int64_t{1} << 20;    // the journal is compacted at a start and at a
                                               // snapshot when it is larger, and twice as large as
                                               // the last time
  // A full disk is waited out: tried again after the first time, then each time after the second,
  // and not longer than the last when the run is to end. Chosen, not measured.
  absl::Duration full_disk_first_retry = absl::Seconds(1);
  absl::Duration full_disk_retry = absl::Seconds(2);
  absl::Duration full_disk_last_wait = absl::Seconds(10);
  bool writer_thread = true;  // false: writes on the reactor's thread, for virtual time
};

struct RunStoreStats {
  int64_t records = 0;
  int64_t bytes = 0;
  int64_t syncs = 0;
  Histogram sync_us;
};

class RunStore {
 public:
  virtual ~RunStore() = default;

  // Creates or reopens the run directory, takes its lock, recovers, and starts the writer thread.
  //   FailedPrecondition  the identity differs (the message says what changed), or another process
  //                       holds the lock
  //   DataLoss            a log is damaged before its end (the message names file and line), or is
  //                       shorter than what was acknowledged (file, both sizes, and what to do)
  //   others              as the disk says
  // Blocking: call it before the reactor runs. `reactor` and `disk` outlive the store.
  static absl::StatusOr<std::unique_ptr<RunStore>> Open(const std::string& dir,
                                                        const RunIdentity& identity,
                                                        const RunStoreOptions& options, Disk* disk,
                                                        Reactor* reactor, RecoveryVisitor* visitor,
                                                        RecoveryReport* report);

  // Appends lines and deferrals; ends when all are durable. Waits while the queue is full, and
  // while the disk is (waiting_for() says so). After any other write error, and after the first
  // sync error, every call fails with that error, and nothing more is acknowledged.
  virtual Task<absl::Status> Append(std::vector<LogRecord> records,
                                    std::vector<DeferredItem> deferred) = 0;

  // Makes ids up to `up_to` used, durably, before any is handed out.
  virtual Task<absl::Status> ReserveBatchIds(BatchId up_to) = 0;

  // Remembers that the worker process (`worker_id`, `boot_nonce`) may hold a batch of this run
  // (`present`), or that it cannot any more: it left cleanly, or lost all that it held. A restarted
  // coordinator waits for those who are present before it gives their items to others. So call it,
  // and wait for its end, before a process gets its first batch. Ends when it is durable; at once
  // when the journal says the same already.
  //
  // A worker id has one process at a time: a new nonce replaces the one before it, and an absence
  // of a replaced process changes nothing. InvalidArgument: a text is longer than kMaxWorkerText.
  virtual Task<absl::Status> RecordWorker(std::string worker_id, std::string boot_nonce,
                                          bool present) = 0;
  static constexpr size_t kMaxWorkerText = 1024;  // bytes; chosen above any host or pod name

  // True when enough log has been written since the last snapshot.
  virtual bool snapshot_wanted() const = 0;
  // `snapshot` holds everything of the Append() calls that have ended; of those under way it may
  // hold any, because recovery tells all of them again after it. So the caller applies what it
  // appended in the step in which Append() ends, before it suspends. An error here leaves the logs
  // as they are and Append() usable. FailedPrecondition while another one is under way.
  virtual Task<absl::Status> SaveSnapshot(std::string snapshot) = 0;

  virtual RunStoreStats stats() const = 0;

  // Not empty while the disk is full: what is waited for, for people, to follow "waiting for":
  // "space on the disk of runs/a: it is full, 4711 bytes wait; free some space, the run goes on by
  // itself".
  virtual std::string waiting_for() const = 0;
  // The run is to end: a full disk is waited out no longer than options.full_disk_last_wait from
  // now on. Then every call fails with ResourceExhausted. For a caller that wants calls under way
  // to end before Close(), which does the same.
  virtual void StopWaitingForSpace() = 0;

  // Writes what is queued, syncs, stops the writer, releases the lock. With a full disk it ends
  // after options.full_disk_last_wait with ResourceExhausted; what was not acknowledged is not in
  // the files then.
  virtual Task<absl::Status> Close() = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RUN_STORE_H_
