#include "cli/remote/remote_worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/run/signals.h"
#include "cli/version.h"
#include "common/async/epoll_reactor.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_stream.h"
#include "headrace/v1/session.grpc.pb.h"
#include "worker/session/dialer.h"
#include "worker/session/real_environment.h"

namespace headrace {
namespace {

using ClientStream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;

// Opens a session on one channel, again and again.
class Sessions {
 public:
  Sessions(Reactor* reactor, const CoordinatorConnection& connection)
      : reactor_(reactor),
        stub_(v1::WorkerService::NewStub(connection.channel)),
        token_(connection.token) {}

  std::unique_ptr<WorkerStream> Open() {
    return std::make_unique<ClientStream>(
        reactor_, [this](grpc::ClientContext* context, ClientStream::Base* base) {
          rpc::AddToken(token_->Get(), context);
          stub_->async()->Session(context, base);
        });
  }

 private:
  Reactor* const reactor_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  const std::shared_ptr<rpc::LiveToken> token_;
};

Task<void> Main(Reactor* reactor, Worker* worker, Sessions* sessions, DialerOptions options,
                StopToken drain, absl::Status* status) {
  StreamFactory open = [sessions] { return sessions->Open(); };
  *status =
      co_await ServeWithReconnects(reactor, worker, std::move(open), std::move(options), drain);
  co_await worker->Shutdown();
}

void OnSignal(int count, const Worker& worker, absl::Duration grace, StopSource* drain) {
  if (count > 1) {
    std::fputs("\ninterrupted twice: leaving now; what is held runs again elsewhere\n", stderr);
    _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  const WorkerStats stats = worker.stats();
  HR_LOG(kInfo) << "draining: " << stats.in_flight << " calls under way may end within "
                << headrace::FormatDuration(grace) << ", " << stats.held_items - stats.in_flight
                << " items go back; a second signal ends at once";
  drain->RequestStop({StopCode::kDrain, "the worker was told to end"});
}

ExitCode CodeOf(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) return ExitCode::kUnreachable;
  if (absl::IsPermissionDenied(status)) return ExitCode::kCredentials;
  return ExitCodeFor(status);
}

}  // namespace

std::string MakeWorkerId() {
  constexpr size_t kMaxHostBytes = 255;
  char host[kMaxHostBytes + 1] = "";
  if (gethostname(host, kMaxHostBytes) != 0) host[0] = '\0';
  std::string name(host);
  // A name in logs and result lines.
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return !absl::ascii_isgraph(static_cast<unsigned char>(c)); }, '-');
  if (name.empty()) name = "worker";
  return absl::StrCat(name, "-", absl::Hex(RandomSeed() & 0xffffff, absl::kZeroPad6));
}

ExitCode ServeCoordinator(const CoordinatorConnection& connection,
                          const RemoteWorkerOptions& options) {
  rpc::RaiseFileLimit();
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  if (!reactor.ok()) {
    std::fprintf(stderr, "headrace worker: %s\n", std::string(reactor.status().message()).c_str());
    return ExitCode::kError;
  }
  WorkerOptions worker_options;
  worker_options.id = options.id;
  worker_options.boot_nonce = absl::StrCat(absl::Hex(RandomSeed(), absl::kZeroPad16),
                                           absl::Hex(RandomSeed(), absl::kZeroPad16));
  worker_options.build = Version();
  worker_options.max_in_flight = options.max_in_flight;
  worker_options.seed = RandomSeed();
  DialerOptions dialer;
  dialer.address = connection.address;
  dialer.give_up_after = options.connect_timeout;
  dialer.grace = options.grace;
  dialer.seed = RandomSeed();
  HR_LOG(kInfo) << "worker " << options.id << " asks the coordinator at " << connection.address
                << " for work";

  absl::Status status;
  StopSource drain;
  {
    RealEnvironment environment(reactor->get(), options.redis, options.id);
    Worker worker(reactor->get(), worker_options, &environment);
    Sessions sessions(reactor->get(), connection);
    absl::StatusOr<std::unique_ptr<SignalWatch>> signals = SignalWatch::Start(
        reactor->get(), [&](int count) { OnSignal(count, worker, options.grace, &drain); });
    if (!signals.ok()) {
      std::fprintf(stderr, "headrace worker: %s\n",
                   std::string(signals.status().message()).c_str());
      return ExitCode::kError;
    }
    (*reactor)->Run(
        Main(reactor->get(), &worker, &sessions, std::move(dialer), drain.token(), &status));
  }
  if (!status.ok()) {
    std::fprintf(stderr, "headrace worker: %s\n", std::string(status.message()).c_str());
  }
  if (drain.stopped()) return ExitCode::kInterrupted;
  if (status.ok()) HR_LOG(kInfo) << "the coordinator has no more work: the worker ends";
  return CodeOf(status);
}

}  // namespace headrace
