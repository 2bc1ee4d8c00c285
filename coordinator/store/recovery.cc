#include "coordinator/store/recovery.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "coordinator/store/binary.h"
#include "coordinator/store/identity.h"

namespace headrace {
namespace {

// Reserved ahead of each file's end. Chosen: a second or two of the fastest run for the results.
constexpr int64_t kResultsReserveBytes = int64_t{64} << 20;
constexpr int64_t kErrorsReserveBytes = int64_t{4} << 20;
constexpr int64_t kJournalReserveBytes = int64_t{1} << 20;
// One piece of a torn end when it is copied away.
constexpr int64_t kCopyBytes = int64_t{4} << 20;

std::string NewRunId() {
  std::string id;
  AppendU64(RandomSeed(), &id);
  AppendU64(RandomSeed(), &id);
  return id;
}

}  // namespace

std::string Recovery::Path(absl::string_view name) const {
  return absl::StrCat(run_->dir_, "/", name);
}

absl::Status Recovery::Run(const RunIdentity& identity) {
  HR_RETURN_IF_ERROR(OpenFiles());
  HR_RETURN_IF_ERROR(ReadControl());
  if (control_.has_run) {
    report_->resumed = true;
    HR_RETURN_IF_ERROR(CheckIdentity(identity));
    HR_RETURN_IF_ERROR(CheckSizes(control_.durable));
    HR_RETURN_IF_ERROR(LoadSnapshot());
    HR_RETURN_IF_ERROR(TellControl());
    HR_RETURN_IF_ERROR(ScanLogs());
  }
  return Finish(identity);
}

absl::Status Recovery::OpenFiles() {
  Disk* const disk = run_->disk_;
  HR_RETURN_IF_ERROR(disk->MakeDirs(run_->dir_));
  absl::StatusOr<std::unique_ptr<File>> lock = disk->Lock(Path(kLockFile));
  if (absl::IsFailedPrecondition(lock.status())) {
    return Annotate(lock.status(), absl::StrCat(run_->dir_, " is in use"));
  }
  if (!lock.ok()) return lock.status();
  run_->lock_ = *std::move(lock);
  HR_RETURN_IF_ERROR(disk->MakeDirs(Path(kJournalDir)));
  HR_ASSIGN_OR_RETURN(results_, disk->OpenAppend(Path(kResultsFile)));
  HR_ASSIGN_OR_RETURN(errors_, disk->OpenAppend(Path(kErrorsFile)));
  HR_ASSIGN_OR_RETURN(journal_, disk->OpenAppend(Path(kJournalFile)));
  HR_RETURN_IF_ERROR(disk->SyncDir(Path(kJournalDir)));
  return disk->SyncDir(run_->dir_);
}

// The journal is read whole: 30 bytes for each deferral of an item.
absl::Status Recovery::ReadControl() {
  HR_ASSIGN_OR_RETURN(journal_bytes_, journal_->Size());
  HR_ASSIGN_OR_RETURN(const std::string bytes, journal_->Read(0, journal_bytes_));
  absl::StatusOr<JournalContent> content = ReadJournal(bytes);
  if (!content.ok()) return Annotate(content.status(), Path(kJournalFile));
  control_ = *std::move(content);
  if (control_.has_run) return absl::OkStatus();

  // A crash while the directory was made leaves it without lines.
  HR_ASSIGN_OR_RETURN(const int64_t results_bytes, results_->Size());
  HR_ASSIGN_OR_RETURN(const int64_t errors_bytes, errors_->Size());
  if (results_bytes > 0 || errors_bytes > 0 || control_.last_lsn > Lsn(0)) {
    return absl::FailedPreconditionError(absl::StrCat(
        run_->dir_, " holds results but no journal of theirs (", kJournalFile,
        "): not a run directory, or its journal was removed; choose another directory"));
  }
  return absl::OkStatus();
}

absl::Status Recovery::CheckIdentity(const RunIdentity& identity) {
  const std::vector<std::string> differences = DescribeDifferences(control_.run.identity, identity);
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      run_->dir_, " holds a run of another job or dataset: ", absl::StrJoin(differences, "; "),
      ". Undo the change to resume it, or choose another output directory"));
}

