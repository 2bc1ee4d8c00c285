// The rows of an open dataset in order, and where to find them quickly.
#ifndef HEADRACE_COORDINATOR_DATASET_ROW_STREAM_H_
#define HEADRACE_COORDINATOR_DATASET_ROW_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "coordinator/dataset/byte_source.h"
#include "coordinator/dataset/recognise.h"
#include "coordinator/dataset/record_reader.h"

namespace headrace {

// Where every n-th row begins, with n so large that the index stays small.
class RowIndexTable {
 public:
  static constexpr size_t kMaxEntries = 1 << 14;  // 384 KiB
  static constexpr uint64_t kFirstStride = 256;   // rows

  RowIndexTable() = default;
  // Where each row begins: 24 bytes a row.
  static RowIndexTable OfEveryRow();

  // Rows come in order, each once.
  void Add(RowIndex row, RecordStart start);

  struct Entry {
    RowIndex row;
    RecordStart start;
  };
  // The last known row at or before `row`; null when there is none.
  const Entry* Find(RowIndex row) const;

 private:
  uint64_t stride_ = kFirstStride;
  size_t max_entries_ = kMaxEntries;
  std::vector<Entry> entries_;
};

// Splits the file into records without looking into them. The header of a CSV file is not a record.
// Not thread-safe.
class RowStream {
 public:
  // `hash`, if not null, gets the bytes of the file as they are read.
  static absl::StatusOr<RowStream> Open(std::shared_ptr<InputFile> file, const FileShape& shape,
                                        Sha256* hash);

  // The next record; false at the end. next_row() is its row before the call.
  absl::StatusOr<bool> Next(Record* record);
  RowIndex next_row() const { return next_row_; }
  int64_t blank_lines() const { return records_->blank_lines(); }

  // Goes on at another row; only for uncompressed files.
  void Jump(const RowIndexTable::Entry& entry);
  // Reads what is left of the file, so that the hash is of all of it.
  absl::Status Drain();

 private:
  RowStream(std::shared_ptr<InputFile> file, const FileShape& shape)
      : file_(std::move(file)),
        path_(file_->path()),
        compression_(shape.compression),
        format_(shape.format),
        delimiter_(shape.delimiter) {}
  void Start(RecordStart start, Sha256* hash);

  std::shared_ptr<InputFile> file_;
  std::string path_;
  Compression compression_;
  DatasetFormat format_;
  char delimiter_;
  std::unique_ptr<ByteSource> raw_;
  std::unique_ptr<ByteSource> source_;
  std::unique_ptr<RecordReader> records_;
  RowIndex next_row_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_ROW_STREAM_H_
