// A snapshot file: the caller's bytes and the place in the logs that they stand for.
#ifndef HEADRACE_COORDINATOR_STORE_SNAPSHOT_H_
#define HEADRACE_COORDINATOR_STORE_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/journal.h"

namespace headrace {

struct Snapshot {
  std::string run_id;  // of the journal it belongs to
  LogPosition position;
  std::string content;  // the caller's
};

std::string EncodeSnapshot(const Snapshot& snapshot);
// DataLoss when the file is cut, damaged, or of another version.
absl::StatusOr<Snapshot> DecodeSnapshot(absl::string_view bytes);

// "snapshot-00000000000000000012.bin"; a higher number is newer.
std::string SnapshotFileName(uint64_t number);
// Nothing when `name` is not the name of a snapshot.
std::optional<uint64_t> SnapshotNumber(absl::string_view name);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_SNAPSHOT_H_
