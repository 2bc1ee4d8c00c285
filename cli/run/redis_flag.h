// --redis of the commands that call providers.
#ifndef HEADRACE_CLI_RUN_REDIS_FLAG_H_
#define HEADRACE_CLI_RUN_REDIS_FLAG_H_

#include <string>

#include "absl/status/status.h"

namespace headrace {

// OK when `url` is empty, or the Redis there answers; logs what a person should change about it.
// Blocks for a few seconds at most. Errors are those of quota::CheckRedis().
absl::Status CheckRedisFlag(const std::string& url);

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_REDIS_FLAG_H_
