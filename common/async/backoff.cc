#include "common/async/backoff.h"

#include <algorithm>

namespace headrace {

absl::Duration BackoffDelay(const BackoffOptions& options, int retry,
                            std::optional<absl::Duration> server_hint, Random* random) {
  // 2^40 * 1 ns is past any max_delay that Validate() lets through, and cannot overflow.
  const int doublings = std::clamp(retry, 0, 40);
  absl::Duration delay = std::min(
      options.first_delay * static_cast<double>(int64_t{1} << doublings), options.max_delay);
  if (server_hint.has_value()) delay = std::max(delay, *server_hint);
  return delay + random->Between(absl::ZeroDuration(), options.jitter);
}

}  // namespace headrace
