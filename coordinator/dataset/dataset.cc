#include "coordinator/dataset/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/dataset/renderer.h"
#include "coordinator/dataset/row_stream.h"
#include "coordinator/dataset/scanner.h"

namespace headrace {
namespace {

absl::string_view CompressionName(Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
    case Compression::kNone:
      break;
  }
  return "";
}

class FileCursor : public RowCursor {
 public:
  FileCursor(const RowPlan* plan, RowStream stream, const RowIndexTable* index, uint64_t limit)
      : plan_(*plan),
        stream_(std::move(stream)),
        renderer_(MakeRenderer(plan)),
        index_(index),
        limit_(limit) {}

  absl::StatusOr<std::optional<RenderedRow>> ReadAt(RowIndex row) override {
    HR_CHECK(row >= stream_.next_row()) << "a cursor cannot go back";
    if (row.value() >= limit_) return std::nullopt;
    if (index_ != nullptr) {
      const RowIndexTable::Entry* const entry = index_->Find(row);
      if (entry != nullptr && entry->row > stream_.next_row()) stream_.Jump(*entry);
    }
    Record record;
    RowIndex at;
    do {
      at = stream_.next_row();
      HR_ASSIGN_OR_RETURN(const bool found, stream_.Next(&record));
      if (!found) return std::nullopt;
    } while (at < row);
    RenderedRow rendered;
    rendered.row = at;
    rendered.line = record.line;
    RenderRecord(plan_, record, renderer_.get(), nullptr, &rendered);
    return rendered;
  }

 private:
  const RowPlan& plan_;
  RowStream stream_;
  const std::unique_ptr<RowRenderer> renderer_;
  const RowIndexTable* const index_;  // null: rows are reached one by one
  const uint64_t limit_;
};

class FileDataset : public Dataset {
 public:
  FileDataset(std::shared_ptr<InputFile> file, FileShape shape, RowPlan plan, int64_t limit)
      : file_(std::move(file)),
        shape_(std::move(shape)),
        plan_(std::move(plan)),
        limit_(limit == 0 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(limit)) {}

  absl::StatusOr<DatasetInfo> Scan(const std::string& scratch_dir) override {
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    RowIndexTable index;
    Scanner scanner(file_, &shape_, &plan_, limit_, scratch_dir);
    HR_ASSIGN_OR_RETURN(DatasetInfo info, scanner.Run(&index));
    info.compression = std::string(CompressionName(shape_.compression));
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    if (shape_.compression == Compression::kNone) index_ = std::move(index);
    return info;
  }

  absl::StatusOr<std::unique_ptr<RowCursor>> NewCursor() const override {
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    HR_ASSIGN_OR_RETURN(RowStream stream, RowStream::Open(file_, shape_, nullptr));
    return std::make_unique<FileCursor>(&plan_, std::move(stream),
                                        index_.has_value() ? &*index_ : nullptr, limit_);
  }

  DatasetFormat format() const override { return shape_.format; }

 private:
  const std::shared_ptr<InputFile> file_;
  const FileShape shape_;
  const RowPlan plan_;
  const uint64_t limit_;
  std::optional<RowIndexTable> index_;
};

}  // namespace

absl::string_view DatasetFormatName(DatasetFormat format) {
  switch (format) {
    case DatasetFormat::kJsonl:
      return "JSONL";
    case DatasetFormat::kCsv:
      return "CSV";
    case DatasetFormat::kOpenAiBatch:
      return "OpenAI Batch";
  }
  return "JSONL";
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(const DatasetJob& job) {
  HR_ASSIGN_OR_RETURN(std::shared_ptr<InputFile> file, InputFile::Open(job.path));
  HR_ASSIGN_OR_RETURN(FileShape shape, RecogniseFile(file, !job.prompt.empty()));
  HR_ASSIGN_OR_RETURN(RowPlan plan, MakeRowPlan(job, shape.format, shape.delimiter, shape.header));
  return std::make_unique<FileDataset>(std::move(file), std::move(shape), std::move(plan),
                                       job.limit);
}

}  // namespace headrace