// What was acknowledged and is gone would be paid for again, so that is for a person to decide.
absl::Status Recovery::CheckSizes(const LogPosition& durable) {
  const auto check = [this](absl::string_view name, File* file, int64_t bytes, int64_t lines) {
    HR_ASSIGN_OR_RETURN(const int64_t size, file->Size());
    if (size >= bytes) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(Path(name), " has lost acknowledged results: it has ", size, " bytes, but ",
                     bytes, " bytes (", lines,
                     " lines) were acknowledged. Nothing was changed. Restore the file from "
                     "a copy, or choose another output directory to run every item again"));
  };
  HR_RETURN_IF_ERROR(
      check(kResultsFile, results_.get(), durable.results_bytes, durable.results_lines));
  return check(kErrorsFile, errors_.get(), durable.errors_bytes, durable.errors_lines);
}

absl::Status Recovery::LoadSnapshot() {
  HR_ASSIGN_OR_RETURN(const std::vector<std::string> names, run_->disk_->List(Path(kJournalDir)));
  for (const std::string& name : names) {
    if (const std::optional<uint64_t> number = SnapshotNumber(name)) {
      run_->snapshots_.push_back(*number);
    }
  }
  std::sort(run_->snapshots_.begin(), run_->snapshots_.end());
  for (size_t i = run_->snapshots_.size(); i-- > 0;) {
    const std::string name = SnapshotFileName(run_->snapshots_[i]);
    HR_ASSIGN_OR_RETURN(const std::optional<Snapshot> snapshot, ReadSnapshot(name));
    if (!snapshot.has_value()) {
      // Removed later: when the logs have grown again it could seem to fit.
      useless_snapshots_.push_back(run_->snapshots_[i]);
      continue;
    }
    from_ = snapshot->position;
    run_->snapshot_log_bytes_ = from_.results_bytes + from_.errors_bytes;
    run_->snapshot_file_bytes_ = static_cast<int64_t>(snapshot->content.size());
    return Annotate(visitor_->OnSnapshot(snapshot->content), Path(name));
  }
  return absl::OkStatus();
}

// Nothing, with a warning, when the snapshot does not fit the logs: they are the truth.
absl::StatusOr<std::optional<Snapshot>> Recovery::ReadSnapshot(const std::string& name) {
  const std::string path = absl::StrCat(Path(kJournalDir), "/", name);
  HR_ASSIGN_OR_RETURN(const std::string bytes, run_->disk_->ReadWhole(path));
  absl::StatusOr<Snapshot> snapshot = DecodeSnapshot(bytes);
  absl::Status status = snapshot.status();
  if (status.ok() && snapshot->run_id != control_.run.run_id) {
    status = absl::DataLossError("it belongs to another run");
  }
  if (status.ok() && snapshot->position.lsn > control_.last_lsn) {
    status = absl::DataLossError("the journal is shorter");
  }
  // Only its own run's whole snapshot says anything about the logs.
  if (status.ok()) HR_RETURN_IF_ERROR(CheckSizes(snapshot->position));
  const auto check_log = [&status](absl::string_view log, File* file, int64_t offset) {
    if (!status.ok() || offset == 0) return;
    const absl::StatusOr<std::string> end = file->Read(offset - 1, 1);
    if (!end.ok()) {
      status = end.status();
    } else if (*end != "\n") {
      status = absl::DataLossError(absl::StrCat(log, " was changed"));
    }
  };
  if (status.ok()) check_log(kResultsFile, results_.get(), snapshot->position.results_bytes);
  if (status.ok()) check_log(kErrorsFile, errors_.get(), snapshot->position.errors_bytes);
  if (status.ok()) return std::optional<Snapshot>(*std::move(snapshot));
  if (!absl::IsDataLoss(status)) return status;
  report_->warnings.push_back(absl::StrCat(path, " is not used: ", status.message()));
  return std::optional<Snapshot>();
}

absl::Status Recovery::TellControl() {
  if (control_.batch_ids > BatchId(0)) visitor_->OnBatchIdsReserved(control_.batch_ids);
  for (const auto& [worker_id, boot_nonce] : control_.workers) {
    visitor_->OnWorker(worker_id, boot_nonce);
  }
  for (const JournalContent::Deferred& deferred : control_.deferred) {
    if (deferred.lsn > from_.lsn) visitor_->OnDeferred(deferred.item);
  }
  return absl::OkStatus();
}

