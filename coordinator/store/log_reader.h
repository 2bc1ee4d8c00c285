// Reads a log of result lines from any place, at disk speed, and finds where it is damaged.
#ifndef HEADRACE_COORDINATOR_STORE_LOG_READER_H_
#define HEADRACE_COORDINATOR_STORE_LOG_READER_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/outcome/result_line.h"
#include "coordinator/store/disk.h"

namespace headrace {

// The end of a log that no sync has covered is never longer: the writer syncs before it goes on. So
// bytes lost in a power failure are within this distance of the end, and a hole further away is
// damage. Chosen: four of the largest result chunks.
inline constexpr int64_t kMaxUnsyncedBytes = int64_t{16} << 20;

// One line of a file.
struct LogLine {
  absl::string_view text;  // without line end; valid until the next call
  int64_t offset = 0;
  int64_t number = 0;     // from 1
  bool complete = false;  // its line end is there
};

// Reads lines in order with large reads. Not thread-safe; `file` outlives it.
class LineReader {
 public:
  // `offset` is the start of line `first_number`.
  LineReader(File* file, int64_t offset, int64_t first_number);

  // False at the end of the file. A line beyond kMaxLineBytes comes in pieces, none complete but
  // the last: no line of ours is that long. Errors are those of the file.
  absl::StatusOr<bool> Next(LogLine* line);

  // Chosen, not measured: four of the largest answers that a worker accepts.
  static constexpr int64_t kMaxLineBytes = int64_t{64} << 20;

 private:
  absl::Status Fill();

  File* const file_;
  size_t read_bytes_;  // of the next read
  std::string buffer_;
  size_t start_ = 0;  // of the unread part of buffer_
  size_t end_ = 0;
  size_t searched_ = 0;    // no line end before this, from start_
  int64_t buffer_offset_;  // in the file, of buffer_[0]
  int64_t number_;
  bool at_end_ = false;
};

// What a scan of a log's end found. The log is whole up to `keep_bytes`; `torn_bytes` after that
// are the rest of an unfinished write, in which `salvaged` are good lines (with their line ends).
struct LogTail {
  int64_t keep_bytes = 0;
  int64_t torn_bytes = 0;
  int64_t torn_line = 0;  // number of the first torn line, if any
  int64_t lines = 0;      // good ones, from the start of the file, with the salvaged
  std::string salvaged;
};

// Reads `file` from `offset`, which follows `lines_before` lines, and calls `on_line` for each good
// line. Told apart by what a crash can do and what it cannot (docs/file_formats.md):
//   bad lines at the end                    torn: the last write did not reach the disk
//   bad lines with NUL bytes before good    torn, if within kMaxUnsyncedBytes of the end: the pages
//   ones                                    of an unsynced write reach the disk in any order
//   any other bad line before a good one    DataLoss with "line N"
absl::StatusOr<LogTail> ScanLog(File* file, int64_t offset, int64_t lines_before,
                                absl::FunctionRef<void(const ResultLineKey&)> on_line);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_LOG_READER_H_
