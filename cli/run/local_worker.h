// A worker on a thread and reactor of its own, joined to a coordinator by an in-process channel.
#ifndef HEADRACE_CLI_RUN_LOCAL_WORKER_H_
#define HEADRACE_CLI_RUN_LOCAL_WORKER_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/async/epoll_reactor.h"
#include "common/async/stop.h"
#include "worker/session/worker.h"

namespace headrace {

class LocalWorker {
 public:
  // Serves one session over `channel`, with pools in the Redis at the URL `redis`, or in memory
  // when that is empty. `on_end` is called on the worker's thread with how it ended.
  // ResourceExhausted when the process is out of file descriptors.
  static absl::StatusOr<std::unique_ptr<LocalWorker>> Start(
      std::shared_ptr<grpc::Channel> channel, WorkerOptions options, std::string redis,
      absl::AnyInvocable<void(absl::Status)> on_end);
  // Stops and waits.
  ~LocalWorker();

  // Drains the worker, also one whose session was never answered, and waits for its end. Blocking;
  // not from its own thread. Idempotent.
  void Stop();

 private:
  LocalWorker(std::unique_ptr<EpollReactor> reactor, std::shared_ptr<grpc::Channel> channel,
              WorkerOptions options, std::string redis,
              absl::AnyInvocable<void(absl::Status)> on_end);
  void Main(std::shared_ptr<grpc::Channel> channel, WorkerOptions options, std::string redis);

  const std::unique_ptr<EpollReactor> reactor_;
  StopSource stop_;  // of the worker's thread
  absl::AnyInvocable<void(absl::Status)> on_end_;
  std::thread thread_;
};

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_LOCAL_WORKER_H_
