#include "coordinator/store/commit_queue.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

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

// Makes requests durable and sets their statuses. Keeps its buffers from group to group: fresh ones
// of a megabyte cost a page fault for every two lines.
class GroupCommitter {
 public:
  explicit GroupCommitter(std::unique_ptr<RunFiles> files) : files_(std::move(files)) {}

  // Snapshots split the group: what was submitted before one is synced before it is written.
  CommitStats Run(const std::vector<CommitRequest*>& requests) {
    stats_ = CommitStats();
    size_t begin = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      CommitRequest* const request = requests[i];
      for (LogRecord& record : request->records) {
        std::string& log = record.file == LogFile::kResults ? group_.results : group_.errors;
        log += record.line;
        log += '\n';
      }
      group_.journal += request->journal;
      request->records.clear();
      const bool last = i + 1 == requests.size();
      if (!last && !request->snapshot.has_value()) continue;
      const absl::Status status = Flush();
      for (; begin <= i; ++begin) {
        requests[begin]->status = status;
        requests[begin]->logs_failed = !status.ok();
      }
      if (request->snapshot.has_value() && status.ok()) SaveSnapshot(request);
    }
    return std::move(stats_);
  }

  absl::Status Close() { return files_->Close(); }

 private:
  absl::Status Flush() {
    stats_.bytes += static_cast<int64_t>(group_.results.size() + group_.errors.size());
    const absl::Status status = files_->Commit(group_, &stats_.sync_us);
    for (std::string* buffer : {&group_.results, &group_.errors, &group_.journal}) {
      buffer->clear();
      if (buffer->capacity() > kMaxKeptBytes) buffer->shrink_to_fit();
    }
    return status;
  }

  void SaveSnapshot(CommitRequest* request) {
    const absl::StatusOr<int64_t> bytes =
        files_->SaveSnapshot(*std::move(request->snapshot), request->snapshot_position);
    request->status = bytes.status();
    if (bytes.ok()) request->snapshot_file_bytes = *bytes;
  }

  // A buffer that one large chunk has grown beyond this is given back.
  static constexpr size_t kMaxKeptBytes = size_t{4} << 20;

  const std::unique_ptr<RunFiles> files_;
  CommitGroup group_;
  CommitStats stats_;
};

class ThreadQueue final : public CommitQueue {
 public:
  ThreadQueue(std::unique_ptr<RunFiles> files, const RunStoreOptions& options, Reactor* reactor,
              OnCommitted on_committed)
      : committer_(std::move(files)),
        interval_(absl::ToChronoNanoseconds(options.commit_interval)),
        reactor_(reactor),
        on_committed_(std::move(on_committed)),
        pending_(options),
        thread_([this] { Loop(); }) {}
  ~ThreadQueue() override { EndThread(); }

  void Submit(CommitRequest* request) override {
    bool wake = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      wake = pending_.empty();
      if (wake) oldest_ = std::chrono::steady_clock::now();
      pending_.Add(request);
      wake = wake || pending_.full();
    }
    if (wake) condition_.notify_one();
  }

  absl::Status Stop() override {
    EndThread();
    return committer_.Close();
  }

 private:
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
      const std::vector<CommitRequest*> requests = NextGroup();
      if (requests.empty()) return;
      CommitStats stats = committer_.Run(requests);
      reactor_->Post([this, requests, stats = std::move(stats)]() mutable {
        on_committed_(std::move(requests), std::move(stats));
      });
    }
  }

  // Blocks; empty once stopped and drained.
  std::vector<CommitRequest*> NextGroup() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
    // std::condition_variable, because absl's waits go by the wall clock, which may be set back.
    condition_.wait_until(lock, oldest_ + interval_,
                          [this] { return stopping_ || pending_.full(); });
    std::vector<CommitRequest*> requests = pending_.Take();
    // What stays behind waits a whole interval again, unless it is enough for a group.
    oldest_ = std::chrono::steady_clock::now();
    return requests;
  }

  GroupCommitter committer_;
  const std::chrono::nanoseconds interval_;
  Reactor* const reactor_;
  OnCommitted on_committed_;
  std::mutex mutex_;
  std::condition_variable condition_;
  PendingRequests pending_;                       // by mutex_
  std::chrono::steady_clock::time_point oldest_;  // by mutex_: about when pending_ got its first
  bool stopping_ = false;                         // by mutex_
  std::thread thread_;                            // last: starts when the rest is there
};

class ReactorQueue final : public CommitQueue {
 public:
  ReactorQueue(std::unique_ptr<RunFiles> files, const RunStoreOptions& options, Reactor* reactor,
               OnCommitted on_committed)
      : committer_(std::move(files)),
        interval_(options.commit_interval),
        reactor_(reactor),
        on_committed_(std::move(on_committed)),
        pending_(options) {}
  ~ReactorQueue() override { reactor_->Cancel(&timer_); }

  void Submit(CommitRequest* request) override {
    pending_.Add(request);
    ArmTimer();
  }

  absl::Status Stop() override {
    HR_CHECK(pending_.empty()) << "stopped while requests wait";
    return committer_.Close();
  }

 private:
  void ArmTimer() {
    if (pending_.full()) {
      reactor_->Arm(&timer_, reactor_->Now(), &ReactorQueue::OnTimer, this);
    } else if (!timer_.armed()) {
      reactor_->Arm(&timer_, reactor_->Now() + interval_, &ReactorQueue::OnTimer, this);
    }
  }

  static void OnTimer(void* context) {
    auto* const self = static_cast<ReactorQueue*>(context);
    const std::vector<CommitRequest*> requests = self->pending_.Take();
    CommitStats stats = self->committer_.Run(requests);
    if (!self->pending_.empty()) self->ArmTimer();
    self->on_committed_(requests, std::move(stats));
  }

  GroupCommitter committer_;
  const absl::Duration interval_;
  Reactor* const reactor_;
  OnCommitted on_committed_;
  PendingRequests pending_;
  Timer timer_;
};

}  // namespace

std::unique_ptr<CommitQueue> CommitQueue::Make(std::unique_ptr<RunFiles> files,
                                               const RunStoreOptions& options, Reactor* reactor,
                                               OnCommitted on_committed) {
  if (options.writer_thread) {
    return std::make_unique<ThreadQueue>(std::move(files), options, reactor,
                                         std::move(on_committed));
  }
  return std::make_unique<ReactorQueue>(std::move(files), options, reactor,
                                        std::move(on_committed));
}

}  // namespace headrace
