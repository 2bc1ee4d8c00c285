// Splits a stream of bytes into records: lines of JSONL, or records of CSV.
#ifndef HEADRACE_COORDINATOR_DATASET_RECORD_READER_H_
#define HEADRACE_COORDINATOR_DATASET_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/dataset/byte_source.h"

namespace headrace {

// A longer record is skipped and reported as too long; what comes after it is read on.
inline constexpr size_t kMaxRecordBytes = size_t{64} << 20;

struct Record {
  absl::string_view text;  // without its line end; until the next Next(). kRecordPadding bytes
                           // after its end are readable. Empty when too long.
  int64_t line = 0;        // of its first byte, from 1
  int64_t offset = 0;      // of its first byte in the decompressed file
  bool too_long = false;
};
inline constexpr size_t kRecordPadding = 64;  // SIMDJSON_PADDING of simdjson 3.0

// Where a reader begins. Only offset 0 can hold a byte order mark, which is skipped.
struct RecordStart {
  int64_t offset = 0;
  int64_t line = 1;
};

// Memory: one buffer of kReadBytes, more only while a record is longer. Not thread-safe.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // False at the end. Blank lines are skipped and counted.
  virtual absl::StatusOr<bool> Next(Record* record) = 0;
  virtual int64_t blank_lines() const = 0;
};
inline constexpr size_t kReadBytes = size_t{256} << 10;

// JSONL: a record ends at LF and only there, and one CR before the LF belongs to the line end. A
// line of spaces and tabs is blank. `source` must outlive the reader and begin at `start`.
std::unique_ptr<RecordReader> MakeLineReader(ByteSource* source, RecordStart start);

// CSV by RFC 4180 with LF or CRLF line ends: line ends inside quotes belong to the record, a quote
// opens only at the start of a cell. An empty line is blank.
std::unique_ptr<RecordReader> MakeCsvReader(ByteSource* source, char delimiter, RecordStart start);

// The cells of one CSV record, unquoted. Every cell is text. Returns what is wrong with the record,
// empty when nothing is: an open quote, or text after a closing one.
std::string ParseCsvRecord(absl::string_view record, char delimiter,
                           std::vector<std::string>* cells);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_RECORD_READER_H_
