// Finds ids that are used twice, in memory that does not grow with the dataset.
#ifndef HEADRACE_COORDINATOR_DATASET_ROW_IDS_H_
#define HEADRACE_COORDINATOR_DATASET_ROW_IDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "coordinator/dataset/hash128.h"

namespace headrace {

// Keeps the hash of each id. Beyond `in_memory` of them, sorted runs go to one temporary file,
// which has no name any more and so vanishes with the process, and are merged at the end.
class RowIds {
 public:
  // 24 bytes each: 6 MiB. Sorting happens in place.
  static constexpr size_t kInMemory = size_t{1} << 18;
  // What one run is read back with while merging; runs of a billion rows need 62 MiB of buffers.
  static constexpr size_t kMergeBytes = 16 << 10;

  // `scratch_dir`: where the temporary file is made; empty: $TMPDIR or /tmp.
  explicit RowIds(std::string scratch_dir, size_t in_memory = kInMemory);
  ~RowIds();
  RowIds(const RowIds&) = delete;
  RowIds& operator=(const RowIds&) = delete;

  // Rows come in ascending order. Errors as the disk gives them.
  absl::Status Add(absl::string_view id, RowIndex row);

  struct Duplicate {
    RowIndex first;
    RowIndex second;
  };
  struct Result {
    int64_t count = 0;                  // rows whose id an earlier row has (nearly surely)
    std::vector<Duplicate> duplicates;  // those with the lowest second rows, in order of these
  };
  static constexpr size_t kMaxReported = 20;
  // Once, after all rows.
  absl::StatusOr<Result> Find();

 private:
  struct Entry {
    Hash128 hash;
    uint64_t row = 0;

    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  class Run;
  class Collector;

  absl::Status Spill();

  const std::string scratch_dir_;
  const size_t in_memory_;
  std::vector<Entry> entries_;
  int fd_ = -1;
  int64_t spilled_bytes_ = 0;
  std::vector<std::pair<int64_t, int64_t>> runs_;  // begin and end in the file
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_ROW_IDS_H_
