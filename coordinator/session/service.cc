#include "coordinator/session/service.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "common/rpc/grpc_stream.h"

namespace headrace {

using ServerStream = rpc::GrpcServerStream<v1::CoordinatorMessage, v1::WorkerMessage>;

class SessionServer::Service final : public v1::WorkerService::CallbackService {
 public:
  Service(Reactor* reactor, OnStream on_stream)
      : reactor_(reactor), on_stream_(std::move(on_stream)) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override {
    auto* stream = new ServerStream(reactor_);
    // The loop owns it from the posted function on; Post destroys functions that never run, but a
    // stream that gRPC still uses must not die with one, so ownership passes only there.
    reactor_->Post([this, stream] { on_stream_(std::unique_ptr<CoordinatorStream>(stream)); });
    return stream;
  }

 private:
  Reactor* const reactor_;
  OnStream on_stream_;
};

SessionServer::SessionServer(Reactor* reactor, OnStream on_stream)
    : service_(std::make_unique<Service>(reactor, std::move(on_stream))) {}

absl::StatusOr<std::unique_ptr<SessionServer>> SessionServer::StartInProcess(Reactor* reactor,
                                                                             OnStream on_stream) {
  std::unique_ptr<SessionServer> server(new SessionServer(reactor, std::move(on_stream)));
  grpc::ServerBuilder builder;
  builder.RegisterService(server->service_.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::InternalError("the in-process gRPC server did not start");
  }
  return server;
}

SessionServer::~SessionServer() { Stop(); }

void SessionServer::Stop() {
  if (server_ == nullptr || std::exchange(stopped_, true)) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  server_->Wait();
}

std::shared_ptr<grpc::Channel> SessionServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return server_->InProcessChannel(arguments);
}

}  // namespace headrace
