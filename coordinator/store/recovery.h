// Opens a run directory and makes of it what RunFiles can append to.
#ifndef HEADRACE_COORDINATOR_STORE_RECOVERY_H_
#define HEADRACE_COORDINATOR_STORE_RECOVERY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/journal.h"
#include "coordinator/store/log_reader.h"
#include "coordinator/store/run_files.h"

namespace headrace {

// Used once, on the stack. Steps: lock; journal; identity; sizes of the logs; newest good snapshot;
// deferrals after it; log lines after it; cut what is torn. Nothing is changed before all of it
// could be read and the identity is the same.
class Recovery {
 public:
  // All outlive the object.
  Recovery(RunFiles* run, RecoveryVisitor* visitor, RecoveryReport* report)
      : run_(run), visitor_(visitor), report_(report) {}

  absl::Status Run(const RunIdentity& identity);

 private:
  absl::Status OpenFiles();
  absl::Status ReadControl();
  absl::Status CheckIdentity(const RunIdentity& identity);
  absl::Status CheckSizes(const LogPosition& durable);
  absl::Status LoadSnapshot();
  absl::StatusOr<std::optional<Snapshot>> ReadSnapshot(const std::string& name);
  absl::Status TellControl();
  absl::Status ScanLogs();
  absl::StatusOr<LogTail> ScanOne(absl::string_view name, File* file, int64_t offset, int64_t lines,
                                  int64_t durable_bytes);
  absl::Status Repair(absl::string_view name, File* file, const LogTail& tail,
                      int64_t durable_bytes);
  static absl::Status WriteAgain(File* file, int64_t from, int64_t to);
  absl::Status KeepTorn(const std::string& path, File* file, int64_t offset, int64_t size);
  absl::Status RemoveLeftovers();
  absl::Status RecordStart(const RunIdentity& identity);
  absl::Status Finish(const RunIdentity& identity);
  std::string Path(absl::string_view name) const;

  RunFiles* const run_;
  RecoveryVisitor* const visitor_;
  RecoveryReport* const report_;
  std::unique_ptr<File> results_;
  std::unique_ptr<File> errors_;
  std::unique_ptr<File> journal_;
  int64_t journal_bytes_ = 0;
  JournalContent control_;
  std::vector<uint64_t> useless_snapshots_;
  LogPosition from_;  // where the snapshot ends, zero without one
  LogTail results_tail_;
  LogTail errors_tail_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RECOVERY_H_
