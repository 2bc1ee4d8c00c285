#include "coordinator/store/run_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/list.h"
#include "common/async/stop.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "coordinator/store/commit_queue.h"
#include "coordinator/store/journal.h"
#include "coordinator/store/run_files.h"

namespace headrace {
namespace {

class RunStoreImpl final : public RunStore {
 public:
  RunStoreImpl(std::unique_ptr<RunFiles> files, const RunStoreOptions& options, Reactor* reactor)
      : dir_(files->dir()),
        options_(options),
        reactor_(reactor),
        room_records_(reactor, static_cast<int64_t>(options.max_queued_records)),
        room_bytes_(reactor, static_cast<int64_t>(options.max_queued_bytes)),
        idle_(reactor),
        submitted_(files->recovered_end()),
        durable_(submitted_),
        recorded_log_bytes_(submitted_.log_bytes()),
        workers_(files->recovered_workers()),
        snapshot_log_bytes_(files->snapshot_log_bytes()),
        snapshot_file_bytes_(files->snapshot_file_bytes()),
        queue_(CommitQueue::Make(
            std::move(files), options, reactor,
            [this](std::vector<CommitRequest*> requests, CommitStats stats) {
              OnCommitted(requests, stats);
            },
            [this] { OnFull(); })) {
    idle_.Set();
  }
  ~RunStoreImpl() override {
    HR_CHECK(calls_ == 0) << calls_ << " calls of a run store outlive it";
  }

  Task<absl::Status> Append(std::vector<LogRecord> records,
                            std::vector<DeferredItem> deferred) override {
    const Call call(this);
    if (closing_) co_return ClosedError();
    if (records.empty() && deferred.empty()) co_return failure_;
    Ticket ticket(reactor_);
    ticket.request.record_count = records.size() + deferred.size();
    for (const LogRecord& record : records) ticket.request.bytes += record.line.size() + 1;
    ticket.request.bytes += deferred.size() * sizeof(DeferredItem);
    Room room(this, ticket.request);
    if (!co_await room_records_.Acquire(failed_.token(), room.records)) co_return failure_;
    room.has_records = true;
    if (!co_await room_bytes_.Acquire(failed_.token(), room.bytes)) co_return failure_;
    room.has_bytes = true;

    ticket.start = submitted_;
    CountLines(records);
    ticket.request.records = std::move(records);
    if (!deferred.empty()) {
      AppendDeferredRecord(NextLsn(), deferred, &ticket.request.journal);
    }
    co_return co_await Commit(&ticket);
  }

  Task<absl::Status> ReserveBatchIds(BatchId up_to) override {
    const Call call(this);
    if (closing_) co_return ClosedError();
    if (!failure_.ok()) co_return failure_;
    Ticket ticket(reactor_);
    ticket.start = submitted_;
    ticket.request.urgent = true;
    AppendBatchIdsRecord(NextLsn(), up_to, &ticket.request.journal);
    RecordDurable(&ticket.request.journal);
    co_return co_await Commit(&ticket);
  }

  Task<absl::Status> RecordWorker(std::string worker_id, std::string boot_nonce,
                                  bool present) override {
    const Call call(this);
    if (closing_) co_return ClosedError();
    if (!failure_.ok()) co_return failure_;
    if (std::max(worker_id.size(), boot_nonce.size()) > kMaxWorkerText) {
      co_return absl::InvalidArgumentError(
          absl::StrCat("a worker's id or boot nonce has more than ", kMaxWorkerText, " bytes"));
    }
    const WorkerRecord record = {std::move(worker_id), std::move(boot_nonce), present};
    // With a record under way, what is known is not durable yet.
    if (!Apply(record, &workers_) && worker_records_under_way_ == 0) co_return absl::OkStatus();
    Ticket ticket(reactor_);
    ticket.start = submitted_;
    ticket.request.urgent = true;
    AppendWorkerRecord(NextLsn(), record, &ticket.request.journal);
    RecordDurable(&ticket.request.journal);
    ++worker_records_under_way_;
    const absl::Status status = co_await Commit(&ticket);
    --worker_records_under_way_;
    co_return status;
  }

