// Gathers what the answers of one worker say about the limits, so that the store hears of it
// seldom.
#ifndef HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_
#define HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

class Observations {
 public:
  // The one to tell the store now, if any: the median of the last second by what is in excess, once
  // there are enough of them, so that one answer out of order says nothing; a limit that changed
  // and a 429's own figures at once.
  std::optional<Observation> Add(MonoTime now, const Observation& observation);

 private:
  // quota.md 3.5 asks for the median of 8 in a second. A pool with fewer answers than that needs
  // fewer: it also moves more slowly.
  static constexpr size_t kEnough = 8;
  static constexpr absl::Duration kEvery = absl::Seconds(1);
  static constexpr absl::Duration kAtMost = absl::Seconds(5);  // with less than enough

  struct Gathered {
    std::vector<Observation> samples;  // at most kMost
    MonoTime since;                    // of the first
    std::optional<int64_t> limit;      // as last told to the store
  };
  static constexpr size_t kMost = 64;  // a second's median needs no more

  std::array<Gathered, kDimensionCount> gathered_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_
