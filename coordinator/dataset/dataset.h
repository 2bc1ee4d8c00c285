// Datasets: rows in, items out. A dataset is read sequentially and never held in memory, whatever
// its size; compressed or not, JSONL, CSV or OpenAI Batch input.
#ifndef HEADRACE_COORDINATOR_DATASET_DATASET_H_
#define HEADRACE_COORDINATOR_DATASET_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "coordinator/job/job.h"

namespace headrace {

// One row, rendered: what a request is made of.
struct RenderedRow {
  RowIndex row;
  int64_t line = 0;       // in the (decompressed) file, from 1
  std::string custom_id;  // "row:N" when the row has no usable id
  std::string user;
  std::string system;
  std::string expected;
  std::string body;           // OpenAI Batch: the request body, byte for byte
  std::string url;            // OpenAI Batch: the API's path
  std::string messages_json;  // rows with a "messages" array and no prompt template
  std::string error;          // not empty: the row gives no request, and why, with line and field
};

enum class DatasetFormat { kJsonl, kCsv, kOpenAiBatch };
absl::string_view DatasetFormatName(DatasetFormat format);

// What one pass over the whole file finds.
struct DatasetInfo {
  DatasetFormat format = DatasetFormat::kJsonl;
  std::string compression;  // "", "gzip" or "zstd"
  int64_t rows = 0;
  int64_t bytes = 0;        // of the file as it is
  std::string sha256;       // of the file as it is, hex
  int64_t bad_rows = 0;     // rows that give no request
  int64_t blank_lines = 0;  // skipped; they are no rows
  // The rows in the order to take them, when DatasetJob::order asks for one that differs from the
  // file's; else empty.
  std::vector<uint32_t> order;
  int64_t remarks = 0;  // rows that give a request which a provider will probably refuse
  std::vector<std::string> problems;  // the first kMaxProblems bad rows and remarks, each with
                                      // file, line and field
};
inline constexpr size_t kMaxProblems = 20;

// Reads rows in order. Not thread-safe; one thread at a time.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  // The next row that is at or after `row`; empty at the end. `row` may go back only when the
  // dataset is seekable(). A bad row is a row with `error`; a Status means that the file itself
  // cannot be read on.
  virtual absl::StatusOr<std::optional<RenderedRow>> ReadAt(RowIndex row) = 0;
};

// Blocking: for a thread that may wait for the disk. Thread-safe after Open: cursors are
// independent.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Recognises the format by content, compiles the templates. Errors name file, line and field.
  //   NotFound, PermissionDenied, ...  the file cannot be opened
  //   InvalidArgument                  a URL, a directory, a format that is not read, a bad
  //   template
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(const DatasetJob& job);

  // Reads everything once: counts, fingerprints, checks every row and the uniqueness of ids in
  // bounded memory (spilling to `scratch_dir` when there are very many). For another order than the
  // file's: 80 bytes a row meanwhile and 32 afterwards, and a compressed file is unpacked into
  // `scratch_dir`, without a name. InvalidArgument on an
  // empty dataset, duplicate ids, text that is not UTF-8, damaged compressed data, a template field
  // that no row has, or when no row at all gives a request. Once, from one thread, before
  // NewCursor(): it lets cursors of uncompressed files jump.
  virtual absl::StatusOr<DatasetInfo> Scan(const std::string& scratch_dir) = 0;

  // FailedPrecondition when the file was changed since Open(). The dataset must outlive the cursor.
  virtual absl::StatusOr<std::unique_ptr<RowCursor>> NewCursor() const = 0;

  // Cursors reach each row at once, in any order: the dataset was opened for another order than the
  // file's and scanned.
  virtual bool seekable() const = 0;

  virtual DatasetFormat format() const = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_DATASET_H_
