#include "common/quota/ring.h"

#include <algorithm>

namespace headrace::quota {
namespace {

// Cells of 250 ms for a minute, as measured for quota.md 3.3; at least 40 to a window, so that the
// rounding to cells costs little; at most 256, so that the state of a day stays small.
constexpr int64_t kLongCellUs = 250'000;
constexpr int64_t kLeastCells = 40;
constexpr int64_t kMostCells = 256;

int64_t CellUs(int64_t width_us) {
  const int64_t cell_us = std::min(kLongCellUs, width_us / kLeastCells);
  return std::max(cell_us, width_us / kMostCells);
}

}  // namespace

Ring::Ring(int64_t size, int64_t width_us, int64_t guard_us)
    : size_(size),
      width_us_(width_us),
      cell_us_(CellUs(width_us)),
      span_((width_us + guard_us + cell_us_ - 1) / cell_us_ + 1) {}

void Ring::Fill(int64_t now_us) {
  cells_.clear();
  low_ = now_us / cell_us_ - span_ + 1;
  sum_ = size_;
  const int64_t count = span_ - 1;
  for (int64_t i = 0; i < count; ++i) {
    cells_.push_back((i + 1) * size_ / count - i * size_ / count);
  }
}

void Ring::Roll(int64_t now_us) {
  const int64_t first = now_us / cell_us_ - span_ + 1;
  while (low_ < first && !cells_.empty()) {
    sum_ -= cells_.front();
    cells_.pop_front();
    ++low_;
  }
  low_ = std::max(low_, first);
}

int64_t Ring::FitAt(int64_t at_us, int64_t cost, int64_t room) const {
  const int64_t most = cost > room ? 0 : room - cost;  // that others may hold
  const int64_t first = at_us / cell_us_ - span_ + 1;
  int64_t held = sum_;
  for (size_t i = 0; i < cells_.size(); ++i) {
    const int64_t cell = low_ + static_cast<int64_t>(i);
    if (cell >= first && held <= most) return std::max(at_us, (cell - 1 + span_) * cell_us_);
    held -= cells_[i];
  }
  // Only an empty ring is left to fit into.
  const int64_t end = low_ + static_cast<int64_t>(cells_.size());
  return std::max(at_us, (end - 1 + span_) * cell_us_);
}

void Ring::Add(int64_t at_us, int64_t units) {
  const int64_t index = at_us / cell_us_ - low_;
  if (index < 0) return;
  if (index >= static_cast<int64_t>(cells_.size())) cells_.resize(static_cast<size_t>(index) + 1);
  cells_[static_cast<size_t>(index)] += units;
  sum_ += units;
}

int64_t Ring::Used(int64_t at_us) const {
  const int64_t first = at_us / cell_us_ - span_ + 1;
  int64_t held = sum_;
  for (int64_t i = 0; i < first - low_ && i < static_cast<int64_t>(cells_.size()); ++i) {
    held -= cells_[static_cast<size_t>(i)];
  }
  return held;
}

int64_t Ring::Between(int64_t from_us, int64_t to_us) const {
  int64_t held = 0;
  for (size_t i = 0; i < cells_.size(); ++i) {
    const int64_t cell = low_ + static_cast<int64_t>(i);
    if (cell >= from_us / cell_us_ && cell <= to_us / cell_us_) held += cells_[i];
  }
  return held;
}

}  // namespace headrace::quota
