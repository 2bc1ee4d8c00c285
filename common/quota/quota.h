// Words of the quota system: dimensions, costs, pools, reservations. docs/quota.md explains them to
// users.
#ifndef HEADRACE_COMMON_QUOTA_QUOTA_H_
#define HEADRACE_COMMON_QUOTA_QUOTA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/time.h"

namespace headrace::quota {

enum class Dimension : uint8_t {
  kRequests,
  kTokens,  // input and output together
  kInputTokens,
  kOutputTokens,
  kInFlight,
};
inline constexpr size_t kDimensionCount = 5;
absl::string_view DimensionName(Dimension dimension);  // "requests/min", "in flight", ...

// One number per dimension. A dimension that the pool does not limit is ignored.
using Costs = std::array<int64_t, kDimensionCount>;

// How the provider meters a dimension.
enum class Mechanics : uint8_t {
  kBucket,  // continuous: GCRA with debt
  kGauge,   // a number of slots, each held from admission to settlement
};

struct DimensionSpec {
  Dimension dimension = Dimension::kRequests;
  Mechanics mechanics = Mechanics::kBucket;
  int64_t limit = 0;                               // units per period, or slots; > 0
  absl::Duration period = absl::Minutes(1);        // of a bucket
  absl::Duration burst = absl::Milliseconds(250);  // credit that a bucket may save up
};

struct PoolSpec {
  std::string name;
  std::vector<DimensionSpec> dimensions;
  double utilisation = 0.995;  // share of each rate limit that is used, [0.1, 1]
  // A reservation that nobody settles is given up this long after its send time: what it took stays
  // charged, its slot is freed. Longer than any request of the job may take.
  absl::Duration reservation_timeout = absl::Minutes(30);
};

// InvalidArgument, naming pool and dimension, unless every number is in its range: limits in
// [1, 10^12], periods in [1 s, 31 days], bursts in [0, period], no dimension twice.
absl::Status ValidatePool(const PoolSpec& spec);

// Unique among all attempts of all workers for ever: makes reserve and settle idempotent.
using ReservationId = StrongId<struct ReservationIdTag>;

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_QUOTA_H_
