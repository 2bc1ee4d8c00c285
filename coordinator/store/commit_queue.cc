#include "coordinator/store/commit_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace {
namespace {

// Requests in order of submission, and when they are worth a commit.
class PendingRequests {
 public:
  explicit PendingRequests(const RunStoreOptions& options) : options_(options) {}

  bool empty() const { return requests_.empty(); }
  // Enough for one group, or somebody is in a hurry.
  bool full() const {
    return records_ >= options_.commit_records || bytes_ >= options_.commit_bytes || urgent_ > 0;
  }
  void Add(CommitRequest* request) {
    requests_.push_back(request);
    Count(*request, 1);
  }
  // The requests of the next group, at least one if there is any.
  std::vector<CommitRequest*> Take() {
    std::vector<CommitRequest*> group;
    size_t records = 0;
    size_t bytes = 0;
    while (!requests_.empty() && (group.empty() || (records < options_.commit_records &&
                                                    bytes < options_.commit_bytes))) {
      CommitRequest* const request = requests_.front();
      requests_.pop_front();
      Count(*request, -1);
      records += request->record_count;
      bytes += request->bytes;
      group.push_back(request);
    }
    return group;
  }

 private:
  void Count(const CommitRequest& request, int sign) {
    records_ += sign * request.record_count;
    bytes_ += sign * request.bytes;
    urgent_ += request.urgent ? sign : 0;
  }

  const RunStoreOptions options_;
  std::deque<CommitRequest*> requests_;
  size_t records_ = 0;
  size_t bytes_ = 0;
  int urgent_ = 0;
};

// Makes a group of requests durable and sets their statuses. Keeps its buffers from group to group:
// fresh ones of a megabyte cost a page fault for every two lines.
class GroupCommitter {
 public:
  GroupCommitter(std::unique_ptr<RunFiles> files, absl::Duration last_wait)
      : files_(std::move(files)), last_wait_(last_wait) {}

  // After the group before is done.
  void Start(std::vector<CommitRequest*> requests) {
    requests_ = std::move(requests);
    begin_ = end_ = 0;
    stats_ = CommitStats();
  }
  bool busy() const { return begin_ < requests_.size(); }

  // Works until every request has its status (true) or the disk is full (false: call it again
  // later). On the last try a full disk is an error like any other.
  bool Advance(bool last_try) {
    while (busy()) {
      if (begin_ == end_) Collect();
      absl::Status status = files_->Commit(group_, &stats_.sync_us);
      if (files_->disk_full()) {
        if (!last_try) return false;
        status = StillFull(status);
        files_->Fail(status);
      }
      Settle(status);
    }
    return true;
  }

  std::vector<CommitRequest*> TakeRequests() { return std::exchange(requests_, {}); }
  CommitStats TakeStats() { return std::move(stats_); }
  absl::Status Close() { return files_->Close(); }

 private:
  // Fills group_ up to the next request with a snapshot: what was submitted before one is synced
  // before it is written.
  void Collect() {
    while (end_ < requests_.size()) {
      CommitRequest* const request = requests_[end_++];
      for (LogRecord& record : request->records) {
        std::string& log = record.file == LogFile::kResults ? group_.results : group_.errors;
        log += record.line;
        log += '\n';
      }
      group_.journal += request->journal;
      request->records.clear();
      if (request->snapshot.has_value()) break;
    }
    stats_.bytes += static_cast<int64_t>(group_.results.size() + group_.errors.size());
  }

  // The end of the commit of what Collect() took.
  void Settle(const absl::Status& status) {
    for (std::string* buffer : {&group_.results, &group_.errors, &group_.journal}) {
      buffer->clear();
      if (buffer->capacity() > kMaxKeptBytes) buffer->shrink_to_fit();
    }
    for (; begin_ < end_; ++begin_) {
      CommitRequest* const request = requests_[begin_];
      request->status = status;
      request->logs_failed = !status.ok();
      if (request->snapshot.has_value() && status.ok()) SaveSnapshot(request);
    }
  }

  void SaveSnapshot(CommitRequest* request) {
    const absl::StatusOr<int64_t> bytes =
        files_->SaveSnapshot(*std::move(request->snapshot), request->snapshot_position);
    request->status = bytes.status();
    if (bytes.ok()) request->snapshot_file_bytes = *bytes;
  }

  absl::Status StillFull(const absl::Status& status) const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk of ", files_->dir(), " is still full after ", absl::FormatDuration(last_wait_),
        ": what was not acknowledged is not written; free some space and start the run again (",
        status.message(), ")"));
  }

  // A buffer that one large chunk has grown beyond this is given back.
  static constexpr size_t kMaxKeptBytes = size_t{4} << 20;

  const std::unique_ptr<RunFiles> files_;
  const absl::Duration last_wait_;
  std::vector<CommitRequest*> requests_;
  size_t begin_ = 0;  // of the requests that have no status yet
  size_t end_ = 0;    // of those in group_
  CommitGroup group_;
  CommitStats stats_;
};

class ThreadQueue final : public CommitQueue {
 public:
  ThreadQueue(std::unique_ptr<RunFiles> files, const RunStoreOptions& options, Reactor* reactor,
              OnCommitted on_committed, OnFull on_full)
      : committer_(std::move(files), options.full_disk_last_wait),
        options_(options),
        reactor_(reactor),
        on_committed_(std::move(on_committed)),
        on_full_(std::move(on_full)),
        pending_(options),
        thread_([this] { Loop(); }) {}
  ~ThreadQueue() override { EndThread(); }

