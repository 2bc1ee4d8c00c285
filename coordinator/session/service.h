// The gRPC server of the coordinator: adapters without logic.
#ifndef HEADRACE_COORDINATOR_SESSION_SERVICE_H_
#define HEADRACE_COORDINATOR_SESSION_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "coordinator/session/worker_session.h"
#include "headrace/v1/session.grpc.pb.h"

namespace headrace {

// Messages larger than this are refused by both sides; the sender checks first.
inline constexpr int kMaxMessageBytes = 64 << 20;

class SessionServer {
 public:
  // Called on the reactor thread for each stream that a worker opens.
  using OnStream = absl::AnyInvocable<void(std::unique_ptr<CoordinatorStream>)>;

  // Serves in process only. `reactor` outlives the server.
  static absl::StatusOr<std::unique_ptr<SessionServer>> StartInProcess(Reactor* reactor,
                                                                       OnStream on_stream);
  ~SessionServer();

  // Ends the server and waits for gRPC's own threads, 5 s for calls under way and then cancels
  // them. Blocking, and not on the reactor's thread: the reactor must run meanwhile, because
  // streams that gRPC has begun are closed there. Idempotent.
  void Stop();

  std::shared_ptr<grpc::Channel> InProcessChannel();

 private:
  class Service;
  SessionServer(Reactor* reactor, OnStream on_stream);

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  bool stopped_ = false;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_SESSION_SERVICE_H_
