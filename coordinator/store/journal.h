// The control journal: what a run must remember besides its result lines. This is its format,
// without any file: docs/file_formats.md has the bytes.
#ifndef HEADRACE_COORDINATOR_STORE_JOURNAL_H_
#define HEADRACE_COORDINATOR_STORE_JOURNAL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "coordinator/store/run_store.h"

namespace headrace {

// Log sequence number of a journal record: 1 for the first, without gaps.
using Lsn = StrongId<struct LsnTag>;

// A place in the order of submission, as the ends of all three files there.
struct LogPosition {
  int64_t results_bytes = 0;
  int64_t results_lines = 0;
  int64_t errors_bytes = 0;
  int64_t errors_lines = 0;
  Lsn lsn;  // of the last journal record before the place

  int64_t log_bytes() const { return results_bytes + errors_bytes; }
};

// What makes a run directory different from every other one.
struct RunRecord {
  std::string run_id;  // 16 random bytes
  RunIdentity identity;
};

// Records, as they are queued. Many of them make one frame: the records of one group commit,
// written by one call. A frame is synced before the next one is written, so a crash can only damage
// the last.
void AppendRunRecord(Lsn lsn, const RunRecord& record, std::string* records);
void AppendDeferredRecord(Lsn lsn, const std::vector<DeferredItem>& items, std::string* records);
void AppendBatchIdsRecord(Lsn lsn, BatchId up_to, std::string* records);
// The process of a worker that may hold a batch, or cannot any more (RunStore::RecordWorker).
struct WorkerRecord {
  std::string worker_id;
  std::string boot_nonce;
  bool present = false;
};
void AppendWorkerRecord(Lsn lsn, const WorkerRecord& record, std::string* records);
// The logs were durable up to `position` (its lsn is not written): one that is shorter has lost
// acknowledged results.
void AppendDurableRecord(Lsn lsn, const LogPosition& position, std::string* records);
// The run directory was opened by a process that meant to write.
void AppendStartRecord(Lsn lsn, absl::Time time, std::string* records);

// The boot nonces of the workers that are present, by worker id.
using PresentWorkers = std::map<std::string, std::string>;
// What `record` makes of them: a new nonce replaces an old one, and only the absence of the present
// process removes a worker. False when it changes nothing.
bool Apply(const WorkerRecord& record, PresentWorkers* workers);

// The frame around `records`: u32 length, u32 CRC-32C, records.
std::string MakeJournalFrame(absl::string_view records);

// Everything in a journal.
struct JournalContent {
  bool has_run = false;
  RunRecord run;
  struct Deferred {
    Lsn lsn;
    DeferredItem item;
  };
  std::vector<Deferred> deferred;
  BatchId batch_ids;  // the highest reserved, 0 without any
  PresentWorkers workers;
  LogPosition durable;  // the furthest recorded; without its lsn
  int64_t starts = 0;
  absl::Time first_start;
  Lsn last_lsn;            // 0 when empty
  size_t valid_bytes = 0;  // what comes after is the torn end of the last write
};

// DataLoss when a damaged frame is followed by a good one, or a good frame holds what this build
// does not understand; the message has the offset.
absl::StatusOr<JournalContent> ReadJournal(absl::string_view bytes);

// A journal of one record that says what all records of `content` say, without what later ones have
// replaced. `content` has a run.
std::string CompactJournal(const JournalContent& content);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_JOURNAL_H_
