// Messages that no session takes, over a real one on loopback: each ends as the outcome of its own
// item, no session breaks, and nothing is sent again for ever.
#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/blocking_thread.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/outcome/result_fields.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_stream.h"
#include "coordinator/cluster/coordinator.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/session/service.h"
#include "coordinator/store/run_store.h"
#include "headrace/v1/session.grpc.pb.h"
#include "tests/support/fake_provider.h"
#include "tests/support/fault_disk.h"
#include "tests/support/job_recovery.h"
#include "worker/session/dialer.h"
#include "worker/session/worker.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using ClientStream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;

// What the largest line may have: Outbox::max_line_bytes() by the default SessionOptions.
constexpr size_t kMaxLine =
    size_t{rpc::kMaxMessageBytes} - rpc::kMessageOverheadBytes - (size_t{16} << 10);

class LargeMessages : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "headrace_large_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }

  void AddRow(int row, size_t padding = 0) {
    std::ofstream file(dir_ / "data.jsonl", std::ios::app);
    file << R"({"id":"q)" << row << R"(","question":"question )" << row << " of many"
         << std::string(padding, 'x') << R"("})" << "\n";
  }

  // Runs all rows by one worker over loopback, to the end.
  void Run(Weather weather) {
    std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
    JobConfig job;
    job.name = "large";
    job.dataset.path = (dir_ / "data.jsonl").string();
    job.dataset.prompt = "{{question}}";
    job.dataset.id = "id";
    job.output_dir = "run";
    job.passes = 2;  // what never fits is not tried again in the second
    ModelJob model;
    model.name = "model-0";
    model.endpoint = "http://provider/v1";
    model.stream = false;
    job.models.push_back(model);
    ASSERT_TRUE(FinishJob(&job).ok());
    auto dataset = Dataset::Open(job.dataset);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    auto info = (*dataset)->Scan(dir_.string());
    ASSERT_TRUE(info.ok()) << info.status();
    JobState state(info->rows, 1, job.passes);
    JobRecovery recovery(&state);
    RunStoreOptions store_options;
    store_options.writer_thread = false;
    RecoveryReport report;
    auto store = RunStore::Open("run", {ToYaml(job), info->sha256, info->rows, 1}, store_options,
                                &disk_, reactor.get(), &recovery, &report);
    ASSERT_TRUE(store.ok()) << store.status();
    BlockingThread thread(reactor.get());
    Coordinator coordinator(reactor.get(), SessionOptions{});
    JobRunner runner(reactor.get(), job, JobRunnerOptions{}, dataset->get(), &thread, store->get(),
                     &state, &coordinator);
    SessionServerOptions listen;
    listen.listen = "127.0.0.1:0";
    auto server = SessionServer::Start(
        reactor.get(),
        [this, &coordinator](std::unique_ptr<CoordinatorStream> stream) {
          ++streams_;
          coordinator.AddStream(std::move(stream));
        },
        nullptr, listen);
    ASSERT_TRUE(server.ok()) << server.status();
    FakeProvider provider(reactor.get(), 1, std::move(weather));
    FakeEnvironment environment(reactor.get(), &provider);
    Worker worker(reactor.get(), WorkerOptions{}, &environment);
    reactor->Run(Main(reactor.get(), &coordinator, &runner, &worker, server->get(), store->get(),
                      &thread, &end_));
    calls_ = provider.calls;
  }

  static Task<void> Serve(Reactor* reactor, Worker* worker, v1::WorkerService::Stub* stub) {
    StreamFactory dial = [reactor, stub] {
      return std::make_unique<ClientStream>(
          reactor, [stub](grpc::ClientContext* context, ClientStream::Base* base) {
            stub->async()->Session(context, base);
          });
    };
    const absl::Status status =
        co_await ServeWithReconnects(reactor, worker, std::move(dial), {}, StopToken());
    EXPECT_TRUE(status.ok()) << status;
    co_await worker->Shutdown();
  }

  static Task<void> StopLater(Reactor* reactor, JobRunner* runner, StopToken stop) {
    Sleep patience(reactor, absl::Seconds(60), stop);
    const bool late = co_await patience;
    if (late) runner->Stop("error", ExitCode::kError, "it does not end");
  }

  static Task<void> Main(Reactor* reactor, Coordinator* coordinator, JobRunner* runner,
                         Worker* worker, SessionServer* server, RunStore* store,
                         BlockingThread* thread, JobEnd* end) {
    const std::unique_ptr<v1::WorkerService::Stub> stub =
        v1::WorkerService::NewStub(rpc::MakeChannel(*rpc::ParseAddress(server->address()),
                                                    grpc::InsecureChannelCredentials()));
    coordinator->AddJob(runner);
    TaskScope scope(reactor, StopToken());
    scope.Spawn(Serve(reactor, worker, stub.get()));
    TaskScope watch(reactor, StopToken());
    watch.Spawn(StopLater(reactor, runner, watch.token()));
    *end = co_await runner->Run();
    coordinator->RemoveJob(runner, /*over=*/true);
    co_await coordinator->DismissWorkers("the run has ended", absl::Seconds(5));
    co_await scope.Join();
    watch.RequestStop({StopCode::kOwnerDone, ""});
    co_await watch.Join();
    co_await coordinator->CloseSessions("the run has ended");
    auto stop_server = [server] {
      server->Stop();
      return true;
    };
    co_await thread->Run(stop_server);
    co_await coordinator->Shutdown();
    const absl::Status closed = co_await store->Close();
    EXPECT_TRUE(closed.ok()) << closed;
  }

  // The lines of a log by item.
  std::map<uint64_t, ResultFields> Lines(const std::string& name) {
    std::map<uint64_t, ResultFields> lines;
    ResultLineParser parser;
    const std::string content = disk_.Content(absl::StrCat("run/", name));
    for (absl::string_view line : absl::StrSplit(content, '\n', absl::SkipEmpty())) {
      EXPECT_TRUE(CheckResultLine(line).ok());
      ResultFields fields;
      const absl::Status parsed = parser.Parse(line, &fields);
      EXPECT_TRUE(parsed.ok()) << parsed;
      lines[fields.item.value()] = std::move(fields);
    }
    return lines;
  }

  fs::path dir_;
  FaultDisk disk_;
  JobEnd end_;
  int streams_ = 0;
  int calls_ = 0;
};

