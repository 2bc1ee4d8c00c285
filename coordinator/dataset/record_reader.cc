#include "coordinator/dataset/record_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace {
namespace {

// The part of the stream that is being split: bytes [begin, end) of a buffer that moves along.
class Window {
 public:
  Window(ByteSource* source, int64_t offset) : source_(source), offset_(offset) {
    Resize(kReadBytes);
  }

  const char* data() const { return buffer_.get() + begin_; }
  size_t size() const { return end_ - begin_; }
  int64_t offset() const { return offset_; }  // of data() in the stream
  bool at_end() const { return at_end_; }

  // Drops the first `size` bytes. Pointers into the window stay good until Fill().
  void Drop(size_t size) {
    begin_ += size;
    offset_ += static_cast<int64_t>(size);
  }

  // Appends at least one byte, or sets at_end().
  absl::Status Fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.get(), data(), size());
      end_ -= begin_;
      begin_ = 0;
    }
    // A long record made the buffer grow: it goes back once that is over.
    if (capacity_ > kReadBytes && end_ < kReadBytes / 2) Resize(kReadBytes);
    if (capacity_ - end_ < kReadBytes / 2) Resize(capacity_ * 2);
    HR_ASSIGN_OR_RETURN(const size_t size, source_->Read(buffer_.get() + end_, capacity_ - end_));
    end_ += size;
    at_end_ = size == 0;
    return absl::OkStatus();
  }

 private:
  void Resize(size_t capacity) {
    // Without initialisation: untouched pages of the buffer cost no memory.
    std::unique_ptr<char[]> bigger(new char[capacity + kRecordPadding]);
    std::memset(bigger.get() + capacity, 0, kRecordPadding);
    if (end_ > 0) std::memcpy(bigger.get(), buffer_.get(), end_);
    buffer_ = std::move(bigger);
    capacity_ = capacity;
  }

  ByteSource* const source_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t offset_;
  bool at_end_ = false;
};

// What both formats share: the window, the byte order mark, records that are too long.
class ReaderBase : public RecordReader {
 public:
  ReaderBase(ByteSource* source, RecordStart start)
      : window_(source, start.offset), at_start_(start.offset == 0), line_(start.line) {}

  int64_t blank_lines() const override { return blank_lines_; }

  absl::StatusOr<bool> Next(Record* record) override {
    if (at_start_) HR_RETURN_IF_ERROR(SkipByteOrderMark());
    while (true) {
      HR_ASSIGN_OR_RETURN(const bool found, NextRaw(record));
      if (!found) return false;
      if (record->too_long || !IsBlank(record->text)) return true;
      ++blank_lines_;
    }
  }

 protected:
  // Looks from *scan on for the end of the record that begins at the window's start. True, with
  // *scan at its line feed, when it is there; else *scan is where to go on.
  virtual bool FindEnd(size_t* scan) = 0;
  virtual void BeginRecord() = 0;
  virtual bool IsBlank(absl::string_view text) const = 0;
  // The lines that `text` takes, apart from its own line end.
  virtual int64_t InnerLines(absl::string_view text) const = 0;
  // True when a CR at the end of the record belongs to its line end.
  virtual bool StripsCr() const = 0;

  const Window& window() const { return window_; }