  void Submit(CommitRequest* request) override {
    bool wake = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      wake = pending_.empty();
      if (wake) oldest_ = SteadyClock::now();
      pending_.Add(request);
      wake = wake || pending_.full();
    }
    if (wake) condition_.notify_one();
  }

  void LimitWait() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    give_up_at_ = std::min(give_up_at_, After(options_.full_disk_last_wait));
  }

  absl::Status Stop() override {
    EndThread();
    return committer_.Close();
  }

 private:
  using SteadyClock = std::chrono::steady_clock;

  static SteadyClock::time_point After(absl::Duration duration) {
    return SteadyClock::now() + absl::ToChronoNanoseconds(duration);
  }

  void EndThread() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    condition_.notify_one();
    thread_.join();
  }

  void Loop() {
    while (true) {
      std::vector<CommitRequest*> group = NextGroup();
      if (group.empty()) return;
      committer_.Start(std::move(group));
      if (!committer_.Advance(/*last_try=*/false)) WaitOutFullDisk();
      reactor_->Post(
          [this, requests = committer_.TakeRequests(), stats = committer_.TakeStats()]() mutable {
            on_committed_(std::move(requests), std::move(stats));
          });
    }
  }

  // Blocks; empty once stopped and drained.
  std::vector<CommitRequest*> NextGroup() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
    // std::condition_variable, because absl's waits go by the wall clock, which may be set back.
    condition_.wait_until(lock, oldest_ + absl::ToChronoNanoseconds(options_.commit_interval),
                          [this] { return stopping_ || pending_.full(); });
    std::vector<CommitRequest*> requests = pending_.Take();
    // What stays behind waits a whole interval again, unless it is enough for a group.
    oldest_ = SteadyClock::now();
    return requests;
  }

  void WaitOutFullDisk() {
    reactor_->Post([this] { on_full_(); });
    absl::Duration delay = options_.full_disk_first_retry;
    while (!committer_.Advance(/*last_try=*/!WaitToRetry(delay))) {
      delay = options_.full_disk_retry;
    }
  }

  // False when the next try is the last.
  bool WaitToRetry(absl::Duration delay) {
    const SteadyClock::time_point until = After(delay);
    std::unique_lock<std::mutex> lock(mutex_);
    // Whoever submits more wakes it up for nothing.
    while (SteadyClock::now() < std::min(until, give_up_at_)) {
      condition_.wait_until(lock, std::min(until, give_up_at_));
    }
    return SteadyClock::now() < give_up_at_;
  }

  GroupCommitter committer_;
  const RunStoreOptions options_;
  Reactor* const reactor_;
  OnCommitted on_committed_;
  OnFull on_full_;
  std::mutex mutex_;
  std::condition_variable condition_;
  PendingRequests pending_;         // by mutex_
  SteadyClock::time_point oldest_;  // by mutex_: about when pending_ got its first
  SteadyClock::time_point give_up_at_ = SteadyClock::time_point::max();  // by mutex_
  bool stopping_ = false;                                                // by mutex_
  std::thread thread_;  // last: starts when the rest is there
};

class ReactorQueue final : public CommitQueue {
 public:
  ReactorQueue(std::unique_ptr<RunFiles> files, const RunStoreOptions& options, Reactor* reactor,
               OnCommitted on_committed, OnFull on_full)
      : committer_(std::move(files), options.full_disk_last_wait),
        options_(options),
        reactor_(reactor),
        on_committed_(std::move(on_committed)),
        on_full_(std::move(on_full)),
        pending_(options) {}
  ~ReactorQueue() override { reactor_->Cancel(&timer_); }

  void Submit(CommitRequest* request) override {
    pending_.Add(request);
    if (!committer_.busy()) ArmTimer();
  }

  void LimitWait() override {
    give_up_at_ = std::min(give_up_at_, reactor_->Now() + options_.full_disk_last_wait);
  }

  absl::Status Stop() override {
    HR_CHECK(pending_.empty() && !committer_.busy()) << "stopped while requests wait";
    return committer_.Close();
  }

 private:
  void ArmTimer() {
    if (pending_.full()) {
      Arm(reactor_->Now());
    } else if (!timer_.armed()) {
      Arm(reactor_->Now() + options_.commit_interval);
    }
  }
  void Arm(MonoTime time) { reactor_->Arm(&timer_, time, &ReactorQueue::OnTimer, this); }

  static void OnTimer(void* context) {
    auto* const self = static_cast<ReactorQueue*>(context);
    const bool again = self->committer_.busy();
    if (!again) self->committer_.Start(self->pending_.Take());
    if (!self->committer_.Advance(/*last_try=*/again &&
                                  self->reactor_->Now() >= self->give_up_at_)) {
      const absl::Duration delay =
          again ? self->options_.full_disk_retry : self->options_.full_disk_first_retry;
      self->Arm(std::min(self->reactor_->Now() + delay, self->give_up_at_));
      if (!again) self->on_full_();
      return;
    }
    if (!self->pending_.empty()) self->ArmTimer();
    self->on_committed_(self->committer_.TakeRequests(), self->committer_.TakeStats());
  }

  GroupCommitter committer_;
  const RunStoreOptions options_;
  Reactor* const reactor_;
  OnCommitted on_committed_;
  OnFull on_full_;
  PendingRequests pending_;
  MonoTime give_up_at_ = MonoTime::Max();
  Timer timer_;
};

}  // namespace

std::unique_ptr<CommitQueue> CommitQueue::Make(std::unique_ptr<RunFiles> files,
                                               const RunStoreOptions& options, Reactor* reactor,
                                               OnCommitted on_committed, OnFull on_full) {
  if (options.writer_thread) {
    return std::make_unique<ThreadQueue>(std::move(files), options, reactor,
                                         std::move(on_committed), std::move(on_full));
  }
  return std::make_unique<ReactorQueue>(std::move(files), options, reactor, std::move(on_committed),
                                        std::move(on_full));
}

}  // namespace headrace