TEST_F(LargeMessages, AnAnswerThatNoSessionTakesFailsAloneAndKeepsItsUsage) {
  for (int row = 0; row < 4; ++row) AddRow(row);
  Weather weather;
  weather.answer_bytes["question 1 "] = size_t{17} << 20;
  weather.answer_bytes["question 2 "] = kMaxLine - 2000;  // the rest of the line is shorter
  Run(weather);
  EXPECT_EQ(end_.state, "complete") << end_.reason;
  EXPECT_EQ(streams_, 1) << "the session broke";
  EXPECT_EQ(calls_, 4) << "an answer was paid for again";
  EXPECT_EQ(Lines("results.jsonl").size(), 3u);
  const std::map<uint64_t, ResultFields> errors = Lines("errors.jsonl");
  ASSERT_EQ(errors.size(), 1u);
  const ResultFields& line = errors.at(1);
  EXPECT_EQ(line.error_class, ErrorClass::kNeverFits);
  EXPECT_THAT(line.error_message, HasSubstr(absl::StrCat("more than the ", kMaxLine)));
  EXPECT_EQ(line.custom_id, "q1");
  EXPECT_EQ(line.http_status, 200);
  EXPECT_EQ(line.usage.prompt_tokens, 9);
  EXPECT_EQ(line.usage.completion_tokens, 2);
  EXPECT_EQ(line.finish_reason, "stop");
}

TEST_F(LargeMessages, APromptThatNoSessionTakesIsRefusedBeforeAnyCall) {
  AddRow(0);
  AddRow(1, size_t{17} << 20);
  AddRow(2, size_t{7} << 20);
  AddRow(3);
  Run({});
  EXPECT_EQ(end_.state, "complete") << end_.reason;
  EXPECT_EQ(streams_, 1) << "the session broke";
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(Lines("results.jsonl").size(), 3u);
  const std::map<uint64_t, ResultFields> errors = Lines("errors.jsonl");
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors.at(1).error_class, ErrorClass::kBadRow);
  EXPECT_THAT(errors.at(1).error_message, HasSubstr("8388608 that one item may have"));
}

}  // namespace
}  // namespace headrace
