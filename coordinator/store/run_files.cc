#include "coordinator/store/run_files.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/store/log_reader.h"
#include "coordinator/store/recovery.h"

namespace headrace {
namespace {

// The newest, and one before it in case the newest cannot be read.
constexpr size_t kSnapshotsKept = 2;
// With less room than this ahead, only what a write needs is reserved.
constexpr int64_t kMinReserveBytes = int64_t{1} << 20;

}  // namespace

absl::Status AppendLog::EnsureSpace(int64_t bytes) {
  if (size_ + bytes <= reserved_to_) return absl::OkStatus();
  // A small disk has room for the write long after it has none for the usual reserve.
  absl::Status status;
  for (const int64_t ahead : {reserve_bytes_, kMinReserveBytes, int64_t{0}}) {
    const int64_t wanted = std::max(bytes, ahead);
    status = file_->Reserve(wanted);
    if (status.ok()) {
      reserved_to_ = size_ + wanted;
      return status;
    }
    if (!absl::IsResourceExhausted(status)) return status;
  }
  return status;
}

absl::Status AppendLog::Write(absl::string_view data) {
  HR_RETURN_IF_ERROR(file_->Append(data));
  size_ += static_cast<int64_t>(data.size());
  unsynced_bytes_ += static_cast<int64_t>(data.size());
  return absl::OkStatus();
}

absl::Status AppendLog::Sync(Histogram* sync_us) {
  if (unsynced_bytes_ == 0) return absl::OkStatus();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = file_->DataSync();
  sync_failed_ = !status.ok();
  if (!status.ok()) return status;
  const auto time = std::chrono::steady_clock::now() - start;
  sync_us->Record(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  unsynced_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status AppendLog::CutBack() {
  HR_RETURN_IF_ERROR(file_->Truncate(kept_));
  // What is written next starts at the same place, so its sync covers the cut.
  size_ = reserved_to_ = kept_;
  unsynced_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status AppendLog::Trim() {
  if (reserved_to_ <= size_) return absl::OkStatus();
  reserved_to_ = size_;
  return file_->Truncate(size_);
}

absl::StatusOr<std::unique_ptr<RunFiles>> RunFiles::Open(const std::string& dir,
                                                         const RunIdentity& identity,
                                                         const RunStoreOptions& options, Disk* disk,
                                                         RecoveryVisitor* visitor,
                                                         RecoveryReport* report) {
  std::unique_ptr<RunFiles> files(new RunFiles(dir, options.journal_bytes, disk));
  HR_RETURN_IF_ERROR(Recovery(files.get(), visitor, report).Run(identity));
  return files;
}

absl::Status RunFiles::Commit(const CommitGroup& group, Histogram* sync_us) {
  HR_RETURN_IF_ERROR(broken_);
  // An earlier try of this group may not even have been cut back for lack of space.
  absl::Status status = disk_full_ ? CutBack() : absl::OkStatus();
  disk_full_ = false;
  if (status.ok()) status = WriteGroup(group, sync_us);
  const std::array<AppendLog*, 3> logs = {journal_.get(), errors_.get(), results_.get()};
  if (status.ok()) {
    for (AppendLog* log : logs) log->Keep();
    return status;
  }
  const bool sync_failed =
      std::any_of(logs.begin(), logs.end(), [](AppendLog* log) { return log->sync_failed(); });
  if (absl::IsResourceExhausted(status) && !sync_failed) {
    // At once: readers shall not meet a part of a line, and what one file has reserved may be all
    // that another one needs.
    const absl::Status cut = CutBack();
    disk_full_ = cut.ok() || absl::IsResourceExhausted(cut);
    if (disk_full_) return status;
    status = cut;
  }
  broken_ = status;
  return status;
}

absl::Status RunFiles::CutBack() {
  for (AppendLog* log : {results_.get(), errors_.get(), journal_.get()}) {
    HR_RETURN_IF_ERROR(log->CutBack());
  }
  return absl::OkStatus();
}

void RunFiles::Fail(absl::Status error) {
  if (broken_.ok()) broken_ = std::move(error);
  disk_full_ = false;
}

absl::Status RunFiles::WriteGroup(const CommitGroup& group, Histogram* sync_us) {
  const std::string frame = group.journal.empty() ? "" : MakeJournalFrame(group.journal);
  HR_RETURN_IF_ERROR(journal_->EnsureSpace(static_cast<int64_t>(frame.size())));
  HR_RETURN_IF_ERROR(errors_->EnsureSpace(static_cast<int64_t>(group.errors.size())));
  HR_RETURN_IF_ERROR(results_->EnsureSpace(static_cast<int64_t>(group.results.size())));

  if (!frame.empty()) HR_RETURN_IF_ERROR(journal_->Write(frame));
  HR_RETURN_IF_ERROR(WriteLines(group.errors, errors_.get(), sync_us));
  HR_RETURN_IF_ERROR(WriteLines(group.results, results_.get(), sync_us));
  HR_RETURN_IF_ERROR(journal_->Sync(sync_us));
  HR_RETURN_IF_ERROR(errors_->Sync(sync_us));
  return results_->Sync(sync_us);
}

absl::Status RunFiles::WriteLines(const std::string& lines, AppendLog* log, Histogram* sync_us) {
  // Recovery counts on kMaxUnsyncedBytes, whatever the size of one group.
  constexpr size_t kPiece = size_t{kMaxUnsyncedBytes} / 2;
  absl::string_view left = lines;
  while (!left.empty()) {
    if (log->unsynced_bytes() > 0) HR_RETURN_IF_ERROR(log->Sync(sync_us));
    HR_RETURN_IF_ERROR(log->Write(left.substr(0, kPiece)));
    left.remove_prefix(std::min(kPiece, left.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RunFiles::SaveSnapshot(std::string content, const LogPosition& position) {
  HR_RETURN_IF_ERROR(broken_);
  const uint64_t number = snapshots_.empty() ? 1 : snapshots_.back() + 1;
  Snapshot snapshot;
  snapshot.run_id = run_id_;
  snapshot.position = position;
  snapshot.content = std::move(content);
  const std::string bytes = EncodeSnapshot(snapshot);
  HR_RETURN_IF_ERROR(disk_->WriteWhole(
      absl::StrCat(dir_, "/", kJournalDir, "/", SnapshotFileName(number)), bytes));
  snapshots_.push_back(number);
  HR_RETURN_IF_ERROR(PruneSnapshots());
  HR_RETURN_IF_ERROR(MaybeCompactJournal());
  return static_cast<int64_t>(bytes.size());
}

absl::Status RunFiles::MaybeCompactJournal() {
  const absl::Status status = CompactJournalIfLarge();
  if (!status.ok()) {
    HR_LOG(kWarning) << dir_ << "/" << kJournalFile << " was not compacted: " << status.message();
  }
  return broken_;
}

// The journal of a run of weeks would grow with every worker that came and went, and is read whole
// at each start.
absl::Status RunFiles::CompactJournalIfLarge() {
  if (journal_->size() < journal_limit_) return absl::OkStatus();
  HR_ASSIGN_OR_RETURN(const std::string bytes, journal_->file()->Read(0, journal_->size()));
  HR_ASSIGN_OR_RETURN(const JournalContent content, ReadJournal(bytes));
  const std::string compact = CompactJournal(content);
  const auto size = static_cast<int64_t>(compact.size());
  journal_limit_ = std::max(journal_limit_, 2 * size);
  return size < journal_->size() / 2 ? ReplaceJournal(compact) : absl::OkStatus();
}

absl::Status RunFiles::ReplaceJournal(absl::string_view content) {
  const std::string path = absl::StrCat(dir_, "/", kJournalFile);
  const std::string temp = absl::StrCat(path, Disk::kTempSuffix);
  HR_RETURN_IF_ERROR(disk_->Remove(temp));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, disk_->OpenAppend(temp));
  absl::Status status = file->Append(content);
  if (status.ok()) status = file->DataSync();
  if (status.ok()) status = disk_->Rename(temp, path);
  if (!status.ok()) {
    const absl::Status ignored = disk_->Remove(temp);  // the old journal goes on
    return status;
  }
  // From here on the old journal is nobody's. A name that is not durable may come undone in a crash
  // together with all records after it.
  const int64_t reserve_bytes = journal_->reserve_bytes();
  journal_ = std::make_unique<AppendLog>(std::move(file), static_cast<int64_t>(content.size()),
                                         reserve_bytes);
  broken_ = disk_->SyncDir(DirName(path));
  return broken_;
}

absl::Status RunFiles::PruneSnapshots() {
  while (snapshots_.size() > kSnapshotsKept) {
    HR_RETURN_IF_ERROR(disk_->Remove(
        absl::StrCat(dir_, "/", kJournalDir, "/", SnapshotFileName(snapshots_.front()))));
    snapshots_.erase(snapshots_.begin());
  }
  return absl::OkStatus();
}

absl::Status RunFiles::Close() {
  // After an error the files are left as they are, for the next start to read.
  absl::Status status = broken_;
  for (AppendLog* log : {results_.get(), errors_.get(), journal_.get()}) {
    if (status.ok()) status = log->Trim();
  }
  results_.reset();
  errors_.reset();
  journal_.reset();
  lock_.reset();
  if (broken_.ok()) broken_ = absl::FailedPreconditionError("the run store is closed");
  return status;
}

}  // namespace headrace
