// Words of the quota system: dimensions, costs, pools, reservations. docs/quota.md explains them to
// users, docs/redis_schema.md the state and the arithmetic behind them.
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
  kRequestsPerDay,  // costs what kRequests costs; nobody has to say so
  kTokensPerDay,    // costs what kTokens costs
};
inline constexpr size_t kDimensionCount = 7;
absl::string_view DimensionName(Dimension dimension);  // "requests/min", "in flight", ...

// One number per dimension. A dimension that the pool does not limit is ignored.
using Costs = std::array<int64_t, kDimensionCount>;

// How the provider meters a dimension.
enum class Mechanics : uint8_t {
  kBucket,  // continuous: GCRA with debt
  kWindow,  // a counter that starts anew each `window`, at a time that we do not know: paced like a
            // bucket, and never more than its share in any such time
  kGauge,   // a number of slots, each held from admission to settlement
  kDay,     // a budget of any 24 hours, not paced
};

struct DimensionSpec {
  Dimension dimension = Dimension::kRequests;
  Mechanics mechanics = Mechanics::kBucket;
  int64_t limit = 0;  // units per period, or slots; > 0
  // Of the provider, where `limit` is one worker's part of it: only what is larger than this never
  // fits. 0: `limit` is all.
  int64_t whole_limit = 0;
  absl::Duration period = absl::Minutes(1);        // that `limit` is stated for
  absl::Duration burst = absl::Milliseconds(250);  // credit that pacing may save up
  // kWindow: what the provider counts over, at most `period`: a minute, or the cells of 1 s or 10 s
  // in which it enforces a limit per minute. One cell takes limit * window / period; a request that
  // is larger than that goes alone.
  absl::Duration window = absl::Minutes(1);
  // kWindow: by how much the way to the provider may be slower for one request than for another.
  absl::Duration guard = absl::Milliseconds(250);
  // A provider that limits how fast traffic may grow: this much of the limit is free at once, the
  // rest opens by `ramp_growth` per minute, of what is open, while it is used. 0: no such rule.
  int64_t ramp_start = 0;
  double ramp_growth = 0.027;  // OpenAI: at most 50 % more per 15 minutes, 1.5^(1/15)
};

struct PoolSpec {
  std::string name;
  std::vector<DimensionSpec> dimensions;
  double utilisation = 0.995;  // share of each rate limit that is used, [0.1, 1]
  // A reservation that nobody settles is given up this long after its send time: what it took stays
  // charged, its slot is freed. Longer than any request of the job may take.
  absl::Duration reservation_timeout = absl::Minutes(30);
  // How many calls in flight pay is found by trying: knee.h. A gauge is the most it may come to.
  bool auto_in_flight = false;
};

// InvalidArgument, naming pool and dimension, unless every number is in its range: limits in
// [1, 10^12], periods in [1 s, 31 days], bursts in [0, period], windows in [1 s, 1 h] and within
// the period, guards in [0, window], ramps of 0.1 % to 100 % a minute; no dimension twice.
absl::Status ValidatePool(const PoolSpec& spec);

// Unique among all attempts of all workers for ever: makes reserve and settle idempotent.
using ReservationId = StrongId<struct ReservationIdTag>;

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_QUOTA_H_