 private:
  absl::Status SkipByteOrderMark() {
    at_start_ = false;
    while (window_.size() < 3 && !window_.at_end()) HR_RETURN_IF_ERROR(window_.Fill());
    if (window_.size() >= 3 && std::memcmp(window_.data(), "\xEF\xBB\xBF", 3) == 0) {
      window_.Drop(3);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> NextRaw(Record* record) {
    BeginRecord();
    size_t scan = 0;
    *record = Record();
    record->line = line_;
    record->offset = window_.offset();
    while (!FindEnd(&scan)) {
      if (window_.at_end()) {
        if (window_.size() == 0 && !record->too_long) return false;
        FinishRecord(window_.size(), 0, record);
        return true;
      }
      if (window_.size() > kMaxRecordBytes) {
        record->too_long = true;
        line_ += InnerLines(absl::string_view(window_.data(), window_.size()));
        window_.Drop(window_.size());
        scan = 0;
      }
      HR_RETURN_IF_ERROR(window_.Fill());
    }
    FinishRecord(scan, 1, record);
    return true;
  }

  void FinishRecord(size_t size, size_t line_end, Record* record) {
    absl::string_view text(window_.data(), size);
    if (StripsCr() && !text.empty() && text.back() == '\r') text.remove_suffix(1);
    line_ += 1 + InnerLines(text);
    record->too_long = record->too_long || size > kMaxRecordBytes;
    if (!record->too_long) record->text = text;
    window_.Drop(size + line_end);
  }

  Window window_;
  bool at_start_;
  int64_t line_;
  int64_t blank_lines_ = 0;
};

class LineReader : public ReaderBase {
 public:
  using ReaderBase::ReaderBase;

 private:
  bool FindEnd(size_t* scan) override {
    const char* const data = window().data();
    const void* const found = std::memchr(data + *scan, '\n', window().size() - *scan);
    *scan = found != nullptr ? static_cast<size_t>(static_cast<const char*>(found) - data)
                             : window().size();
    return found != nullptr;
  }
  void BeginRecord() override {}
  bool IsBlank(absl::string_view text) const override {
    return text.find_first_not_of(" \t\r") == absl::string_view::npos;
  }
  int64_t InnerLines(absl::string_view text) const override { return 0; }
  bool StripsCr() const override { return true; }
};

class CsvReader : public ReaderBase {
 public:
  CsvReader(ByteSource* source, char delimiter, RecordStart start)
      : ReaderBase(source, start), delimiter_(delimiter) {}

 private:
  enum class State { kCellStart, kPlain, kQuoted, kQuoteInQuoted };

  bool FindEnd(size_t* scan) override {
    const char* const data = window().data();
    const size_t size = window().size();
    size_t i = *scan;
    for (; i < size; ++i) {
      const char c = data[i];
      if (state_ == State::kQuoted) {
        const void* const quote = std::memchr(data + i, '"', size - i);
        if (quote == nullptr) {
          i = size;
          break;
        }
        i = static_cast<size_t>(static_cast<const char*>(quote) - data);
        state_ = State::kQuoteInQuoted;
      } else if (c == '\n') {
        *scan = i;
        return true;
      } else if (c == delimiter_) {
        state_ = State::kCellStart;
      } else if (c == '"' && state_ != State::kPlain) {
        quoted_ = true;
        state_ = State::kQuoted;
      } else {
        state_ = State::kPlain;
      }
    }
    *scan = i;
    return false;
  }
  void BeginRecord() override {
    state_ = State::kCellStart;
    quoted_ = false;
  }
  bool IsBlank(absl::string_view text) const override { return text.empty(); }
  int64_t InnerLines(absl::string_view text) const override {
    return quoted_ ? std::count(text.begin(), text.end(), '\n') : 0;
  }
  bool StripsCr() const override { return state_ != State::kQuoted; }

  const char delimiter_;
  State state_ = State::kCellStart;
  bool quoted_ = false;  // the record has a quoted cell, so it may have line ends inside
};

}  // namespace

std::unique_ptr<RecordReader> MakeLineReader(ByteSource* source, RecordStart start) {
  return std::make_unique<LineReader>(source, start);
}

std::unique_ptr<RecordReader> MakeCsvReader(ByteSource* source, char delimiter, RecordStart start) {
  return std::make_unique<CsvReader>(source, delimiter, start);
}

std::string ParseCsvRecord(absl::string_view record, char delimiter,
                           std::vector<std::string>* cells) {
  std::string problem;
  size_t count = 0;
  size_t i = 0;
  while (true) {
    if (count == cells->size()) cells->emplace_back();
    std::string& cell = (*cells)[count++];
    cell.clear();
    if (i < record.size() && record[i] == '"') {
      ++i;
      while (true) {
        const size_t quote = record.find('"', i);
        if (quote == absl::string_view::npos) {
          cell.append(record.data() + i, record.size() - i);
          i = record.size();
          problem = absl::StrCat("cell ", count, " has a quote that is never closed");
          break;
        }
        cell.append(record.data() + i, quote - i);
        i = quote + 1;
        if (i >= record.size() || record[i] != '"') break;
        cell += '"';
        ++i;
      }
    }
    const size_t end = std::min(record.find(delimiter, i), record.size());
    if (end > i) {
      if (i > 0 && record[i - 1] == '"' && problem.empty()) {
        problem = absl::StrCat("cell ", count, " has text after its closing quote");
      }
      cell.append(record.data() + i, end - i);
    }
    i = end + 1;
    if (end == record.size()) break;
  }
  cells->resize(count);
  return problem;
}

}  // namespace headrace