absl::Status Recovery::ScanLogs() {
  const LogPosition& durable = control_.durable;
  HR_ASSIGN_OR_RETURN(results_tail_, ScanOne(kResultsFile, results_.get(), from_.results_bytes,
                                             from_.results_lines, durable.results_bytes));
  HR_ASSIGN_OR_RETURN(errors_tail_, ScanOne(kErrorsFile, errors_.get(), from_.errors_bytes,
                                            from_.errors_lines, durable.errors_bytes));
  return absl::OkStatus();
}

absl::StatusOr<LogTail> Recovery::ScanOne(absl::string_view name, File* file, int64_t offset,
                                          int64_t lines, int64_t durable_bytes) {
  absl::StatusOr<LogTail> tail = ScanLog(file, offset, lines, [this](const ResultLineKey& key) {
    visitor_->OnOutcome(key.item, key.error_class);
  });
  if (!tail.ok()) return Annotate(tail.status(), Path(name));
  if (tail->torn_line > 0 && tail->keep_bytes < durable_bytes) {
    return absl::DataLossError(absl::StrCat(Path(name), ": line ", tail->torn_line,
                                            " is damaged, and it was acknowledged"));
  }
  report_->scanned_bytes += tail->keep_bytes + tail->torn_bytes - offset;
  return tail;
}

// A file whose first `durable_bytes` are known to be on the disk.
absl::Status Recovery::Repair(absl::string_view name, File* file, const LogTail& tail,
                              int64_t durable_bytes) {
  if (tail.torn_bytes > 0) {
    const std::string torn = absl::StrCat(Path(name), ".", tail.keep_bytes, ".torn");
    report_->torn_bytes += tail.torn_bytes - static_cast<int64_t>(tail.salvaged.size());
    report_->warnings.push_back(
        absl::StrCat(Path(name), ": an unfinished write from ",
                     tail.torn_line > 0 ? absl::StrCat("line ", tail.torn_line, ", ") : "", "byte ",
                     tail.keep_bytes, " on was cut off and kept in ", torn));
    HR_RETURN_IF_ERROR(KeepTorn(torn, file, tail.keep_bytes, tail.torn_bytes));
    HR_RETURN_IF_ERROR(file->Truncate(tail.keep_bytes));
    if (!tail.salvaged.empty()) HR_RETURN_IF_ERROR(file->Append(tail.salvaged));
  }
  // Lines that were written but not synced before a crash of the process count from now on.
  HR_RETURN_IF_ERROR(WriteAgain(file, std::max(durable_bytes, tail.keep_bytes - kMaxUnsyncedBytes),
                                tail.keep_bytes));
  return file->DataSync();
}

// After a sync that failed, Linux takes the pages for clean: the next process reads them, and its
// sync calls them durable without writing them. So what no sync is known to have covered is written
// again, as it is and in its place, which harms nothing where it was on the disk already.
absl::Status Recovery::WriteAgain(File* file, int64_t from, int64_t to) {
  while (from < to) {
    HR_ASSIGN_OR_RETURN(const std::string piece, file->Read(from, std::min(to - from, kCopyBytes)));
    if (piece.empty()) return absl::DataLossError("a log became shorter while it was read");
    HR_RETURN_IF_ERROR(file->Overwrite(from, piece));
    from += static_cast<int64_t>(piece.size());
  }
  return absl::OkStatus();
}

absl::Status Recovery::KeepTorn(const std::string& path, File* file, int64_t offset, int64_t size) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<File> torn, run_->disk_->OpenAppend(path));
  while (size > 0) {
    HR_ASSIGN_OR_RETURN(const std::string piece, file->Read(offset, std::min(size, kCopyBytes)));
    if (piece.empty()) break;
    HR_RETURN_IF_ERROR(torn->Append(piece));
    offset += static_cast<int64_t>(piece.size());
    size -= static_cast<int64_t>(piece.size());
  }
  HR_RETURN_IF_ERROR(torn->DataSync());
  return run_->disk_->SyncDir(DirName(path));
}

