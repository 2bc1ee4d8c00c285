// The queue between the reactor, which submits, and the one writer of a run directory.
#ifndef HEADRACE_COORDINATOR_STORE_COMMIT_QUEUE_H_
#define HEADRACE_COORDINATOR_STORE_COMMIT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "common/async/reactor.h"
#include "common/async/wait.h"
#include "coordinator/store/run_files.h"
#include "coordinator/store/run_store.h"

namespace headrace {

// One request to the writer. Lives in the frame of the coroutine that waits for `done`; the writer
// fills in `status`. Between Submit() and `done` only the writer touches the first group of fields.
struct CommitRequest {
  explicit CommitRequest(Reactor* reactor) : done(reactor) {}

  std::vector<LogRecord> records;
  std::string journal;                  // records (journal.h)
  std::optional<std::string> snapshot;  // written after everything submitted before it
  LogPosition snapshot_position;
  int64_t snapshot_file_bytes = 0;  // out
  LogPosition end;                  // of everything submitted up to this request
  absl::Status status;              // out
  bool logs_failed = false;         // out: not only the snapshot; nothing will succeed any more

  size_t record_count = 0;  // lines and deferrals
  size_t bytes = 0;
  bool urgent = false;  // somebody can do nothing until it is durable: no wait for more
  Event done;
};

struct CommitStats {
  int64_t bytes = 0;
  Histogram sync_us;
};

// Group commit: takes requests in the order of Submit(), several at a time, and makes them durable.
// Ends each by a call of `on_committed` on the reactor's thread, in order. Belongs to the reactor's
// thread.
class CommitQueue {
 public:
  using OnCommitted =
      absl::AnyInvocable<void(std::vector<CommitRequest*> requests, CommitStats stats)>;
  // The disk is full. The next call of OnCommitted is the end of that, one way or the other.
  using OnFull = absl::AnyInvocable<void()>;

  virtual ~CommitQueue() = default;
  // With a thread of its own, or on the reactor's by a timer (options.writer_thread). `reactor`
  // outlives the queue.
  static std::unique_ptr<CommitQueue> Make(std::unique_ptr<RunFiles> files,
                                           const RunStoreOptions& options, Reactor* reactor,
                                           OnCommitted on_committed, OnFull on_full);

  virtual void Submit(CommitRequest* request) = 0;
  // A full disk is waited out no longer than options.full_disk_last_wait from the first call on.
  virtual void LimitWait() = 0;
  // After the last request is done: ends the writer and closes the files. Once.
  virtual absl::Status Stop() = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_COMMIT_QUEUE_H_
