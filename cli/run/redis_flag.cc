#include "cli/run/redis_flag.h"

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/quota/redis_start.h"

namespace headrace {
namespace {

// Long enough for a server that is just being started beside us. Chosen, not measured.
constexpr absl::Duration kWait = absl::Seconds(5);

}  // namespace

absl::Status CheckRedisFlag(const std::string& url) {
  if (url.empty()) return absl::OkStatus();
  const quota::RedisStart start = quota::CheckRedis(url, kWait);
  if (!start.warning.empty()) HR_LOG(kWarning) << "--redis: " << start.warning;
  if (!start.status.ok()) return Annotate(start.status, "--redis");
  return absl::OkStatus();
}

}  // namespace headrace
