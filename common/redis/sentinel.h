// Asks Sentinels who the master is (Redis documentation: "Guidelines for Sentinel clients").
#ifndef HEADRACE_COMMON_REDIS_SENTINEL_H_
#define HEADRACE_COMMON_REDIS_SENTINEL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/redis/connection.h"
#include "common/redis/locator.h"
#include "common/redis/url.h"

namespace headrace::redis {

// Each question goes to one Sentinel after another, beginning with the last one that was right,
// until one names the master. The connection checks its role, because a Sentinel that was cut off
// names an old master: after Distrust() the next question begins with another Sentinel.
class SentinelLocator final : public Locator {
 public:
  // `login` is for the Sentinels, `url` for the rest.
  SentinelLocator(Reactor* reactor, Url url, Login login, ConnectionOptions options);

  // FailedPrecondition when every Sentinel answers and none knows the master's name.
  Task<absl::StatusOr<Place>> Locate(StopToken stop) override;
  void Distrust() override;

 private:
  // The master's address, or nothing when the Sentinel does not know the name.
  Task<absl::StatusOr<std::optional<HostPort>>> Ask(size_t index, StopToken stop);

  Reactor* const reactor_;
  const Url url_;
  const Login login_;
  const ConnectionOptions options_;
  Traffic traffic_;   // not that of the client: these are no round trips of its calls
  size_t first_ = 0;  // where the next question begins
  std::optional<HostPort> master_;
  Place place_;  // of master_
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_SENTINEL_H_
