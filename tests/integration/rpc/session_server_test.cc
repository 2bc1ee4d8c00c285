// The coordinator's gRPC server on loopback: who is let in, over what, and what others are told.

#include "coordinator/session/service.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_stream.h"
#include "coordinator/operator/operator_client.h"
#include "headrace/v1/operator.grpc.pb.h"
#include "tests/support/test_ca.h"

namespace headrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(20);  // of a busy machine with sanitizers

class FakeOperator final : public Operator {
 public:
  explicit FakeOperator(Reactor* reactor) : reactor_(reactor) {}

  Task<absl::StatusOr<v1::SubmitJobResponse>> Submit(v1::SubmitJobRequest request,
                                                     StopToken stop) override {
    if (request.job_yaml() == "wait") {
      Event never(reactor_);
      began.set_value();
      co_await never.Wait(stop);
      co_return absl::CancelledError("stopped");
    }
    if (request.job_yaml() == "bad") co_return absl::InvalidArgumentError("line 1: no job");
    v1::SubmitJobResponse response;
    response.set_job_id(7);
    response.set_output_dir(request.job_yaml());
    co_return response;
  }
  Task<absl::StatusOr<v1::CancelJobResponse>> Cancel(v1::CancelJobRequest request,
                                                     StopToken stop) override {
    co_return absl::NotFoundError(absl::StrCat("no job ", request.job()));
  }
  absl::StatusOr<v1::GetStatusResponse> Status() override {
    v1::GetStatusResponse response;
    response.set_state("serving");
    return response;
  }

  std::promise<void> began;  // of a call that waits

 private:
  Reactor* const reactor_;
};

// A server whose sessions answer one message with a welcome and end.
class TestServer {
 public:
  explicit TestServer(SessionServerOptions options) : op_(reactor_.get()) {
    if (options.listen.empty()) options.listen = "127.0.0.1:0";
    thread_ = std::thread([this] { reactor_->Run(Main(this)); });
    server = SessionServer::Start(
        reactor_.get(),
        [this](std::unique_ptr<CoordinatorStream> stream) {
          scope_->Spawn(Serve(this, std::move(stream)));
        },
        &op_, std::move(options));
  }
  ~TestServer() {
    if (server.ok()) (*server)->Stop();
    reactor_->Post([this] { quit_->Set(); });
    thread_.join();
    if (server.ok()) server->reset();
  }

  rpc::Address address() const { return *rpc::ParseAddress((*server)->address()); }
  rpc::Peer last_peer() { return peer_.get_future().get(); }
  FakeOperator* op() { return &op_; }

  absl::StatusOr<std::unique_ptr<SessionServer>> server;

 private:
  static Task<void> Main(TestServer* self) {
    Event quit(self->reactor_.get());
    TaskScope scope(self->reactor_.get(), StopToken());
    self->quit_ = &quit;
    self->scope_ = &scope;
    co_await quit.Wait(StopToken());
    co_await scope.Join();
  }
  static Task<void> Serve(TestServer* self, std::unique_ptr<CoordinatorStream> stream) {
    self->peer_.set_value(stream->peer());
    std::optional<v1::WorkerMessage> hello = co_await stream->Read(StopToken());
    if (hello.has_value()) {
      v1::CoordinatorMessage message;
      message.mutable_welcome()->set_protocol(1);
      co_await stream->Write(std::move(message));
    }
    co_await stream->Close(absl::OkStatus());
  }

  std::unique_ptr<EpollReactor> reactor_ = *EpollReactor::Make();
  FakeOperator op_;
  std::promise<rpc::Peer> peer_;
  Event* quit_ = nullptr;
  TaskScope* scope_ = nullptr;
  std::thread thread_;
};

std::shared_ptr<grpc::Channel> Connect(const TestServer& server, const rpc::ClientTls& tls = {}) {
  return rpc::MakeChannel(server.address(), *rpc::MakeClientCredentials(tls));
}

rpc::ServerTls ServerFiles(const TestCa::Files& files, const std::string& client_ca = "") {
  rpc::ServerTls tls;
  tls.cert_file = files.cert;
  tls.key_file = files.key;
  tls.client_ca_file = client_ca;
  tls.reload = absl::Seconds(1);
  return tls;
}

SessionServerOptions Listen(const rpc::ServerTls& tls) {
  SessionServerOptions options;
  options.tls = tls;
  return options;
}

