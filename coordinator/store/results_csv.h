// results.csv: one row per item, for spreadsheets and data frames. docs/file_formats.md lists the
// columns; they never change their order, new ones come last.
#ifndef HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_
#define HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/outcome/result_fields.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/run_reader.h"

namespace headrace {

inline constexpr char kCsvFile[] = "results.csv";

struct CsvOptions {
  // Puts ' before texts that a spreadsheet would run as a formula. It changes data, so programs
  // that read the file turn it off.
  bool guard_formulas = true;
  // Answers ought to be JSON: `output` is the JSON of one that is, without a fence around it, else
  // the whole text; a last column `json` has the name of its JsonKind.
  bool json = false;
};

// `dir`/results.csv, whole or not at all, in the order in which its lines are added and without
// holding them in memory. RFC 4180: CRLF, a header, quotes where needed; UTF-8. Not thread-safe.
class ResultsCsv {
 public:
  ResultsCsv(Disk* disk, const std::string& dir, const CsvOptions& options);
  ~ResultsCsv();

  // A row for one line of a run (ReadRunFields); none for a line that cannot be read (nullptr). The
  // first error of the disk stays: nothing is written after it.
  absl::Status Add(const ResultFields* fields);
  // Puts the file in its place, synced; the old one stays if anything failed before.
  absl::Status Finish() &&;

 private:
  class Writer;
  const std::unique_ptr<Writer> writer_;
};

// Writes all lines of `dir`, read for this alone. Returns what was found on the way: damaged lines
// have no row.
absl::StatusOr<RunCheck> WriteResultsCsv(Disk* disk, const std::string& dir,
                                         const CsvOptions& options);

// One cell, for other tables of texts that are not ours.
void AppendCsvCell(absl::string_view text, bool guard_formulas, std::string* out);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_
