#include "coordinator/dataset/row_ids.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <queue>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/dataset/scratch_file.h"

namespace headrace {

// One sorted run, read back through a small buffer.
class RowIds::Run {
 public:
  Run(int fd, int64_t begin, int64_t end) : fd_(fd), next_(begin), end_(end) {}

  const Entry& head() const { return buffer_[position_]; }

  // Moves on to the next entry, the first one at first; false at the end.
  absl::StatusOr<bool> Advance() {
    if (started_ && ++position_ < buffer_.size()) return true;
    started_ = true;
    if (next_ == end_) return false;
    constexpr size_t kEntries = kMergeBytes / sizeof(Entry);
    const size_t left = static_cast<size_t>(end_ - next_) / sizeof(Entry);
    buffer_.resize(std::min(kEntries, left));
    position_ = 0;
    size_t done = 0;
    const size_t want = buffer_.size() * sizeof(Entry);
    while (done < want) {
      const ssize_t size = pread(fd_, reinterpret_cast<char*>(buffer_.data()) + done, want - done,
                                 next_ + static_cast<int64_t>(done));
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return ErrnoStatus(size < 0 ? errno : EIO, "reading the file of row ids");
      done += static_cast<size_t>(size);
    }
    next_ += static_cast<int64_t>(want);
    return true;
  }

 private:
  const int fd_;
  int64_t next_;
  const int64_t end_;
  std::vector<Entry> buffer_;
  size_t position_ = 0;
  bool started_ = false;
};

// Takes all entries in order and keeps the duplicates that come first in the dataset.
class RowIds::Collector {
 public:
  void Take(const Entry& entry) {
    if (!last_.has_value() || last_->hash != entry.hash) {
      last_ = entry;
      return;
    }
    ++result_.count;
    const auto later = [](const Duplicate& a, const Duplicate& b) { return a.second < b.second; };
    std::vector<Duplicate>& heap = result_.duplicates;
    heap.push_back({RowIndex(last_->row), RowIndex(entry.row)});
    std::push_heap(heap.begin(), heap.end(), later);
    if (heap.size() <= kMaxReported) return;
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
  }

  Result Finish() {
    std::sort(result_.duplicates.begin(), result_.duplicates.end(),
              [](const Duplicate& a, const Duplicate& b) { return a.second < b.second; });
    return std::move(result_);
  }

 private:
  std::optional<Entry> last_;  // the first of the equal ones
  Result result_;
};

RowIds::RowIds(std::string scratch_dir, size_t in_memory)
    : scratch_dir_(std::move(scratch_dir)), in_memory_(std::max<size_t>(in_memory, 1)) {}

RowIds::~RowIds() {
  if (fd_ >= 0) close(fd_);
}

absl::Status RowIds::Add(absl::string_view id, RowIndex row) {
  if (entries_.size() == in_memory_) HR_RETURN_IF_ERROR(Spill());
  entries_.push_back({HashText(id), row.value()});
  return absl::OkStatus();
}

absl::Status RowIds::Spill() {
  if (fd_ < 0) {
    HR_ASSIGN_OR_RETURN(fd_, OpenScratchFile(scratch_dir_));
  }
  std::sort(entries_.begin(), entries_.end());
  const absl::string_view data(reinterpret_cast<const char*>(entries_.data()),
                               entries_.size() * sizeof(Entry));
  HR_RETURN_IF_ERROR(WriteAll(fd_, data, "writing the file of row ids"));
  const int64_t begin = spilled_bytes_;
  spilled_bytes_ += static_cast<int64_t>(data.size());
  runs_.emplace_back(begin, spilled_bytes_);
  entries_.clear();
  return absl::OkStatus();
}

absl::StatusOr<RowIds::Result> RowIds::Find() {
  Collector collector;
  if (runs_.empty()) {
    std::sort(entries_.begin(), entries_.end());
    for (const Entry& entry : entries_) collector.Take(entry);
    return collector.Finish();
  }
  if (!entries_.empty()) HR_RETURN_IF_ERROR(Spill());
  std::vector<Entry>().swap(entries_);
  std::vector<std::unique_ptr<Run>> runs;
  const auto later = [](const Run* a, const Run* b) { return a->head() > b->head(); };
  std::priority_queue<Run*, std::vector<Run*>, decltype(later)> queue(later);
  for (const auto& [begin, end] : runs_) {
    runs.push_back(std::make_unique<Run>(fd_, begin, end));
    HR_ASSIGN_OR_RETURN(const bool more, runs.back()->Advance());
    if (more) queue.push(runs.back().get());
  }
  while (!queue.empty()) {
    Run* const run = queue.top();
    queue.pop();
    collector.Take(run->head());
    HR_ASSIGN_OR_RETURN(const bool more, run->Advance());
    if (more) queue.push(run);
  }
  return collector.Finish();
}

}  // namespace headrace
