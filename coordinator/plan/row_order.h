// In which order the rows of a dataset are taken: that of the file, or another. Pure; never
// changes.
#ifndef HEADRACE_COORDINATOR_PLAN_ROW_ORDER_H_
#define HEADRACE_COORDINATOR_PLAN_ROW_ORDER_H_

#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace headrace {

class RowOrder {
 public:
  // The order of the file.
  RowOrder() = default;
  // `rows[i]` is the i-th to be taken; each of [0, rows.size()) exactly once, or none at all for
  // the order of the file. Eight bytes a row.
  explicit RowOrder(std::vector<uint32_t> rows);

  // Positions and rows are in [0, rows of the dataset).
  RowIndex At(int64_t position) const {
    return RowIndex(rows_.empty() ? static_cast<uint64_t>(position)
                                  : rows_[static_cast<size_t>(position)]);
  }
  int64_t PositionOf(RowIndex row) const {
    return positions_.empty() ? static_cast<int64_t>(row.value()) : positions_[row.value()];
  }

 private:
  std::vector<uint32_t> rows_;       // by position
  std::vector<uint32_t> positions_;  // by row
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_ROW_ORDER_H_
