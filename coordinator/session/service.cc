#include "coordinator/session/service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_stream.h"
#include "coordinator/operator/operator_service.h"

namespace headrace {
namespace {

using ServerStream = rpc::GrpcServerStream<v1::CoordinatorMessage, v1::WorkerMessage>;

// Linking the reflection library turns reflection on for every server of the process; this takes
// it out again where nobody asked for it.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool wanted) : wanted_(wanted) {}

  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    auto plugin = std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    std::erase_if(*plugins, [&plugin](const auto& p) { return p->name() == plugin->name(); });
    if (wanted_) plugins->push_back(std::move(plugin));
  }

 private:
  const bool wanted_;
};

void EnableHealthService() {
  static absl::once_flag once;
  absl::call_once(once, [] { grpc::EnableDefaultHealthCheckService(true); });
}

// Ends a session at once. gRPC owns it.
class RefusedStream final
    : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

class SessionServer::Service final : public v1::WorkerService::CallbackService {
 public:
  Service(Reactor* reactor, OnStream on_stream, const rpc::TokenCheck* token)
      : reactor_(reactor), on_stream_(std::move(on_stream)), token_(token) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override {
    const grpc::Status known = token_->Check(*context);
    if (!known.ok()) return new RefusedStream(known);
    auto* stream = new ServerStream(reactor_, rpc::PeerOf(*context));
    // The loop owns it from the posted function on; Post destroys functions that never run, but a
    // stream that gRPC still uses must not die with one, so ownership passes only there.
    reactor_->Post([this, stream] { on_stream_(std::unique_ptr<CoordinatorStream>(stream)); });
    return stream;
  }

 private:
  Reactor* const reactor_;
  OnStream on_stream_;
  const rpc::TokenCheck* const token_;
};

SessionServer::SessionServer(Reactor* reactor, OnStream on_stream,
                             std::shared_ptr<rpc::LiveToken> token)
    : token_(std::move(token)),
      service_(std::make_unique<Service>(reactor, std::move(on_stream), &token_)) {}

absl::Status SessionServer::Check(const SessionServerOptions& options) {
  HR_ASSIGN_OR_RETURN(const rpc::Address address, rpc::ParseAddress(options.listen));
  HR_RETURN_IF_ERROR(rpc::CheckExposure(address, options.tls, options.insecure));
  return rpc::CheckServerTls(options.tls);
}

absl::StatusOr<std::unique_ptr<SessionServer>> SessionServer::Start(Reactor* reactor,
                                                                    OnStream on_stream,
                                                                    Operator* op,
                                                                    SessionServerOptions options) {
  HR_ASSIGN_OR_RETURN(rpc::Address address, rpc::ParseAddress(options.listen));
  HR_RETURN_IF_ERROR(rpc::CheckExposure(address, options.tls, options.insecure));
  const bool has_token = options.token != nullptr && !options.token->empty();
  rpc::WarnOfExposure(address, options.tls, has_token);
  HR_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                      rpc::MakeServerCredentials(options.tls));
  rpc::RaiseFileLimit();
  EnableHealthService();
  std::unique_ptr<SessionServer> server(
      new SessionServer(reactor, std::move(on_stream), std::move(options.token)));
  grpc::ServerBuilder builder;
  rpc::SetServerArguments(&builder);
  builder.SetOption(std::make_unique<ReflectionOption>(options.reflection));
  builder.RegisterService(server->service_.get());
  if (op != nullptr) {
    server->operators_ = std::make_unique<OperatorService>(reactor, op, &server->token_);
    builder.RegisterService(server->operators_.get());
  }
  builder.AddListeningPort(address.ToString(), credentials, &server->port_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::InternalError(
        absl::StrCat("cannot listen at ", address.ToString(),
                     ": is another process listening there, or is it no address of this host?"));
  }
  address.port = server->port_;
  server->address_ = address.ToString();
  server->SetServing(false);
  return server;
}

absl::StatusOr<std::unique_ptr<SessionServer>> SessionServer::StartInProcess(Reactor* reactor,
                                                                             OnStream on_stream) {
  std::unique_ptr<SessionServer> server(new SessionServer(reactor, std::move(on_stream), nullptr));
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<ReflectionOption>(false));
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

void SessionServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  for (const char* name :
       {"", v1::WorkerService::service_full_name(), v1::OperatorService::service_full_name()}) {
    health->SetServingStatus(name, serving);
  }
}

void SessionServer::Stop() {
  if (server_ == nullptr || std::exchange(stopped_, true)) return;
  SetServing(false);
  if (operators_ != nullptr) operators_->AskToStop();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  server_->Wait();
  if (operators_ != nullptr) operators_->Stop();
}

std::shared_ptr<grpc::Channel> SessionServer::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return server_->InProcessChannel(arguments);
}

}  // namespace headrace
