// What a coordinator costs: results from workers to the disk, and workers that do nothing.
//
//   cluster_bench results DIR [ROWS] [WORKERS]   ROWS results of about 1 KB (default 300,000) from
//                                                WORKERS sessions (default 1) through a job in DIR
//   cluster_bench idle [SESSIONS]                memory and CPU of SESSIONS (default 1,000) that
//                                                only beat, for ten seconds
//
// The workers are scripted: they answer each grant at once, in a process of their own, over gRPC on
// loopback. CPU and memory are of the coordinator's process alone.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/base/log.h"
#include "common/outcome/result_line.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "common/rpc/grpc_stream.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/jobs/job_run.h"
#include "coordinator/session/service.h"
#include "coordinator/store/disk.h"
#include "headrace/v1/session.grpc.pb.h"

namespace headrace {
namespace {

constexpr size_t kBodyBytes = 700;  // with its fields a line has about 1 KB
constexpr int kChunk = 64;          // results of one message of a worker
constexpr uint64_t kAhead = 4000;   // credits of all workers together, as of one with a full gate
constexpr absl::Duration kIdleTime = absl::Seconds(10);

using ClientStream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t ResidentKb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmRSS:") continue;
    int64_t kb = 0;
    status >> kb;
    return kb;
  }
  return 0;
}

// ---------------------------------------------------------------------------------------------
// Workers

