#include "coordinator/dataset/row_stream.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"

namespace headrace {

RowIndexTable RowIndexTable::OfEveryRow() {
  RowIndexTable table;
  table.stride_ = 1;
  table.max_entries_ = std::numeric_limits<size_t>::max();
  return table;
}

void RowIndexTable::Add(RowIndex row, RecordStart start) {
  if (row.value() % stride_ != 0) return;
  if (entries_.size() == max_entries_) {
    stride_ *= 2;
    entries_.erase(
        std::remove_if(entries_.begin(), entries_.end(),
                       [this](const Entry& entry) { return entry.row.value() % stride_ != 0; }),
        entries_.end());
    if (row.value() % stride_ != 0) return;
  }
  entries_.push_back({row, start});
}

const RowIndexTable::Entry* RowIndexTable::Find(RowIndex row) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), row,
                       [](RowIndex wanted, const Entry& entry) { return wanted < entry.row; });
  return after == entries_.begin() ? nullptr : &*(after - 1);
}

absl::StatusOr<RowStream> RowStream::Open(std::shared_ptr<InputFile> file, const FileShape& shape,
                                          Sha256* hash) {
  RowStream stream(std::move(file), shape);
  stream.Start(RecordStart(), hash);
  if (shape.format == DatasetFormat::kCsv) {
    Record header;
    HR_RETURN_IF_ERROR(stream.records_->Next(&header).status());
  }
  return stream;
}

void RowStream::Start(RecordStart start, Sha256* hash) {
  records_.reset();
  raw_ = MakeFileSource(file_, start.offset, hash);
  source_ = MakeDecoder(compression_, raw_.get(), path_);
  records_ = format_ == DatasetFormat::kCsv ? MakeCsvReader(source_.get(), delimiter_, start)
                                            : MakeLineReader(source_.get(), start);
}

absl::StatusOr<bool> RowStream::Next(Record* record) {
  HR_ASSIGN_OR_RETURN(const bool found, records_->Next(record));
  if (found) next_row_ = RowIndex(next_row_.value() + 1);
  return found;
}

void RowStream::Jump(const RowIndexTable::Entry& entry) {
  Start(entry.start, nullptr);
  next_row_ = entry.row;
}

absl::Status RowStream::Drain() {
  std::vector<char> buffer(kReadBytes);
  while (true) {
    HR_ASSIGN_OR_RETURN(const size_t size, raw_->Read(buffer.data(), buffer.size()));
    if (size == 0) return absl::OkStatus();
  }
}

}  // namespace headrace
