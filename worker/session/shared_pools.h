// Pools of a job in Redis, shared with every worker and job of the same accounts.
#ifndef HEADRACE_WORKER_SESSION_SHARED_POOLS_H_
#define HEADRACE_WORKER_SESSION_SHARED_POOLS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/async/reactor.h"
#include "common/base/secret.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

// One user of a pool: where it calls, and with which key.
struct PoolUser {
  std::string endpoint;
  Secret key;
};

// The account behind a pool: a digest of the endpoints and keys of those who use it, from which no
// key can be read. Jobs with the same endpoint and key have the same account, whatever they call
// their models; the order does not count.
std::string AccountOf(const std::vector<PoolUser>& users);

// A store of `specs`, which are those of `job`. `users[i]` are those of specs[i]. `worker` names
// this worker for people; each store is another one to Redis. InvalidArgument for a URL that is no
// good, and what redis::Client::Make() says.
absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakeSharedPools(
    Reactor* reactor, absl::string_view redis_url, absl::string_view worker,
    std::vector<quota::PoolSpec> specs, const std::vector<std::vector<PoolUser>>& users);

// How long a reservation of `pool` may stay open: longer than any call of the models that use it.
absl::Duration ReservationTimeout(const v1::JobSpec& job, absl::string_view pool);

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_SHARED_POOLS_H_
