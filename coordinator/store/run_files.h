// The files of a run directory and the order in which they are written. Synchronous: the writer
// thread owns it.
#ifndef HEADRACE_COORDINATOR_STORE_RUN_FILES_H_
#define HEADRACE_COORDINATOR_STORE_RUN_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/histogram.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/journal.h"
#include "coordinator/store/run_store.h"
#include "coordinator/store/snapshot.h"

namespace headrace {

// Names within the run directory.
inline constexpr char kResultsFile[] = "results.jsonl";
inline constexpr char kErrorsFile[] = "errors.jsonl";
inline constexpr char kJobFile[] = "job.resolved.yaml";
inline constexpr char kLockFile[] = "lock";
inline constexpr char kJournalDir[] = "journal";
inline constexpr char kJournalFile[] = "journal/control.log";

// One file that only grows, with disk space reserved ahead of its end.
class AppendLog {
 public:
  AppendLog(std::unique_ptr<File> file, int64_t size, int64_t reserve_bytes)
      : file_(std::move(file)),
        size_(size),
        kept_(size),
        reserved_to_(size),
        reserve_bytes_(reserve_bytes) {}

  // Makes room for `bytes` more, and, where the disk has it, for many more.
  absl::Status EnsureSpace(int64_t bytes);
  absl::Status Write(absl::string_view data);
  // Does nothing when nothing was written since the last one.
  absl::Status Sync(Histogram* sync_us);
  // An error of Sync() is for good, whatever its code.
  bool sync_failed() const { return sync_failed_; }
  // What was written up to here stays, whatever CutBack() does.
  void Keep() { kept_ = size_; }
  // Undoes what was written since Keep(), also in part, and gives back what was reserved.
  absl::Status CutBack();
  // Gives back what was reserved.
  absl::Status Trim();
  int64_t size() const { return size_; }
  int64_t reserve_bytes() const { return reserve_bytes_; }
  int64_t unsynced_bytes() const { return unsynced_bytes_; }
  File* file() { return file_.get(); }

 private:
  std::unique_ptr<File> file_;
  int64_t size_;
  int64_t kept_;
  int64_t reserved_to_;
  const int64_t reserve_bytes_;
  int64_t unsynced_bytes_ = 0;
  bool sync_failed_ = false;
};

// What one group commit writes.
struct CommitGroup {
  std::string results;  // whole lines with their ends, here and below
  std::string errors;
  std::string journal;  // records (journal.h)

  bool empty() const { return results.empty() && errors.empty() && journal.empty(); }
};

// Crash points of a commit. "Acknowledged" is what an ended Append() promised.
//
//   crash                          on disk afterwards           recovery
//   before the first write         nothing of the group         as before the group
//   in or between the writes       any pages of the group, the  bad lines and frames at the ends
//   are
//                                  rest NUL or missing          cut and kept in *.torn; good lines
//                                                               and deferrals of the group are
//                                                               taken
//   between the syncs              a whole file or two          the same
//   after the syncs, before the    all of it                    outcomes exist that nobody was told
//   acknowledgement                                             of: workers send them again and
//   they
//                                                               are recognised by their item
//   in the write of a snapshot     a temporary file             removed; the older snapshot counts
//   before its directory's sync    the new name or not          either is whole; it stands for
//   lines
//                                                               that were synced before it was
//                                                               begun
//   while the journal is compacted the old journal or the new   they say the same
//   while old snapshots are        two or three snapshots       the newest good one counts
//   removed
//
// Lines and records of one group may survive a crash independently of each other. That is sound:
// all are unacknowledged, an outcome is final whether its item's deferral is known or not, and an
// unused reservation of ids wastes only ids. A deferral is written before the outcome of a later
// pass is, because the caller leases the item again only after the deferral is acknowledged.
// A full disk is no error yet: the files are cut back to where the group began, and the same group
// may be tried again. Any other error of a write, and every error of a sync, ends everything: Linux
// marks pages clean after a failed sync, so a second one would lie. Nothing is acknowledged after
// it. The next process may still read from memory what never reached the disk: before it counts on
// the ends of the files, it writes them again (Recovery::WriteAgain).
class RunFiles {
 public:
  // Opens or makes the directory, takes its lock, recovers; errors as RunStore::Open().
  static absl::StatusOr<std::unique_ptr<RunFiles>> Open(const std::string& dir,
                                                        const RunIdentity& identity,
                                                        const RunStoreOptions& options, Disk* disk,
                                                        RecoveryVisitor* visitor,
                                                        RecoveryReport* report);

  // The end of everything that was recovered.
  const LogPosition& recovered_end() const { return recovered_end_; }
  // By the journal, at the same place.
  const PresentWorkers& recovered_workers() const { return recovered_workers_; }
  // Log bytes up to the snapshot that recovery used, and the size of that file; 0 without.
  int64_t snapshot_log_bytes() const { return snapshot_log_bytes_; }
  int64_t snapshot_file_bytes() const { return snapshot_file_bytes_; }

  // Writes the group and syncs it. ResourceExhausted with disk_full() when the disk has no room for
  // it: nothing of it is in the files, and the call may be repeated. Any other error is every later
  // call's.
  absl::Status Commit(const CommitGroup& group, Histogram* sync_us);
  // Whether that is how the last Commit() ended.
  bool disk_full() const { return disk_full_; }
  // Makes `error` every later call's.
  void Fail(absl::Status error);
  const std::string& dir() const { return dir_; }

  // Everything up to `position` has been committed. An error leaves the logs usable. Compacts the
  // journal when it has grown enough.
  absl::StatusOr<int64_t> SaveSnapshot(std::string content, const LogPosition& position);

  // Gives back reserved space and the lock.
  absl::Status Close();

 private:
  friend class Recovery;
  RunFiles(std::string dir, int64_t journal_bytes, Disk* disk)
      : dir_(std::move(dir)), disk_(disk), journal_limit_(journal_bytes) {}

  absl::Status WriteGroup(const CommitGroup& group, Histogram* sync_us);
  absl::Status CutBack();
  absl::Status WriteLines(const std::string& lines, AppendLog* log, Histogram* sync_us);
  absl::Status PruneSnapshots();
  // An error only when nothing can go on; otherwise the journal stays as it is, with a log line.
  absl::Status MaybeCompactJournal();
  absl::Status CompactJournalIfLarge();
  absl::Status ReplaceJournal(absl::string_view content);

  const std::string dir_;
  Disk* const disk_;
  std::unique_ptr<File> lock_;
  std::unique_ptr<AppendLog> results_;
  std::unique_ptr<AppendLog> errors_;
  std::unique_ptr<AppendLog> journal_;
  std::string run_id_;
  LogPosition recovered_end_;
  PresentWorkers recovered_workers_;
  std::vector<uint64_t> snapshots_;  // numbers on disk, ascending
  int64_t snapshot_log_bytes_ = 0;
  int64_t snapshot_file_bytes_ = 0;
  int64_t journal_limit_;  // a journal of this size is compacted
  bool disk_full_ = false;
  absl::Status broken_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RUN_FILES_H_