SessionServerOptions ListenAt(const std::string& address) {
  SessionServerOptions options;
  options.listen = address;
  return options;
}

SessionServerOptions WithToken(const std::string& token) {
  SessionServerOptions options;
  options.token = std::make_shared<rpc::LiveToken>(Secret(token));
  return options;
}

rpc::ClientTls Trusting(const TestCa& ca) {
  rpc::ClientTls tls;
  tls.enabled = true;
  tls.ca_file = ca.ca_file();
  tls.reload = absl::Seconds(1);
  return tls;
}

absl::Status OpenSession(const std::shared_ptr<grpc::Channel>& channel, const Secret& token = {}) {
  auto stub = v1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  rpc::AddToken(token, &context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  auto stream = stub->Session(&context);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id("w1");
  stream->Write(hello);
  v1::CoordinatorMessage welcome;
  const bool answered = stream->Read(&welcome);
  stream->WritesDone();
  const absl::Status status = rpc::FromGrpc(stream->Finish());
  if (status.ok() && !answered) return absl::InternalError("no welcome came");
  return status;
}

// A unary or one-message streaming call of a service that this test has no messages of.
absl::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  auto call = stub.PrepareCall(&context, method, &queue);
  auto next = [&queue] {
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  call->StartCall(nullptr);
  next();
  grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  next();
  grpc::ByteBuffer buffer;
  call->Read(&buffer, nullptr);
  if (next()) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(buffer.Dump(&slices).ok());
    for (const grpc::Slice& s : slices) {
      response->append(reinterpret_cast<const char*>(s.begin()), s.size());
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  return rpc::FromGrpc(status);
}

TEST(SessionServer, RefusesToBeOpenToOthersWithoutTls) {
  TestServer server(ListenAt("0.0.0.0:0"));
  EXPECT_EQ(server.server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(server.server.status().message(), HasSubstr("without TLS"));
}

TEST(SessionServer, APortInUseIsAnErrorAndNotShared) {
  TestServer first({});
  ASSERT_TRUE(first.server.ok()) << first.server.status();
  TestServer second(ListenAt((*first.server)->address()));
  EXPECT_EQ(second.server.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(second.server.status().message(), HasSubstr((*first.server)->address()));
}

TEST(SessionServer, EachCallWithoutTheTokenIsRefusedInWords) {
  TestServer server(WithToken("right"));
  ASSERT_TRUE(server.server.ok()) << server.server.status();
  auto channel = Connect(server);
  for (const char* token : {"", "wrong", "righ", "right2", "RIGHT"}) {
    const absl::string_view words = *token == '\0' ? "asks for a token" : "is not the coordinator";
    std::vector<absl::Status> refusals = {OpenSession(channel, Secret(token))};
    OperatorClient client(channel, std::make_shared<rpc::LiveToken>(Secret(token)),
                          absl::ZeroDuration());
    refusals.push_back(client.Submit("job").status());
    refusals.push_back(client.Cancel("job", "").status());
    refusals.push_back(client.Status().status());
    for (const absl::Status& refusal : refusals) {
      EXPECT_EQ(refusal.code(), absl::StatusCode::kUnauthenticated) << refusal;
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(std::string(words)));
    }
  }
  EXPECT_TRUE(OpenSession(channel, Secret("right")).ok());
  OperatorClient client(channel, std::make_shared<rpc::LiveToken>(Secret("right")),
                        absl::ZeroDuration());
  EXPECT_EQ(client.Submit("job")->output_dir(), "job");
}

Task<void> MeetRefusal(EpollReactor* reactor, v1::WorkerService::Stub* stub, absl::Status* status) {
  using Stream = rpc::GrpcClientStream<v1::WorkerMessage, v1::CoordinatorMessage>;
  Stream stream(reactor, [stub](grpc::ClientContext* context, Stream::Base* base) {
    stub->async()->Session(context, base);
  });
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_worker_id("w1");
  co_await stream.Write(std::move(hello));
  std::optional<v1::CoordinatorMessage> answer = co_await stream.Read(StopToken());
  EXPECT_FALSE(answer.has_value());
  *status = stream.status();
  co_await stream.Close(absl::OkStatus());
}

// A worker that does not know why it was refused asks again for ever.
TEST(SessionServer, AWorkersStreamKnowsWhyItWasRefusedBeforeItIsClosed) {
  TestServer server(WithToken("right"));
  auto stub = v1::WorkerService::NewStub(Connect(server));
  std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  absl::Status status;
  reactor->Run(MeetRefusal(reactor.get(), stub.get(), &status));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
}

TEST(SessionServer, TwoTokensInOneCallAreRefused) {
  TestServer server(WithToken("right"));
  auto stub = v1::OperatorService::NewStub(Connect(server));
  grpc::ClientContext context;
  rpc::AddToken(Secret("right"), &context);
  rpc::AddToken(Secret("right"), &context);
  v1::GetStatusResponse response;
  EXPECT_EQ(stub->GetStatus(&context, v1::GetStatusRequest(), &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST(SessionServer, ATokenThatIsReplacedInItsFileIsAskedForWithoutARestart) {
  const std::string path =
      testing::TempDir() + "headrace_live_token_" + std::to_string(static_cast<long>(getpid()));
  std::ofstream(path) << "old\n";
  rpc::TokenTimes times;
  times.reload = absl::ZeroDuration();
  times.overlap = absl::Hours(1);
  SessionServerOptions options;
  options.token = *rpc::LiveToken::Read({"", path}, times);
  TestServer server(std::move(options));
  ASSERT_TRUE(server.server.ok()) << server.server.status();
  const auto client_token = *rpc::LiveToken::Read({"", path}, times);
  OperatorClient client(Connect(server), client_token, absl::ZeroDuration());
  OperatorClient late(Connect(server), std::make_shared<rpc::LiveToken>(Secret("old")),
                      absl::ZeroDuration());
  OperatorClient early(Connect(server), std::make_shared<rpc::LiveToken>(Secret("new")),
                       absl::ZeroDuration());
  EXPECT_TRUE(client.Status().ok());
  EXPECT_EQ(early.Status().status().code(), absl::StatusCode::kUnauthenticated);
  std::ofstream(path) << "new\n";
  EXPECT_TRUE(client.Status().ok());
  EXPECT_TRUE(early.Status().ok());
  EXPECT_TRUE(late.Status().ok()) << "not everybody has the new one in the same moment";
  unlink(path.c_str());
  EXPECT_TRUE(client.Status().ok()) << "a file that is gone locks nobody out";
  OperatorClient none(Connect(server), std::make_shared<rpc::LiveToken>(Secret()),
                      absl::ZeroDuration());
  EXPECT_EQ(none.Status().status().code(), absl::StatusCode::kUnauthenticated)
      << "and lets nobody in";
}

TEST(SessionServer, NoTokenIsEverLogged) {
  std::string log;
  SetLogLevel(LogLevel::kDebug);
  SetLogSink([&log](LogLevel, absl::string_view line) { absl::StrAppend(&log, line, "\n"); });
  {
    TestServer server(WithToken("right-token"));
    EXPECT_FALSE(OpenSession(Connect(server), Secret("wrong-token")).ok());
    EXPECT_FALSE(OpenSession(Connect(server), Secret("wrong-token")).ok());
  }
  SetLogSink(nullptr);
  SetLogLevel(LogLevel::kInfo);
  EXPECT_THAT(log, HasSubstr("refused a call from 127.0.0.1:"));
  EXPECT_THAT(log, HasSubstr("a wrong token"));
  EXPECT_EQ(log.find("a wrong token"), log.rfind("a wrong token")) << "logged once in 10 s";
  EXPECT_THAT(log, Not(HasSubstr("right-token")));
  EXPECT_THAT(log, Not(HasSubstr("wrong-token")));
}

TEST(SessionServer, OverTlsOnlyAClientThatTrustsItsCaConnects) {
  TestCa ca;
  TestCa other;
  const TestCa::Files files = ca.IssueServer();
  TestServer server(Listen(ServerFiles(files)));
  ASSERT_TRUE(server.server.ok()) << server.server.status();
  EXPECT_TRUE(OpenSession(Connect(server, Trusting(ca))).ok());
  EXPECT_TRUE(absl::IsUnavailable(OpenSession(Connect(server, Trusting(other)))));
  EXPECT_TRUE(absl::IsUnavailable(OpenSession(Connect(server))));
  EXPECT_FALSE(server.last_peer().verified) << "a client without a certificate";
}

TEST(SessionServer, ACertificateForAnotherHostIsRefusedByTheClient) {
  TestCa ca;
  const TestCa::Files files = ca.Issue("elsewhere", "DNS:elsewhere");
  TestServer server(Listen(ServerFiles(files)));
  EXPECT_TRUE(absl::IsUnavailable(OpenSession(Connect(server, Trusting(ca)))));
}

TEST(SessionServer, OverMutualTlsTheLoopLearnsTheNamesOfThePeer) {
  TestCa ca;
  const TestCa::Files files = ca.IssueServer();
  TestServer server(Listen(ServerFiles(files, ca.ca_file())));
  ASSERT_TRUE(server.server.ok()) << server.server.status();
  rpc::ClientTls tls = Trusting(ca);
  EXPECT_TRUE(absl::IsUnavailable(OpenSession(Connect(server, tls)))) << "without a certificate";
  TestCa stranger;
  const TestCa::Files forged = stranger.Issue("w1", "DNS:w1");
  tls.cert_file = forged.cert;
  tls.key_file = forged.key;
  EXPECT_TRUE(absl::IsUnavailable(OpenSession(Connect(server, tls)))) << "of another CA";
  const TestCa::Files own = ca.Issue("w1", "DNS:w1,DNS:w1.pool");
  tls.cert_file = own.cert;
  tls.key_file = own.key;
  EXPECT_TRUE(OpenSession(Connect(server, tls)).ok());
  const rpc::Peer peer = server.last_peer();
  EXPECT_TRUE(peer.verified);
  EXPECT_THAT(peer.names, ElementsAre("w1", "w1.pool"));
  EXPECT_THAT(peer.address, testing::StartsWith("127.0.0.1:"));
}

TEST(SessionServer, ACertificateWithoutAlternativeNamesCountsByItsCommonName) {
  TestCa ca;
  const TestCa::Files files = ca.IssueServer();
  const TestCa::Files own = ca.Issue("w9", "");
  TestServer server(Listen(ServerFiles(files, ca.ca_file())));
  rpc::ClientTls tls = Trusting(ca);
  tls.cert_file = own.cert;
  tls.key_file = own.key;
  EXPECT_TRUE(OpenSession(Connect(server, tls)).ok());
  EXPECT_THAT(server.last_peer().names, ElementsAre("w9"));
}

// Connects anew until it works; each attempt has a channel of its own.
bool ConnectsSoon(const TestServer& server, const rpc::ClientTls& tls) {
  for (int i = 0; i < 100; ++i) {
    if (OpenSession(Connect(server, tls)).ok()) return true;
    absl::SleepFor(absl::Milliseconds(100));
  }
  return false;
}

void Replace(const std::string& from, const std::string& to) {
  std::filesystem::copy_file(from, to + ".new", std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(to + ".new", to);
}

TEST(SessionServer, ARenewedCertificateIsServedWithoutARestart) {
  TestCa old_ca;
  TestCa new_ca;
  const TestCa::Files files = old_ca.IssueServer();
  TestServer server(Listen(ServerFiles(files)));
  const rpc::ClientTls trusts_new = Trusting(new_ca);
  EXPECT_FALSE(OpenSession(Connect(server, trusts_new)).ok());
  const TestCa::Files renewed = new_ca.IssueServer();
  Replace(renewed.key, files.key);
  Replace(renewed.cert, files.cert);
  EXPECT_TRUE(ConnectsSoon(server, trusts_new));
}

TEST(SessionServer, AClientTakesUpARenewedCaOnTheChannelThatItHas) {
  TestCa old_ca;
  TestCa new_ca;
  const TestCa::Files files = new_ca.IssueServer();
  TestServer server(Listen(ServerFiles(files)));
  auto channel = Connect(server, Trusting(old_ca));
  EXPECT_FALSE(OpenSession(channel).ok());
  Replace(new_ca.ca_file(), old_ca.ca_file());
  bool connected = false;
  for (int i = 0; i < 100 && !connected; ++i) {
    connected = OpenSession(channel).ok();
    if (!connected) absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_TRUE(connected);
}

TEST(SessionServer, HealthSaysServingOnlyWhenItIsSet) {
  TestServer server(WithToken("of-no-use-to-a-probe"));
  auto channel = Connect(server);
  // HealthCheckRequest{service = 1}, HealthCheckResponse{status = 1}: 1 SERVING, 2 NOT_SERVING.
  const std::string worker_service = absl::StrCat("\x0a\x19", "headrace.v1.WorkerService");
  for (const bool serving : {false, true, false}) {
    (*server.server)->SetServing(serving);
    for (const std::string& request : {std::string(), worker_service}) {
      std::string response;
      const absl::Status status =
          RawCall(channel, "/grpc.health.v1.Health/Check", request, &response);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(response, serving ? "\x08\x01" : "\x08\x02");
    }
  }
}

TEST(SessionServer, ReflectionIsThereOnlyWhenAskedFor) {
  const std::string method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const std::string list_services("\x3a\x00", 2);  // ServerReflectionRequest{list_services = 7}
  std::string response;
  {
    SessionServerOptions options;
    options.reflection = true;
    TestServer server(options);
    const absl::Status status = RawCall(Connect(server), method, list_services, &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(response, HasSubstr("headrace.v1.OperatorService"));
  }
  TestServer server({});
  EXPECT_TRUE(absl::IsUnimplemented(RawCall(Connect(server), method, list_services, &response)));
}

TEST(SessionServer, AMessagePastTheLimitIsRefusedBySize) {
  TestServer server({});
  OperatorClient client(Connect(server), std::make_shared<rpc::LiveToken>(Secret()),
                        absl::ZeroDuration());
  const absl::Status refused = client.Submit(std::string(rpc::kMaxMessageBytes + 1, 'x')).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Submit(std::string(rpc::kMaxMessageBytes / 2, 'x')).ok());
}

TEST(OperatorService, AnswersAndErrorsPassThroughAsTheyAre) {
  TestServer server({});
  OperatorClient client(Connect(server), std::make_shared<rpc::LiveToken>(Secret()), kPatience);
  EXPECT_EQ(client.Submit("dir")->output_dir(), "dir");
  EXPECT_EQ(client.Submit("bad").status(), absl::InvalidArgumentError("line 1: no job"));
  EXPECT_EQ(client.Cancel("x", "").status(), absl::NotFoundError("no job x"));
  EXPECT_EQ(client.Status()->state(), "serving");
}

TEST(OperatorService, ACallerThatWentAwayHoldsUpNothing) {
  TestServer server({});
  auto stub = v1::OperatorService::NewStub(Connect(server));
  grpc::ClientContext context;
  std::thread caller([&stub, &context] {
    v1::SubmitJobRequest request;
    request.set_job_yaml("wait");
    v1::SubmitJobResponse response;
    EXPECT_EQ(stub->SubmitJob(&context, request, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  server.op()->began.get_future().get();
  context.TryCancel();
  caller.join();
  OperatorClient client(Connect(server), std::make_shared<rpc::LiveToken>(Secret()), kPatience);
  EXPECT_EQ(client.Status()->state(), "serving");
  // The server ends while the call's work is still under way: its stop token ends it.
}

TEST(OperatorService, ACallUnderWayEndsWithTheServer) {
  TestServer server({});
  auto stub = v1::OperatorService::NewStub(Connect(server));
  std::thread caller([&stub] {
    grpc::ClientContext context;
    v1::SubmitJobRequest request;
    request.set_job_yaml("wait");
    v1::SubmitJobResponse response;
    EXPECT_FALSE(stub->SubmitJob(&context, request, &response).ok());
  });
  server.op()->began.get_future().get();
  (*server.server)->Stop();
  caller.join();
}

TEST(OperatorClient, AsksAgainUntilItsPatienceIsOver) {
  TestServer there({});
  const rpc::Address gone = there.address();
  (*there.server)->Stop();
  const absl::Time begun = absl::Now();
  OperatorClient client(rpc::MakeChannel(gone, *rpc::MakeClientCredentials({})),
                        std::make_shared<rpc::LiveToken>(Secret()), absl::Milliseconds(500));
  EXPECT_TRUE(absl::IsUnavailable(client.Status().status()));
  EXPECT_GE(absl::Now() - begun, absl::Milliseconds(100)) << "it asked more than once";
  EXPECT_LE(absl::Now() - begun, kPatience);
}

TEST(SessionServer, EndsThoughAClientKeepsItsSessionOpen) {
  TestServer server({});
  auto stub = v1::WorkerService::NewStub(Connect(server));
  grpc::ClientContext context;
  auto stream = stub->Session(&context);
  server.last_peer();
  (*server.server)->Stop();  // the session waits for a message that never comes
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace headrace
