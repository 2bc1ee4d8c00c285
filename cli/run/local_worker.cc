#include "cli/run/local_worker.h"

#include <utility>

#include "common/async/epoll_reactor.h"
#include "common/rpc/grpc_stream.h"
#include "headrace/v1/session.grpc.pb.h"
#include "worker/session/real_environment.h"

namespace headrace {
namespace {

using ClientStream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;

Task<void> Serve(Worker* worker, ClientStream* stream, absl::Status* status) {
  *status = co_await worker->Serve(stream, StopToken());
  co_await stream->Close(absl::OkStatus());
  co_await worker->Shutdown();
}

}  // namespace

LocalWorker::LocalWorker(std::shared_ptr<grpc::Channel> channel, WorkerOptions options,
                         absl::AnyInvocable<void(absl::Status)> on_end)
    : on_end_(std::move(on_end)),
      thread_([this, channel = std::move(channel), options = std::move(options)]() mutable {
        Main(std::move(channel), std::move(options));
      }) {}

LocalWorker::~LocalWorker() { thread_.join(); }

void LocalWorker::Main(std::shared_ptr<grpc::Channel> channel, WorkerOptions options) {
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  if (!reactor.ok()) {
    on_end_(reactor.status());
    return;
  }
  absl::Status status;
  {
    RealEnvironment environment(reactor->get());
    Worker worker(reactor->get(), std::move(options), &environment);
    std::unique_ptr<v1::WorkerService::Stub> stub = v1::WorkerService::NewStub(channel);
    ClientStream stream(reactor->get(),
                        [&stub](grpc::ClientContext* context, ClientStream::Base* base) {
                          stub->async()->Session(context, base);
                        });
    (*reactor)->Run(Serve(&worker, &stream, &status));
  }
  on_end_(std::move(status));
}

}  // namespace headrace
