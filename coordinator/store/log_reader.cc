#include "coordinator/store/log_reader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace {
namespace {

// One read(2): small at first, because most logs are, then large enough for the speed of the disk.
constexpr size_t kFirstReadBytes = size_t{64} << 10;
constexpr size_t kMaxReadBytes = size_t{4} << 20;

bool HasNul(absl::string_view text) {
  return std::memchr(text.data(), '\0', text.size()) != nullptr;
}

}  // namespace

LineReader::LineReader(File* file, int64_t offset, int64_t first_number)
    : file_(file), read_bytes_(kFirstReadBytes), buffer_offset_(offset), number_(first_number) {}

absl::Status LineReader::Fill() {
  // The unread part moves to the front; it is at most one line.
  std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
  buffer_offset_ += static_cast<int64_t>(start_);
  end_ -= start_;
  start_ = 0;
  if (buffer_.size() < end_ + read_bytes_) buffer_.resize(end_ + read_bytes_);
  const auto wanted = static_cast<int64_t>(read_bytes_);
  HR_ASSIGN_OR_RETURN(const int64_t got, file_->ReadAt(buffer_offset_ + static_cast<int64_t>(end_),
                                                       wanted, buffer_.data() + end_));
  end_ += static_cast<size_t>(got);
  at_end_ = got < wanted;
  read_bytes_ = std::min(2 * read_bytes_, kMaxReadBytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::Next(LogLine* line) {
  const void* found = nullptr;
  while (true) {
    const char* const from = buffer_.data() + start_ + searched_;
    const size_t left = end_ - start_ - searched_;
    found = left == 0 ? nullptr : std::memchr(from, '\n', left);
    searched_ = end_ - start_;
    if (found != nullptr || at_end_ || end_ - start_ >= size_t{kMaxLineBytes}) break;
    HR_RETURN_IF_ERROR(Fill());
  }
  searched_ = 0;
  if (start_ == end_) return false;
  const char* const begin = buffer_.data() + start_;
  const size_t size = found != nullptr
                          ? static_cast<size_t>(static_cast<const char*>(found) - begin)
                          : end_ - start_;
  line->text = absl::string_view(begin, size);
  line->offset = buffer_offset_ + static_cast<int64_t>(start_);
  line->number = number_;
  line->complete = found != nullptr;
  start_ += size + (found != nullptr ? 1 : 0);
  if (found != nullptr) ++number_;
  return true;
}

absl::StatusOr<LogTail> ScanLog(File* file, int64_t offset, int64_t lines_before,
                                absl::FunctionRef<void(const ResultLineKey&)> on_line) {
  HR_ASSIGN_OR_RETURN(const int64_t file_size, file->Size());
  LogTail tail;
  tail.keep_bytes = offset;
  tail.lines = lines_before;
  LineReader reader(file, offset, lines_before + 1);
  LogLine line;
  // The bad lines since the last good one.
  int64_t bad_line = 0;
  int64_t bad_offset = 0;
  bool bad_has_nul = false;
  std::string reason;
  while (true) {
    HR_ASSIGN_OR_RETURN(const bool more, reader.Next(&line));
    if (!more) break;
    const absl::StatusOr<ResultLineKey> key = CheckResultLine(line.text);
    if (!key.ok() || !line.complete) {
      if (bad_line == 0) {
        bad_line = line.number;
        bad_offset = line.offset;
        bad_has_nul = false;
        reason = std::string(key.status().message());
      }
      if (tail.torn_line == 0) tail.torn_line = line.number;
      bad_has_nul = bad_has_nul || HasNul(line.text);
      continue;
    }
    if (bad_line != 0) {
      if (!bad_has_nul || file_size - bad_offset > kMaxUnsyncedBytes) {
        return absl::DataLossError(
            absl::StrCat("line ", bad_line, " is damaged (", reason, ") and good lines follow it"));
      }
      bad_line = 0;
    }
    if (tail.torn_line == 0) {
      tail.keep_bytes = line.offset + static_cast<int64_t>(line.text.size()) + 1;
    } else {
      absl::StrAppend(&tail.salvaged, line.text, "\n");
    }
    ++tail.lines;
    on_line(*key);
  }
  tail.torn_bytes = tail.torn_line == 0 ? 0 : file_size - tail.keep_bytes;
  return tail;
}

}  // namespace headrace