// One scripted worker: grants are answered at once, beats go every second.
class ScriptedWorker {
 public:
  ScriptedWorker(Reactor* reactor, v1::WorkerService::Stub* stub, int number, uint64_t ahead)
      : reactor_(reactor),
        ahead_(ahead),
        body_(absl::StrCat(R"({"choices":[{"message":{"content":")", std::string(kBodyBytes, 'x'),
                           R"("}}]})")),
        stream_(reactor,
                [stub](grpc::ClientContext* context, ClientStream::Base* base) {
                  stub->async()->Session(context, base);
                }),
        writes_(reactor, 1),
        scope_(reactor, StopToken()) {
    v1::Hello* hello = hello_.mutable_hello();
    hello->set_worker_id(absl::StrCat("bench-", number));
    hello->set_boot_nonce("1");
    hello->set_protocol_min(1);
    hello->set_protocol_max(1);
    hello->set_first_unacked_chunk(1);
    hello->set_next_chunk(1);
  }

  Task<void> Run(StopToken stop) {
    co_await Write(hello_);
    scope_.Spawn(Beat(this));
    while (true) {
      std::optional<v1::CoordinatorMessage> message = co_await stream_.Read(stop);
      if (!message.has_value() || message->has_leave()) break;
      if (message->has_job()) {
        job_ = message->job().job_id();
        co_await WriteWant();
      }
      if (message->has_grant()) co_await Answer(message->grant());
    }
    scope_.RequestStop({StopCode::kOwnerDone, ""});
    co_await scope_.Join();
    co_await stream_.Close(absl::OkStatus());
  }

 private:
  static Task<void> Beat(ScriptedWorker* self) {
    while (true) {
      Sleep wait(self->reactor_, absl::Seconds(1), self->scope_.token());
      const bool waited = co_await wait;
      if (!waited) co_return;
      v1::WorkerMessage message;
      if (self->job_ != 0) message.mutable_beat()->add_jobs(self->job_);
      message.mutable_beat()->set_in_flight(0);
      co_await self->Write(std::move(message));
    }
  }

  Task<void> Write(v1::WorkerMessage message) {
    const bool turn = co_await writes_.Acquire(StopToken());
    HR_CHECK(turn);
    co_await stream_.Write(std::move(message));
    writes_.Release();
  }

  Task<void> WriteWant() {
    v1::WorkerMessage message;
    v1::ModelWant* want = message.mutable_want()->add_models();
    want->set_job_id(job_);
    want->set_model(0);
    want->set_items_total(granted_ + ahead_);
    want->set_items_received(granted_);
    co_await Write(std::move(message));
  }

  Task<void> Answer(const v1::Grant& grant) {
    granted_ += static_cast<uint64_t>(grant.items_size());
    co_await WriteWant();
    for (int at = 0; at < grant.items_size(); at += kChunk) {
      v1::WorkerMessage message;
      v1::Results* results = message.mutable_results();
      results->set_chunk_seq(++chunks_);
      const int end = std::min(at + kChunk, grant.items_size());
      for (int i = at; i < end; ++i) AddResult(grant, grant.items(i), results);
      if (end == grant.items_size()) {
        v1::BatchDone* done = results->add_done();
        done->set_batch_id(grant.batch_id());
        done->set_epoch(grant.epoch());
        done->set_job_id(grant.job_id());
      }
      co_await Write(std::move(message));
    }
  }

  void AddResult(const v1::Grant& grant, const v1::Item& item, v1::Results* results) {
    ResultLine line;
    line.item = ItemId(item.item());
    line.row = RowIndex(item.row());
    line.model = "bench";
    line.custom_id = item.custom_id();
    line.http_status = 200;
    line.body = body_;
    line.finish_reason = "stop";
    line.attempts = 1;
    line.usage.prompt_tokens = 20;
    line.usage.completion_tokens = 200;
    line.times.network = line.times.total = absl::Milliseconds(900);
    line.worker = "bench";
    line.started = absl::FromUnixMillis(1'700'000'000'123);
    v1::ItemResult* result = results->add_results();
    result->set_job_id(grant.job_id());
    result->set_batch_id(grant.batch_id());
    result->set_epoch(grant.epoch());
    result->set_item(item.item());
    result->set_attempts(1);
    result->set_prompt_tokens(20);
    result->set_completion_tokens(200);
    result->set_cached_tokens(-1);
    result->set_first_token_us(-1);
    result->set_network_us(900'000);
    result->set_total_us(900'000);
    AppendResultLine(line, result->mutable_line());
  }

  Reactor* const reactor_;
  const uint64_t ahead_;
  const std::string body_;
  v1::WorkerMessage hello_;
  ClientStream stream_;
  Semaphore writes_;
  TaskScope scope_;
  uint64_t job_ = 0;
  uint64_t granted_ = 0;
  uint64_t chunks_ = 0;
};

Task<void> RunWorkers(EpollReactor* reactor, std::vector<std::unique_ptr<ScriptedWorker>>* workers,
                      absl::Duration time) {
  DeadlineSource end(reactor,
                     time == absl::InfiniteDuration() ? MonoTime::Max() : reactor->Now() + time,
                     StopToken());
  TaskScope scope(reactor, StopToken());
  for (auto& worker : *workers) scope.Spawn(worker->Run(end.token()));
  co_await scope.Join();
}

// The process of the workers; reads the port from `pipe`.
int WorkerProcess(int pipe, int sessions, absl::Duration time) {
  int port = 0;
  if (read(pipe, &port, sizeof(port)) != sizeof(port) || port == 0) return 1;
  auto reactor = EpollReactor::Make();
  HR_CHECK(reactor.ok()) << reactor.status();
  {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    std::vector<std::unique_ptr<v1::WorkerService::Stub>> stubs;
    std::vector<std::unique_ptr<ScriptedWorker>> workers;
    const uint64_t ahead = std::max<uint64_t>(kAhead / static_cast<uint64_t>(sessions), 500);
    for (int i = 0; i < sessions; ++i) {
      grpc::ChannelArguments arguments = rpc::ClientArguments();
      // A connection each, as from processes of their own.
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      channels.push_back(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                                   grpc::InsecureChannelCredentials(), arguments));
      stubs.push_back(v1::WorkerService::NewStub(channels.back()));
      workers.push_back(
          std::make_unique<ScriptedWorker>(reactor->get(), stubs.back().get(), i, ahead));
    }
    (*reactor)->Run(RunWorkers(reactor->get(), &workers, time));
  }
  return 0;
}

// ---------------------------------------------------------------------------------------------
// The coordinator

struct Server {
  Server(EpollReactor* r, SessionOptions options)
      : reactor(r), helper(r), coordinator(r, options) {}

  // Listens, and tells the process of the workers where.
  absl::Status Listen(int pipe) {
    SessionServerOptions options;
    options.listen = "127.0.0.1:0";
    auto started = SessionServer::Start(
        reactor, [this](auto stream) { coordinator.AddStream(std::move(stream)); }, nullptr,
        std::move(options));
    if (!started.ok()) return started.status();
    server = *std::move(started);
    const int port = server->port();
    if (write(pipe, &port, sizeof(port)) != sizeof(port)) return absl::InternalError("pipe");
    return absl::OkStatus();
  }
  Task<void> Close() {
    co_await coordinator.CloseSessions("the benchmark ends");
    auto stop = [this] {
      server->Stop();
      return true;
    };
    co_await helper.Run(stop);
    co_await coordinator.Shutdown();
  }