  bool snapshot_wanted() const override {
    const int64_t wanted_after =
        std::max(options_.snapshot_bytes, options_.log_per_snapshot * snapshot_file_bytes_);
    return !saving_snapshot_ && failure_.ok() &&
           submitted_.log_bytes() - snapshot_log_bytes_ >= wanted_after;
  }

  Task<absl::Status> SaveSnapshot(std::string snapshot) override {
    const Call call(this);
    if (closing_) co_return ClosedError();
    if (!failure_.ok()) co_return failure_;
    if (saving_snapshot_) co_return absl::FailedPreconditionError("a snapshot is under way");
    saving_snapshot_ = true;
    // Also after an error, so that a snapshot that cannot be written is not tried at once again.
    snapshot_log_bytes_ = submitted_.log_bytes();
    Ticket ticket(reactor_);
    ticket.start = submitted_;
    ticket.request.urgent = true;
    ticket.request.snapshot = std::move(snapshot);
    // Calls that have not ended may or may not be in the snapshot: recovery tells them again.
    ticket.request.snapshot_position = under_way_.empty() ? submitted_ : under_way_.front()->start;
    RecordDurable(&ticket.request.journal);
    const absl::Status status = co_await Commit(&ticket);
    if (status.ok()) snapshot_file_bytes_ = ticket.request.snapshot_file_bytes;
    saving_snapshot_ = false;
    co_return status;
  }

  RunStoreStats stats() const override { return stats_; }

  std::string waiting_for() const override {
    if (!full_since_.has_value()) return "";
    return absl::StrCat("space on the disk of ", dir_, ": it is full, ", under_way_bytes_,
                        " bytes wait; free some space, the run goes on by itself");
  }

  void StopWaitingForSpace() override { queue_->LimitWait(); }

  Task<absl::Status> Close() override {
    if (!closing_) {
      closing_ = true;
      queue_->LimitWait();
      // No stop token: every call under way ends, by the writer or by its error.
      co_await idle_.Wait(StopToken());
      Ticket ticket(reactor_);
      ticket.start = submitted_;
      ticket.request.urgent = true;
      RecordDurable(&ticket.request.journal);
      absl::Status status;
      if (!ticket.request.journal.empty()) status = co_await Commit(&ticket);
      status.Update(queue_->Stop());
      close_status_ = failure_.ok() ? status : failure_;
    }
    co_return close_status_;
  }

 private:
  // Counts the calls under way, for Close().
  class Call {
   public:
    explicit Call(RunStoreImpl* store) : store_(store) {
      ++store_->calls_;
      store_->idle_.Reset();
    }
    ~Call() {
      if (--store_->calls_ == 0) store_->idle_.Set();
    }
    Call(const Call&) = delete;

   private:
    RunStoreImpl* const store_;
  };

  // The share of the queue that one call fills. A call larger than the queue takes all of it.
  struct Room {
    Room(RunStoreImpl* owner, const CommitRequest& request)
        : store(owner),
          records(std::min(static_cast<int64_t>(request.record_count),
                           owner->room_records_.capacity())),
          bytes(std::min(static_cast<int64_t>(request.bytes), owner->room_bytes_.capacity())) {}
    ~Room() {
      if (has_records) store->room_records_.Release(records);
      if (has_bytes) store->room_bytes_.Release(bytes);
    }
    Room(const Room&) = delete;

    RunStoreImpl* const store;
    const int64_t records;
    const int64_t bytes;
    bool has_records = false;
    bool has_bytes = false;
  };

  // A submitted request and where it begins in the order of submission.
  struct Ticket : ListNode<Ticket> {
    explicit Ticket(Reactor* reactor) : request(reactor) {}
    ~Ticket() { Unlink(); }

    CommitRequest request;
    LogPosition start;
  };

  static absl::Status ClosedError() {
    return absl::FailedPreconditionError("the run store is closed");
  }

  Lsn NextLsn() { return submitted_.lsn = Lsn(submitted_.lsn.value() + 1); }

