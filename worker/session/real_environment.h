// The worker's real surroundings: keys from its environment and files, clients on the network,
// pools in memory.
#ifndef HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_
#define HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_

#include <memory>

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
  // `reactor` is the worker's and outlives it.
  explicit RealEnvironment(Reactor* reactor) : reactor_(reactor) {}

  // An unset variable is NotFound; one that is set and empty means no key.
  absl::StatusOr<Secret> ReadKey(const v1::ApiKeySource& source) override;
  absl::StatusOr<std::unique_ptr<http::Engine>> MakeClient(const v1::ModelSpec& model) override;
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakePools(const v1::JobSpec& job) override;
  std::vector<quota::PoolSpec> PoolsOfSharer(const v1::JobSpec& job, int64_t sharers) override;

 private:
  Reactor* const reactor_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_REAL_ENVIRONMENT_H_
