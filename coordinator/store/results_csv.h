// results.csv: one row per item, for spreadsheets and data frames. docs/file_formats.md lists the
// columns; they never change their order, new ones come last.
#ifndef HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_
#define HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/disk.h"
#include "coordinator/store/run_reader.h"

namespace headrace {

inline constexpr char kCsvFile[] = "results.csv";

struct CsvOptions {
  // Puts ' before texts that a spreadsheet would run as a formula. It changes data, so programs
  // that read the file turn it off.
  bool guard_formulas = true;
};

// Writes `dir`/results.csv from the logs of `dir`, whole or not at all, in the order of the logs
// and without holding them in memory. RFC 4180: CRLF, a header, quotes where needed; UTF-8. Returns
// what was found on the way: damaged lines have no row.
absl::StatusOr<RunCheck> WriteResultsCsv(Disk* disk, const std::string& dir,
                                         const CsvOptions& options);

// One cell, for other tables of texts that are not ours.
void AppendCsvCell(absl::string_view text, bool guard_formulas, std::string* out);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_RESULTS_CSV_H_
