#include "cli/run/local_worker.h"

#include <utility>

#include "common/base/status.h"
#include "common/rpc/grpc_stream.h"
#include "headrace/v1/session.grpc.pb.h"
#include "worker/session/real_environment.h"

namespace headrace {
namespace {

using ClientStream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;

Task<void> Serve(Worker* worker, ClientStream* stream, StopToken drain, absl::Status* status) {
  *status = co_await worker->Serve(stream, drain);
  co_await stream->Close(absl::OkStatus());
  co_await worker->Shutdown();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalWorker>> LocalWorker::Start(
    std::shared_ptr<grpc::Channel> channel, WorkerOptions options, std::string redis,
    absl::AnyInvocable<void(absl::Status)> on_end) {
  HR_ASSIGN_OR_RETURN(std::unique_ptr<EpollReactor> reactor, EpollReactor::Make());
  return std::unique_ptr<LocalWorker>(new LocalWorker(std::move(reactor), std::move(channel),
                                                      std::move(options), std::move(redis),
                                                      std::move(on_end)));
}

LocalWorker::LocalWorker(std::unique_ptr<EpollReactor> reactor,
                         std::shared_ptr<grpc::Channel> channel, WorkerOptions options,
                         std::string redis, absl::AnyInvocable<void(absl::Status)> on_end)
    : reactor_(std::move(reactor)),
      on_end_(std::move(on_end)),
      thread_([this, channel = std::move(channel), options = std::move(options),
               redis = std::move(redis)]() mutable {
        Main(std::move(channel), std::move(options), std::move(redis));
      }) {}

LocalWorker::~LocalWorker() { Stop(); }

void LocalWorker::Stop() {
  reactor_->Post([this] { stop_.RequestStop({StopCode::kShutdown, "the run ends"}); });
  if (thread_.joinable()) thread_.join();
}

void LocalWorker::Main(std::shared_ptr<grpc::Channel> channel, WorkerOptions options,
                       std::string redis) {
  absl::Status status;
  {
    RealEnvironment environment(reactor_.get(), std::move(redis), options.id);
    Worker worker(reactor_.get(), std::move(options), &environment);
    std::unique_ptr<v1::WorkerService::Stub> stub = v1::WorkerService::NewStub(channel);
    ClientStream stream(reactor_.get(),
                        [&stub](grpc::ClientContext* context, ClientStream::Base* base) {
                          stub->async()->Session(context, base);
                        });
    reactor_->Run(Serve(&worker, &stream, stop_.token(), &status));
  }
  if (!stop_.stopped()) on_end_(std::move(status));
}

}  // namespace headrace
