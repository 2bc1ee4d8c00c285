// The worker's real surroundings: keys from its environment and files, clients on the network,
// pools in Redis or in memory.
#ifndef HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_
#define HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/base/secret.h"
#include "common/quota/pool_store.h"
#include "headrace/v1/session.pb.h"
#include "worker/http/http.h"
#include "worker/session/worker.h"

namespace headrace {

class RealEnvironment final : public WorkerEnvironment {
 public:
  // `reactor` is the worker's and outlives it. `redis`: URL of the Redis that shares the pools,
  // empty for pools in memory; `worker` names the worker there, for people.
  explicit RealEnvironment(Reactor* reactor, std::string redis = "", std::string worker = "worker")
      : reactor_(reactor), redis_(std::move(redis)), worker_(std::move(worker)) {}

  // An unset variable is NotFound; one that is set and empty means no key.
  absl::StatusOr<Secret> ReadKey(const v1::ApiKeySource& source) override;
  absl::StatusOr<std::unique_ptr<http::Engine>> MakeClient(const v1::ModelSpec& model) override;
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakePools(const v1::JobSpec& job) override;
  std::vector<quota::PoolSpec> PoolsOfSharer(const v1::JobSpec& job, int64_t sharers) override;

 private:
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakePoolsInRedis(
      const v1::JobSpec& job, std::vector<quota::PoolSpec> specs);

  Reactor* const reactor_;
  const std::string redis_;
  const std::string worker_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_
