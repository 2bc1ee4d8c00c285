// Back-off between attempts: pure arithmetic, used by every place of headrace that retries
// anything. docs/retries.md lists those places.
#ifndef HEADRACE_COMMON_ASYNC_BACKOFF_H_
#define HEADRACE_COMMON_ASYNC_BACKOFF_H_

#include <optional>

#include "absl/time/time.h"
#include "common/base/random.h"

namespace headrace {

struct BackoffOptions {
  absl::Duration first_delay = absl::Milliseconds(500);  // before the second attempt
  absl::Duration max_delay = absl::Seconds(8);           // the doubling ends here
  absl::Duration jitter = absl::Milliseconds(200);       // uniform [0, jitter) is added each time
};

// The wait before retry number `retry`, from 0: first_delay * 2^retry up to max_delay, plus jitter.
// `server_hint` (Retry-After) is a minimum, not capped here; jitter comes on top of it.
absl::Duration BackoffDelay(const BackoffOptions& options, int retry,
                            std::optional<absl::Duration> server_hint, Random* random);

}  // namespace headrace

#endif  // HEADRACE_COMMON_ASYNC_BACKOFF_H_