  EpollReactor* const reactor;
  BlockingThread helper;
  Coordinator coordinator;
  std::unique_ptr<SessionServer> server;
};

Task<void> RunJob(Server* server, JobRun* job, JobEnd* end) {
  *end = co_await job->Run();
  co_await server->coordinator.DismissWorkers("done", absl::Seconds(5));
  co_await server->Close();
}

int Results(const std::string& dir, int rows, int sessions) {
  int pipe_ends[2];
  HR_CHECK(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) _exit(WorkerProcess(pipe_ends[0], sessions, absl::InfiniteDuration()));

  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const std::string data = absl::StrCat(dir, "/data.jsonl");
  {
    std::ofstream file(data);
    for (int i = 0; i < rows; ++i) {
      file << R"({"id":"question-)" << i << R"(","q":"What is the answer to question )" << i
           << R"( of very many?"})" << "\n";
    }
  }
  JobConfig config;
  config.name = "bench";
  config.dataset.path = data;
  config.dataset.id = "id";
  config.dataset.prompt = "{{q}}";
  config.output_dir = absl::StrCat(dir, "/run");
  ModelJob model;
  model.name = "bench";
  model.endpoint = "http://127.0.0.1:1/v1";
  config.models.push_back(model);
  HR_CHECK(FinishJob(&config).ok());
  auto reactor = EpollReactor::Make();
  HR_CHECK(reactor.ok());
  auto job = JobRun::Open(config, JobRunOptions{}, Disk::Real(), reactor->get());
  HR_CHECK(job.ok()) << job.status();
  JobEnd end;
  double wall = 0;
  double cpu = 0;
  {
    Server server(reactor->get(), SessionOptions{});
    (*job)->Attach(&server.coordinator);
    HR_CHECK(server.Listen(pipe_ends[1]).ok());
    wall = WallSeconds();
    cpu = CpuSeconds();
    (*reactor)->Run(RunJob(&server, job->get(), &end));
    wall = WallSeconds() - wall;
    cpu = CpuSeconds() - cpu;
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%d results of %d workers: %s; %.2f s, %.0f results/s, %.2f us of CPU each\n", rows,
              sessions, end.state.c_str(), wall, rows / wall, cpu / rows * 1e6);
  std::filesystem::remove_all(dir);
  return end.state == "complete" ? 0 : 1;
}

Task<void> WatchIdle(Server* server, int sessions) {
  // Until all have said hello.
  while (static_cast<int>(server->coordinator.sessions().size()) < sessions) {
    Sleep wait(server->reactor, absl::Milliseconds(20), StopToken());
    co_await wait;
  }
  const double cpu = CpuSeconds();
  Sleep idle(server->reactor, kIdleTime, StopToken());
  co_await idle;
  const double used = CpuSeconds() - cpu;
  const int64_t resident = ResidentKb();
  const auto connected = static_cast<int>(server->coordinator.sessions().size());
  std::printf("%d of %d sessions: resident %ld KB, %.1f %% of a core\n", connected, sessions,
              static_cast<long>(resident), used / absl::ToDoubleSeconds(kIdleTime) * 100);
  co_await server->Close();
}

int Idle(int sessions) {
  int pipe_ends[2];
  HR_CHECK(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    _exit(WorkerProcess(pipe_ends[0], sessions, absl::InfiniteDuration()));
  }
  auto reactor = EpollReactor::Make();
  HR_CHECK(reactor.ok());
  {
    Server server(reactor->get(), SessionOptions{});
    const int64_t before = ResidentKb();
    HR_CHECK(server.Listen(pipe_ends[1]).ok());
    std::printf("before: resident %ld KB\n", static_cast<long>(before));
    (*reactor)->Run(WatchIdle(&server, sessions));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return 0;
}

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  auto number = [&](int at, int otherwise) {
    int value = otherwise;
    if (argc > at && !absl::SimpleAtoi(argv[at], &value)) value = otherwise;
    return value;
  };
  if (what == "results" && argc > 2) return Results(argv[2], number(3, 300'000), number(4, 1));
  if (what == "idle") return Idle(number(2, 1000));
  std::fprintf(stderr, "cluster_bench results DIR [ROWS] [WORKERS] | idle [SESSIONS]\n");
  return 2;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) { return headrace::Main(argc, argv); }