  void CountLines(const std::vector<LogRecord>& records) {
    for (const LogRecord& record : records) {
      const auto bytes = static_cast<int64_t>(record.line.size() + 1);
      if (record.file == LogFile::kResults) {
        submitted_.results_bytes += bytes;
        ++submitted_.results_lines;
      } else {
        submitted_.errors_bytes += bytes;
        ++submitted_.errors_lines;
      }
    }
  }

  // Adds to a request that is written to the journal anyway how much of the logs is durable, for
  // the next start to know when something is missing.
  void RecordDurable(std::string* journal) {
    if (durable_.log_bytes() == recorded_log_bytes_ || !failure_.ok()) return;
    recorded_log_bytes_ = durable_.log_bytes();
    AppendDurableRecord(NextLsn(), durable_, journal);
  }

  // Must be called in the step that took the ticket's place from submitted_.
  Task<absl::Status> Commit(Ticket* ticket) {
    ticket->request.end = submitted_;
    under_way_.PushBack(ticket);
    const int64_t bytes = submitted_.log_bytes() - ticket->start.log_bytes() +
                          static_cast<int64_t>(ticket->request.journal.size());
    under_way_bytes_ += bytes;
    queue_->Submit(&ticket->request);
    // No stop token: the writer holds the request until it is done, however the caller fares.
    co_await ticket->request.done.Wait(StopToken());
    under_way_bytes_ -= bytes;
    // The call has ended for snapshots only now, when the caller is about to hear of it.
    ticket->Unlink();
    co_return ticket->request.status;
  }

  void OnFull() {
    full_since_ = reactor_->Now();
    HR_LOG(kWarning) << "waiting for " << waiting_for();
  }

  void OnCommitted(const std::vector<CommitRequest*>& requests, const CommitStats& stats) {
    stats_.bytes += stats.bytes;
    stats_.syncs += stats.sync_us.count();
    stats_.sync_us.Merge(stats.sync_us);
    for (CommitRequest* request : requests) {
      stats_.records += request->status.ok() ? static_cast<int64_t>(request->record_count) : 0;
      if (request->logs_failed && failure_.ok()) failure_ = request->status;
      if (!request->logs_failed) durable_ = request->end;
      request->done.Set();
    }
    if (!failure_.ok()) failed_.RequestStop(StopCode::kPolicy);
    if (full_since_.has_value() && failure_.ok()) {
      HR_LOG(kWarning) << "the disk of " << dir_ << " has room again after "
                       << absl::FormatDuration(reactor_->Now() - *full_since_) << ", going on";
    }
    full_since_.reset();
  }

  const std::string dir_;
  const RunStoreOptions options_;
  Reactor* const reactor_;
  StopSource failed_;  // stops those who wait for room
  Semaphore room_records_;
  Semaphore room_bytes_;
  Event idle_;
  int calls_ = 0;
  LogPosition submitted_;       // the end of what was submitted
  LogPosition durable_;         // the end of what is durable
  int64_t recorded_log_bytes_;  // of the last durable record
  List<Ticket> under_way_;      // in order of submission, until the caller hears of the end
  int64_t under_way_bytes_ = 0;
  std::optional<MonoTime> full_since_;  // while the disk is full
  PresentWorkers workers_;              // by the records that were submitted
  int worker_records_under_way_ = 0;
  int64_t snapshot_log_bytes_;
  int64_t snapshot_file_bytes_;
  bool saving_snapshot_ = false;
  bool closing_ = false;
  absl::Status failure_;
  absl::Status close_status_;
  RunStoreStats stats_;
  std::unique_ptr<CommitQueue> queue_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunStore>> RunStore::Open(const std::string& dir,
                                                         const RunIdentity& identity,
                                                         const RunStoreOptions& options, Disk* disk,
                                                         Reactor* reactor, RecoveryVisitor* visitor,
                                                         RecoveryReport* report) {
  absl::StatusOr<std::unique_ptr<RunFiles>> files =
      RunFiles::Open(dir, identity, options, disk, visitor, report);
  if (!files.ok()) return files.status();
  return std::make_unique<RunStoreImpl>(*std::move(files), options, reactor);
}

}  // namespace headrace
