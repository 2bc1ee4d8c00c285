// Distinct integer types for identities, so that a batch id never goes where an item id belongs.
#ifndef HEADRACE_COMMON_BASE_IDS_H_
#define HEADRACE_COMMON_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace {

// An integer that only compares, hashes and prints. `Tag` makes the types distinct.
template <typename Tag, typename Rep = uint64_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  explicit constexpr StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  template <typename H>
  friend H AbslHashValue(H state, StrongId id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& os, StrongId id) { return os << id.value_; }

 private:
  Rep value_ = 0;
};

// The n-th record of the dataset, from 0. The header of a CSV file is not a row.
using RowIndex = StrongId<struct RowIndexTag>;
// The n-th model of the job, from 0.
using ModelIndex = StrongId<struct ModelIndexTag, uint32_t>;
// One row for one model: row * number of models + model.
using ItemId = StrongId<struct ItemIdTag>;
// A batch within one coordinator run directory; never reused, also not after a restart.
using BatchId = StrongId<struct BatchIdTag>;
// The n-th grant of one batch, from 1; a lower epoch is a stale lease.
using Epoch = StrongId<struct EpochTag, uint32_t>;

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_IDS_H_
