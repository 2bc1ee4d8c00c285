#include "coordinator/dataset/dataset.h"

#include <unistd.h>

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
#include "coordinator/dataset/scratch_file.h"

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
    if (row.value() >= limit_) return std::nullopt;
    if (index_ != nullptr) {
      const RowIndexTable::Entry* const entry = index_->Find(row);
      const bool back = row < stream_.next_row();
      if (entry != nullptr && (back || entry->row > stream_.next_row())) stream_.Jump(*entry);
    }
    HR_CHECK(row >= stream_.next_row()) << "a cursor cannot go back";
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
  FileDataset(std::shared_ptr<InputFile> file, FileShape shape, RowPlan plan, const DatasetJob& job)
      : file_(std::move(file)),
        shape_(std::move(shape)),
        plan_(std::move(plan)),
        order_(job.order),
        limit_(job.limit == 0 ? std::numeric_limits<uint64_t>::max()
                              : static_cast<uint64_t>(job.limit)) {}

  absl::StatusOr<DatasetInfo> Scan(const std::string& scratch_dir) override {
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    const bool ordered = order_ != RowOrdering::kFile;
    RowIndexTable index = ordered ? RowIndexTable::OfEveryRow() : RowIndexTable();
    Scanner scanner(file_, &shape_, &plan_, limit_, scratch_dir, order_);
    HR_ASSIGN_OR_RETURN(DatasetInfo info, scanner.Run(&index));
    info.compression = std::string(CompressionName(shape_.compression));
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    if (!info.order.empty()) {
      if (shape_.compression != Compression::kNone) HR_RETURN_IF_ERROR(Unpack(scratch_dir));
      seekable_ = true;
    }
    if (shape_.compression == Compression::kNone) index_ = std::move(index);
    return info;
  }

  absl::StatusOr<std::unique_ptr<RowCursor>> NewCursor() const override {
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    HR_ASSIGN_OR_RETURN(RowStream stream, RowStream::Open(file_, shape_, nullptr));
    return std::make_unique<FileCursor>(&plan_, std::move(stream),
                                        index_.has_value() ? &*index_ : nullptr, limit_);
  }

  bool seekable() const override { return seekable_; }
  DatasetFormat format() const override { return shape_.format; }

 private:
  // Rows of a compressed file can only be reached one by one: from here on the dataset is a copy.
  absl::Status Unpack(const std::string& scratch_dir) {
    HR_ASSIGN_OR_RETURN(const int fd, OpenScratchFile(scratch_dir));
    const absl::Status written = UnpackTo(fd);
    if (!written.ok()) {
      close(fd);
      return written;
    }
    HR_ASSIGN_OR_RETURN(file_, InputFile::Adopt(fd, file_->path()));
    shape_.compression = Compression::kNone;
    return absl::OkStatus();
  }

  absl::Status UnpackTo(int fd) const {
    const std::unique_ptr<ByteSource> raw = MakeFileSource(file_, 0, nullptr);
    const std::unique_ptr<ByteSource> source =
        MakeDecoder(shape_.compression, raw.get(), file_->path());
    std::vector<char> buffer(kReadBytes);
    while (true) {
      HR_ASSIGN_OR_RETURN(const size_t size, source->Read(buffer.data(), buffer.size()));
      if (size == 0) return absl::OkStatus();
      HR_RETURN_IF_ERROR(
          WriteAll(fd, absl::string_view(buffer.data(), size),
                   absl::StrCat("unpacking dataset ", file_->path(), " for dataset.order")));
    }
  }

  // Changed by Scan() only, before there is a cursor.
  std::shared_ptr<InputFile> file_;
  FileShape shape_;
  bool seekable_ = false;
  const RowPlan plan_;
  const RowOrdering order_;
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
  return std::make_unique<FileDataset>(std::move(file), std::move(shape), std::move(plan), job);
}

}  // namespace headrace
