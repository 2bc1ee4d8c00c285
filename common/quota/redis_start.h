// What a role finds out about its Redis before it begins.
#ifndef HEADRACE_COMMON_QUOTA_REDIS_START_H_
#define HEADRACE_COMMON_QUOTA_REDIS_START_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace headrace::quota {

struct RedisStart {
  absl::Status status;
  std::string warning;  // with an OK status: what a person should change, or empty
};

// Connects to `url` and asks how it is set up. Blocks for at most `wait`; for the start of a
// process. InvalidArgument for a URL that is no good or holds a password (which argv must not),
// NotFound for a password that cannot be read, FailedPrecondition when a person must change
// something, Unavailable when nobody answers.
RedisStart CheckRedis(absl::string_view url, absl::Duration wait);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_REDIS_START_H_
