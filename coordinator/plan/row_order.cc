#include "coordinator/plan/row_order.h"

#include <limits>
#include <utility>

#include "common/base/log.h"

namespace headrace {

RowOrder::RowOrder(std::vector<uint32_t> rows) : rows_(std::move(rows)) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  HR_CHECK(rows_.size() < kNone);
  positions_.assign(rows_.size(), kNone);
  for (uint32_t position = 0; position < rows_.size(); ++position) {
    const uint32_t row = rows_[position];
    HR_CHECK(row < rows_.size() && positions_[row] == kNone) << "row " << row << " twice";
    positions_[row] = position;
  }
}

}  // namespace headrace
