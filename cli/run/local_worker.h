// A worker on a thread and reactor of its own, joined to a coordinator by an in-process channel.
#ifndef HEADRACE_CLI_RUN_LOCAL_WORKER_H_
#define HEADRACE_CLI_RUN_LOCAL_WORKER_H_

#include <grpcpp/channel.h>

#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "worker/session/worker.h"

namespace headrace {

class LocalWorker {
 public:
  // Serves one session over `channel`. `on_end` is called on the worker's thread with how it ended.
  LocalWorker(std::shared_ptr<grpc::Channel> channel, WorkerOptions options,
              absl::AnyInvocable<void(absl::Status)> on_end);
  // Waits for the worker to end.
  ~LocalWorker();

 private:
  void Main(std::shared_ptr<grpc::Channel> channel, WorkerOptions options);

  absl::AnyInvocable<void(absl::Status)> on_end_;
  std::thread thread_;
};

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_LOCAL_WORKER_H_
