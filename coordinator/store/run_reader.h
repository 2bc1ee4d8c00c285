// Reads a run directory as a whole, whether its run has ended or not: for exports, reports and the
// check that nothing is missing. Takes no lock and changes nothing.
#ifndef HEADRACE_COORDINATOR_STORE_RUN_READER_H_
#define HEADRACE_COORDINATOR_STORE_RUN_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/outcome/result_fields.h"
#include "common/outcome/result_line.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/run_store.h"

namespace headrace {

// What the journal says the run is. NotFound when `dir` is not a run directory.
absl::StatusOr<RunIdentity> ReadRunIdentity(Disk* disk, const std::string& dir);

struct DamagedLine {
  std::string file;  // within the directory
  int64_t line = 0;
  std::string reason;
};

// Every item of rows x models ends in exactly one of ok, failed and missing.
struct RunCheck {
  int64_t rows = 0;
  int64_t models = 0;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t missing = 0;
  // Lines beyond one per item. The first good line of an item counts, results.jsonl before
  // errors.jsonl.
  int64_t duplicates = 0;
  int64_t foreign = 0;           // good lines of items that the run does not have
  int64_t damaged = 0;           // lines; they are skipped
  int64_t unfinished_bytes = 0;  // after the last line end: a write under way, or a crash
  // The first kMaxListed of each.
  std::vector<ItemId> missing_items;
  std::vector<ItemId> duplicate_items;
  std::vector<DamagedLine> damaged_lines;

  static constexpr size_t kMaxListed = 100;
  // Complete and undamaged.
  bool clean() const { return missing + duplicates + foreign + damaged + unfinished_bytes == 0; }
};

// Calls `on_line` with the line that counts of each item, results.jsonl first, and stops at its
// first error. Memory: one bit per item.
absl::StatusOr<RunCheck> ReadRun(
    Disk* disk, const std::string& dir,
    absl::FunctionRef<absl::Status(absl::string_view line, const ResultLineKey& key)> on_line);

// The same with each line parsed, once for all who want it. `fields` is nullptr when a line's
// checksum is right and it is still no JSON: it counts as damaged then, and its item by its key.
absl::StatusOr<RunCheck> ReadRunFields(
    Disk* disk, const std::string& dir,
    absl::FunctionRef<absl::Status(const ResultLineKey& key, const ResultFields* fields)> on_line);

// The same without a use for the lines.
absl::StatusOr<RunCheck> VerifyRun(Disk* disk, const std::string& dir);

// For people, one finding per line: "results.jsonl:17: damaged: the line's checksum is wrong".
std::string DescribeRunCheck(const RunCheck& check);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RUN_READER_H_
