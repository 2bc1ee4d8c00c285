// Which engine serves an endpoint.
#include "worker/http/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "tests/support/h1_test_server.h"
#include "tests/support/h2_test_server.h"
#include "tests/support/test_proxy.h"

namespace headrace::http {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

struct Body final : Receiver {
  void OnHeaders(int, Headers) override {}
  BodyVerdict OnBody(absl::string_view piece) override {
    text.append(piece.data(), piece.size());
    return BodyVerdict::kProgress;
  }
  std::string text;
};

Task<void> CallInto(Engine* engine, Request request, StopToken stop, CallResult* result) {
  Body body;
  *result = co_await engine->Call(&request, &body, stop);
}

Task<void> CallTimes(Engine* engine, Reactor* reactor, Request request, StopToken stop,
                     std::vector<CallResult>* results) {
  TaskScope scope(reactor, StopToken());
  for (CallResult& result : *results) scope.Spawn(CallInto(engine, request, stop, &result));
  co_await scope.Join();
}

class ClientTest : public testing::Test {
 protected:
  ClientTest() { options_.use_environment_proxies = false; }
  ~ClientTest() override { Stop(); }
  void Stop() {
    if (client_ != nullptr) reactor_->Run(client_->Shutdown());
    client_.reset();
  }

  void Serve(std::unique_ptr<TestServer> server) {
    server_ = std::move(server);
    server_->SetScripts("/", {{step::AwaitBody(), step::Headers(200, {{"content-length", "2"}}),
                               step::Data("ok"), step::End()}});
    options_.endpoint = server_->url();
    options_.ca_file = server_->ca_file();
  }
  void Start() {
    auto client = MakeClient(reactor_.get(), options_);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  std::vector<CallResult> Call(int times = 1, StopToken stop = StopToken()) {
    Request request;
    request.path = "/";
    request.timeouts.connect = connect_timeout_;
    std::vector<CallResult> results(static_cast<size_t>(times));
    reactor_->Run(CallTimes(client_.get(), reactor_.get(), request, stop, &results));
    return results;
  }

  ClientOptions options_;
  absl::Duration connect_timeout_ = absl::Seconds(5);
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<EpollReactor> reactor_ = *EpollReactor::Make();
  std::unique_ptr<Engine> client_;
};

TEST_F(ClientTest, AServerThatOffersHttp2IsSpokenToInHttp2OnOneConnection) {
  Serve(MakeH2TestServer({.tls = true}));
  Start();
  for (const CallResult& result : Call(20)) {
    EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
    EXPECT_EQ(result.http_version, 20);
  }
  EXPECT_EQ(server_->stats().connections, 1);
  EXPECT_EQ(client_->stats().calls, 20);
}

TEST_F(ClientTest, AServerWithoutHttp2IsSpokenToInHttp11) {
  Serve(std::make_unique<H1TestServer>(TestServerOptions{.tls = true}));
  Start();
  for (const CallResult& result : Call(5)) {
    EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
    EXPECT_EQ(result.http_version, 11);
    EXPECT_GE(*result.stamps.sent, result.stamps.queued);
  }
  EXPECT_EQ(server_->stats().requests, 5);
}

TEST_F(ClientTest, PlainHttpIsHttp11) {
  Serve(std::make_unique<H1TestServer>());
  Start();
  EXPECT_EQ(Call()[0].http_version, 11);
}

TEST_F(ClientTest, AnExplicitProtocolIsObeyed) {
  Serve(MakeH2TestServer({}));
  options_.protocol = Protocol::kHttp2;
  Start();
  EXPECT_EQ(Call()[0].http_version, 20);
  Stop();

  Serve(std::make_unique<H1TestServer>(TestServerOptions{.tls = true}));
  options_.protocol = Protocol::kHttp11;
  Start();
  EXPECT_EQ(Call()[0].http_version, 11);
  // No connection was spent on asking.
  EXPECT_EQ(server_->stats().connections, 1);
}

TEST_F(ClientTest, AFailedFirstConnectionFailsItsCallsAndTheNextOneTriesAgain) {
  TestProxy relay;
  relay.RelayTo(0);
  Serve(std::make_unique<H1TestServer>(TestServerOptions{.tls = true}));
  const int port = options_.endpoint.port;
  options_.endpoint.port = static_cast<uint16_t>(relay.port());
  Start();
  for (const CallResult& result : Call(3)) {
    EXPECT_EQ(result.end, CallEnd::kNotSent);
    EXPECT_TRUE(result.connection_error);
    EXPECT_NE(result.detail, "");
  }
  relay.RelayTo(port);
  const CallResult result = Call()[0];
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  Stop();
}

// A key with a line end in it must not become a second header (cases I1).
TEST_F(ClientTest, ALineEndInAHeaderIsRefusedForHttp2Too) {
  Serve(MakeH2TestServer({.tls = true}));
  Start();
  Request request;
  request.path = "/";
  request.headers = {{"authorization", "Bearer sk-secret\r\nx-evil: 1"}};
  std::vector<CallResult> results(1);
  reactor_->Run(CallTimes(client_.get(), reactor_.get(), request, StopToken(), &results));
  EXPECT_EQ(results[0].end, CallEnd::kNotSent);
  EXPECT_FALSE(results[0].connection_error);
  EXPECT_THAT(results[0].detail, HasSubstr("authorization"));
  EXPECT_EQ(server_->stats().connections, 0);
}

TEST_F(ClientTest, TheConnectTimerRunsWhileTheProtocolIsUnknown) {
  Serve(MakeH2TestServer({.tls = true}, {.shakes_hands = false}));
  connect_timeout_ = absl::Milliseconds(100);
  Start();
  const CallResult result = Call()[0];
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kConnect);
  EXPECT_EQ(result.sends, 0);
}

TEST_F(ClientTest, AStopIsObeyedWhileTheProtocolIsUnknown) {
  Serve(MakeH2TestServer({.tls = true}, {.shakes_hands = false}));
  Start();
  StopSource stop;
  struct Flow {
    static Task<void> Run(Engine* client, EpollReactor* reactor, StopSource* stop,
                          CallResult* result) {
      TaskScope scope(reactor, StopToken());
      Request request;
      request.path = "/";
      scope.Spawn(CallInto(client, std::move(request), stop->token(), result));
      co_await Sleep(reactor, absl::Milliseconds(20), StopToken());
      EXPECT_EQ(client->stats().waiting, 1);
      stop->RequestStop(StopCode::kUser);
      co_await scope.Join();
    }
  };
  CallResult result;
  reactor_->Run(Flow::Run(client_.get(), reactor_.get(), &stop, &result));
  EXPECT_EQ(result.end, CallEnd::kCancelled);
}

// A load balancer now sends the endpoint to servers without HTTP/2.
TEST_F(ClientTest, AServerThatNoLongerOffersHttp2IsFollowed) {
  const auto certificate = std::make_shared<TestCertificate>();
  H1TestServer other(TestServerOptions{.tls = true}, certificate);
  TestProxy relay;
  Serve(MakeH2TestServer({.tls = true}));
  relay.RelayTo(options_.endpoint.port);
  options_.endpoint.port = static_cast<uint16_t>(relay.port());
  const std::string bundle = certificate->cert_file() + ".bundle";
  std::ofstream(bundle) << std::ifstream(server_->ca_file()).rdbuf()
                        << std::ifstream(certificate->cert_file()).rdbuf();
  options_.ca_file = bundle;
  Start();
  ASSERT_EQ(Call()[0].http_version, 20);
  relay.RelayTo(other.url().port);
  server_.reset();
  // At most a few calls fail, and none of them is sent.
  CallResult result;
  for (int i = 0; i < 4; ++i) {
    result = Call()[0];
    if (result.end == CallEnd::kComplete) break;
    EXPECT_EQ(result.end, CallEnd::kNotSent) << result.detail;
  }
  EXPECT_EQ(result.status, 404) << result.detail;
  EXPECT_EQ(result.http_version, 11);
  std::remove(bundle.c_str());
  Stop();
}

TEST_F(ClientTest, AProxyMakesItHttp11) {
  TestProxy proxy;
  setenv("https_proxy", proxy.url().c_str(), 1);
  Serve(std::make_unique<H1TestServer>(TestServerOptions{.tls = true}));
  options_.use_environment_proxies = true;
  Start();
  unsetenv("https_proxy");
  EXPECT_EQ(Call()[0].end, CallEnd::kComplete);
  ASSERT_THAT(proxy.heads(), SizeIs(1));
  EXPECT_THAT(proxy.heads()[0], HasSubstr("CONNECT localhost:"));
  Stop();
}

TEST_F(ClientTest, Http2ThroughAProxyIsAnInvalidArgument) {
  setenv("https_proxy", "http://127.0.0.1:1", 1);
  options_.endpoint = *ParseUrl("https://localhost/");
  options_.use_environment_proxies = true;
  options_.protocol = Protocol::kHttp2;
  const absl::Status status = MakeClient(reactor_.get(), options_).status();
  unsetenv("https_proxy");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_proxy"));
}

}  // namespace
}  // namespace headrace::http
