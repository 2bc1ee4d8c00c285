// What a pool was charged in the last minute, for people; admission does not read it.
#ifndef HEADRACE_COMMON_QUOTA_USAGE_RING_H_
#define HEADRACE_COMMON_QUOTA_USAGE_RING_H_

#include <array>
#include <cstdint>

#include "common/quota/quota.h"

namespace headrace::quota {

// Cells of one second of send time: a settlement corrects the cell of the send, or nothing once
// that cell is over a minute old.
class UsageRing {
 public:
  // Send times are at most this far in the future.
  static constexpr int64_t kMaxAheadUs = 60'000'000;

  void Add(int64_t send_at_us, const Costs& costs) {
    Cell& cell = cells_[Second(send_at_us) % kCells];
    if (cell.second < Second(send_at_us)) cell = Cell{Second(send_at_us), {}};
    if (cell.second != Second(send_at_us)) return;
    for (size_t i = 0; i < kDimensionCount; ++i) cell.costs[i] += costs[i];
  }

  Costs LastMinute(int64_t now_us) const {
    Costs sum{};
    for (const Cell& cell : cells_) {
      if (cell.second > Second(now_us) || cell.second <= Second(now_us) - 60) continue;
      for (size_t i = 0; i < kDimensionCount; ++i) sum[i] += cell.costs[i];
    }
    return sum;
  }

 private:
  static constexpr size_t kCells = 128;
  static int64_t Second(int64_t us) { return us / 1'000'000; }

  struct Cell {
    int64_t second = -1;
    Costs costs{};
  };
  std::array<Cell, kCells> cells_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_USAGE_RING_H_