absl::Status Recovery::RemoveLeftovers() {
  const std::string dir = Path(kJournalDir);
  HR_ASSIGN_OR_RETURN(const std::vector<std::string> names, run_->disk_->List(dir));
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, Disk::kTempSuffix)) continue;
    HR_RETURN_IF_ERROR(run_->disk_->Remove(absl::StrCat(dir, "/", name)));
  }
  for (const uint64_t number : useless_snapshots_) {
    HR_RETURN_IF_ERROR(run_->disk_->Remove(absl::StrCat(dir, "/", SnapshotFileName(number))));
    std::erase(run_->snapshots_, number);
  }
  // The removals must not come undone once the logs grow.
  return useless_snapshots_.empty() ? absl::OkStatus() : run_->disk_->SyncDir(dir);
}

// The first records of this process: the run's own, if it is new, and that it started.
absl::Status Recovery::RecordStart(const RunIdentity& identity) {
  const auto next_lsn = [this] { return control_.last_lsn = Lsn(control_.last_lsn.value() + 1); };
  CommitGroup group;
  if (!control_.has_run) {
    control_.run = {NewRunId(), identity};
    AppendRunRecord(next_lsn(), control_.run, &group.journal);
  }
  const absl::Time now = absl::Now();
  AppendStartRecord(next_lsn(), now, &group.journal);
  if (run_->recovered_end_.log_bytes() > 0) {
    AppendDurableRecord(next_lsn(), run_->recovered_end_, &group.journal);
  }
  report_->starts = control_.starts + 1;
  report_->first_start = control_.starts == 0 ? now : control_.first_start;
  Histogram ignored;
  HR_RETURN_IF_ERROR(run_->Commit(group, &ignored));
  return run_->MaybeCompactJournal();
}

absl::Status Recovery::Finish(const RunIdentity& identity) {
  const LogPosition& durable = control_.durable;
  HR_RETURN_IF_ERROR(Repair(kResultsFile, results_.get(), results_tail_,
                            std::max(durable.results_bytes, from_.results_bytes)));
  HR_RETURN_IF_ERROR(Repair(kErrorsFile, errors_.get(), errors_tail_,
                            std::max(durable.errors_bytes, from_.errors_bytes)));
  LogTail journal_tail;
  journal_tail.keep_bytes = static_cast<int64_t>(control_.valid_bytes);
  journal_tail.torn_bytes = journal_bytes_ - journal_tail.keep_bytes;
  HR_RETURN_IF_ERROR(Repair(kJournalFile, journal_.get(), journal_tail, 0));

  const auto make_log = [](std::unique_ptr<File> file, const LogTail& tail, int64_t reserve) {
    const int64_t size = tail.keep_bytes + static_cast<int64_t>(tail.salvaged.size());
    return std::make_unique<AppendLog>(std::move(file), size, reserve);
  };
  run_->results_ = make_log(std::move(results_), results_tail_, kResultsReserveBytes);
  run_->errors_ = make_log(std::move(errors_), errors_tail_, kErrorsReserveBytes);
  run_->journal_ = make_log(std::move(journal_), journal_tail, kJournalReserveBytes);

  HR_RETURN_IF_ERROR(RemoveLeftovers());
  const absl::StatusOr<std::string> job = run_->disk_->ReadWhole(Path(kJobFile));
  if (!job.ok() || *job != identity.job_yaml) {
    HR_RETURN_IF_ERROR(run_->disk_->WriteWhole(Path(kJobFile), identity.job_yaml));
  }
  run_->recovered_end_ = {.results_bytes = run_->results_->size(),
                          .results_lines = results_tail_.lines,
                          .errors_bytes = run_->errors_->size(),
                          .errors_lines = errors_tail_.lines,
                          .lsn = control_.last_lsn};
  HR_RETURN_IF_ERROR(RecordStart(identity));
  run_->recovered_end_.lsn = control_.last_lsn;
  run_->run_id_ = control_.run.run_id;
  run_->recovered_workers_ = std::move(control_.workers);
  report_->results = results_tail_.lines;
  report_->errors = errors_tail_.lines;
  return absl::OkStatus();
}

}  // namespace headrace
