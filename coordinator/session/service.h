// The gRPC server of the coordinator: sessions of workers, calls of operators, health. Adapters
// without logic.
#ifndef HEADRACE_COORDINATOR_SESSION_SERVICE_H_
#define HEADRACE_COORDINATOR_SESSION_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/rpc/credentials.h"
#include "coordinator/operator/operator.h"
#include "coordinator/session/worker_session.h"
#include "headrace/v1/session.grpc.pb.h"

namespace headrace {

class OperatorService;

// Within one process nothing has to be held against strangers: larger than rpc::kMaxMessageBytes,
// so that a run on one machine takes each record that the data set may have.
inline constexpr int kMaxMessageBytes = 64 << 20;
// The largest item or result in one of them: the rest is for the message around it.
inline constexpr int kMaxPartBytes = kMaxMessageBytes - (1 << 20);

struct SessionServerOptions {
  std::string listen;  // ADDR:PORT; port 0: any free one
  rpc::ServerTls tls;
  // That workers and operators must show; none, or an empty one: everybody is let in.
  std::shared_ptr<rpc::LiveToken> token;
  bool insecure = false;  // listen beyond loopback without TLS
  bool reflection = false;
};

class SessionServer {
 public:
  // Called on the reactor thread for each stream that a worker opens.
  using OnStream = absl::AnyInvocable<void(std::unique_ptr<CoordinatorStream>)>;

  // What Start() would find wrong with the options, short of listening. Starts no thread.
  static absl::Status Check(const SessionServerOptions& options);

  // Listens. `op` answers operators; without one they hear UNIMPLEMENTED. InvalidArgument for an
  // address that is none, that would be open to others (rpc::CheckExposure), or for bad
  // certificates; Internal when the address cannot be had. Not serving until SetServing(true).
  // `reactor` and `op` outlive the server.
  static absl::StatusOr<std::unique_ptr<SessionServer>> Start(Reactor* reactor, OnStream on_stream,
                                                              Operator* op,
                                                              SessionServerOptions options);

  // Serves in process only. `reactor` outlives the server.
  static absl::StatusOr<std::unique_ptr<SessionServer>> StartInProcess(Reactor* reactor,
                                                                       OnStream on_stream);
  ~SessionServer();

  // What grpc.health.v1 tells: SERVING only when the coordinator hands out work, not while it
  // replays, learns or drains. For readiness, not for liveness. Thread-safe.
  void SetServing(bool serving);

  // Where it listens, with the port that it was given; empty in process.
  const std::string& address() const { return address_; }
  int port() const { return port_; }

  // Ends the server and waits for gRPC's own threads, 5 s for calls under way and then cancels
  // them. Blocking, and not on the reactor's thread: the reactor must run meanwhile, because
  // streams that gRPC has begun are closed there. Idempotent.
  void Stop();

  std::shared_ptr<grpc::Channel> InProcessChannel();

 private:
  class Service;
  SessionServer(Reactor* reactor, OnStream on_stream, std::shared_ptr<rpc::LiveToken> token);

  const rpc::TokenCheck token_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<OperatorService> operators_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int port_ = 0;
  bool stopped_ = false;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_SESSION_SERVICE_H_
