// What the HTTP/1.1 engine does when all goes well, and with its connections.
#include "worker/http/curl_engine.h"

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/unit/worker/http/curl_fixture.h"

namespace headrace::http {
namespace {

using After = H1TestServer::After;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

TEST_F(CurlEngineTest, AnAnswerComesWithItsStatusHeadersAndBody) {
  Start();
  server_->SetRaw("/v1/chat?x=1",
                  "HTTP/1.1 201 Created\r\nX-Request-ID:  r 1 \r\nEmpty:\r\ncontent-length: "
                  "5\r\n\r\nhello",
                  After::kKeep);
  const CallResult result = Call(Post("/v1/chat?x=1", "{\"a\":1}"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(result.status, 201);
  EXPECT_EQ(result.sends, 1);
  EXPECT_EQ(result.replays, 0);
  EXPECT_EQ(result.http_version, 11);
  EXPECT_EQ(result.body_bytes, 5);
  EXPECT_EQ(result.detail, "");
  EXPECT_EQ(answer_.heads, 1);
  EXPECT_EQ(answer_.body, "hello");
  EXPECT_THAT(answer_.headers, ElementsAre(Pair("x-request-id", "r 1"), Pair("empty", ""),
                                           Pair("content-length", "5")));
  ASSERT_EQ(server_->seen().size(), 1u);
  EXPECT_EQ(server_->seen()[0].body, "{\"a\":1}");
  EXPECT_THAT(server_->seen()[0].head, HasSubstr("POST /v1/chat?x=1 HTTP/1.1\r\n"));
}

TEST_F(CurlEngineTest, OnlyTheCallersHeadersAndTheNecessaryOnesGoOut) {
  Start();
  server_->SetRaw("/", Ok(""), After::kKeep);
  Request request;
  request.path = "/";
  request.headers = {{"authorization", "Bearer k"}, {"x-empty", ""}};
  request.body = "abc";
  ASSERT_EQ(Call(request).end, CallEnd::kComplete);
  ASSERT_EQ(server_->seen().size(), 1u);
  EXPECT_EQ(server_->seen()[0].head,
            "POST / HTTP/1.1\r\nHost: " + client_options_.endpoint.authority() +
                "\r\nauthorization: Bearer k\r\nx-empty:\r\nContent-Length: 3\r\n\r\n");
}

TEST_F(CurlEngineTest, ALargeBodyGoesOutWithoutAnExpectHeader) {
  Start();
  server_->SetRaw("/", Ok("x"), After::kKeep);
  const CallResult result = Call(Post("/", std::string(3 << 20, 'p')));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(server_->stats().expect_headers, 0);
  EXPECT_EQ(server_->seen()[0].body.size(), size_t{3} << 20);
}

TEST_F(CurlEngineTest, OtherMethodsGoOutAsWritten) {
  Start();
  server_->SetRaw("/", Ok(""), After::kKeep);
  for (const char* method : {"GET", "PUT", "PATCH", "DELETE"}) {
    Request request;
    request.method = method;
    request.path = "/";
    ASSERT_EQ(Call(request).end, CallEnd::kComplete) << method;
    EXPECT_THAT(server_->seen().back().head, HasSubstr(std::string(method) + " / HTTP/1.1"));
  }
}

TEST_F(CurlEngineTest, ThePathIsSentAsItIs) {
  Start();
  server_->SetRaw("/a/../b%2F//c", Ok(""), After::kKeep);
  EXPECT_EQ(Call(Post("/a/../b%2F//c")).status, 200);
}

TEST_F(CurlEngineTest, TheNextCallReusesTheConnection) {
  Start();
  server_->SetRaw("/", Ok("x"), After::kKeep);
  const CallResult first = Call(Post("/"));
  const CallResult second = Call(Post("/"));
  EXPECT_EQ(server_->stats().connections, 1);
  EXPECT_EQ(first.connection_id, 1u);
  EXPECT_EQ(second.connection_id, 1u);
  EXPECT_GT(first.stamps.connect, absl::ZeroDuration());
  EXPECT_EQ(second.stamps.connect, absl::ZeroDuration());
  EXPECT_EQ(engine_->stats().connections_made, 1);
  EXPECT_EQ(engine_->stats().connections, 1);
  EXPECT_EQ(engine_->stats().calls, 2);
}

TEST_F(CurlEngineTest, AConnectionIsReplacedAfterItsLastAllowedRequest) {
  client_options_.max_requests_per_connection = 2;
  Start();
  server_->SetRaw("/", Ok("x"), After::kKeep);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Call(Post("/")).end, CallEnd::kComplete);
  EXPECT_EQ(server_->stats().connections, 3);
}

TEST_F(CurlEngineTest, IdleConnectionsAreClosed) {
  client_options_.idle_timeout = absl::Milliseconds(50);
  Start();
  server_->SetRaw("/", Ok("x"), After::kKeep);
  ASSERT_EQ(Call(Post("/")).end, CallEnd::kComplete);
  StopSource source;
  reactor_->Run(StopAfter(reactor_.get(), absl::Milliseconds(200), &source));
  EXPECT_TRUE(server_->WaitFor([](const TestServerStats& s) { return s.open_connections == 0; },
                               absl::Seconds(5)));
  EXPECT_EQ(engine_->stats().connections, 0);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kComplete);
}

TEST_F(CurlEngineTest, TlsIsVerifiedAgainstTheCaFile) {
  Start({.tls = true});
  server_->SetRaw("/", Ok("x"), After::kKeep);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
}

TEST_F(CurlEngineTest, InterimResponsesAreSkipped) {
  Start();
  server_->SetRaw(
      "/", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + Ok("done"),
      After::kKeep);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(answer_.heads, 1);
  EXPECT_THAT(answer_.headers, ElementsAre(Pair("content-length", "4")));
  EXPECT_EQ(answer_.body, "done");
}

TEST_F(CurlEngineTest, ChunksAreJoinedAndTrailersDropped) {
  Start();
  server_->SetRaw("/",
                  "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n"
                  "02\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n",
                  After::kKeep);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(answer_.body, "abcde");
  EXPECT_EQ(answer_.heads, 1);
  EXPECT_EQ(FindHeader(answer_.headers, "x-trailer"), nullptr);
  // The connection is in step.
  EXPECT_EQ(Call(Post("/")).connection_id, result.connection_id);
}

TEST_F(CurlEngineTest, TenThousandHeaderBytesArrive) {
  Start();
  std::string head = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n";
  for (int i = 0; i < 10; ++i) {
    head += "x-" + std::to_string(i) + ": " + std::string(1000, 'h') + "\r\n";
  }
  server_->SetRaw("/", head + "\r\n", After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kComplete);
  EXPECT_EQ(answer_.headers.size(), 11u);
}

TEST_F(CurlEngineTest, AResponseWithoutABodyIsComplete) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 204 No Content\r\n\r\n", After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kComplete);
  EXPECT_EQ(answer_.body, "");
}

TEST_F(CurlEngineTest, ARedirectIsAnAnswer) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n",
                  After::kKeep);
  EXPECT_EQ(Call(Post("/")).status, 302);
  EXPECT_EQ(server_->stats().requests, 1);
}

// More calls than one shard takes, all held at the server at once: libcurl queues none of them.
TEST_F(CurlEngineTest, ThreeHundredCallsAreInFlightAtOnceOnTwoShards) {
  static constexpr int kCalls = 300;
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a"),
                             step::Delay(absl::Milliseconds(500)), step::Data("b"), step::End()}});
  std::vector<Answer> answers(kCalls);
  std::vector<CallResult> results(kCalls);
  struct Flow {
    static Task<void> Run(CurlEngine* engine, Reactor* reactor, std::vector<Answer>* answers,
                          std::vector<CallResult>* results) {
      TaskScope scope(reactor, StopToken());
      for (int i = 0; i < kCalls; ++i) {
        scope.Spawn(CallInto(engine, Post("/"), &(*answers)[i], StopToken(), &(*results)[i]));
      }
      co_await Yield(reactor);
      co_await Yield(reactor);
      EXPECT_EQ(engine->stats().streams, kCalls);
      co_await scope.Join();
    }
  };
  reactor_->Run(Flow::Run(engine_.get(), reactor_.get(), &answers, &results));
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(results[i].end, CallEnd::kComplete) << results[i].detail;
    EXPECT_EQ(answers[i].body, "ab");
  }
  EXPECT_EQ(server_->stats().connections, kCalls);
  EXPECT_EQ(engine_->shard_count(), 2u);
  EXPECT_EQ(engine_->stats().streams, 0);
}

TEST_F(CurlEngineTest, AnEngineThatIsShutDownRefusesCalls) {
  Start();
  reactor_->Run(engine_->Shutdown());
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_EQ(server_->stats().connections, 0);
}

TEST(CurlEngine, AnUnreadableCaFileIsAnInvalidArgument) {
  auto reactor = *EpollReactor::Make();
  ClientOptions options;
  options.endpoint = *ParseUrl("https://localhost/");
  options.ca_file = "/nonexistent/ca.pem";
  const absl::Status status = CurlEngine::Make(reactor.get(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/ca.pem"));
}

TEST(CurlEngine, ImpossibleOptionsAreInvalidArguments) {
  auto reactor = *EpollReactor::Make();
  ClientOptions good;
  good.endpoint = *ParseUrl("http://localhost/");
  ASSERT_TRUE(CurlEngine::Make(reactor.get(), good).ok());
  ClientOptions bad = good;
  bad.idle_timeout = absl::ZeroDuration();
  EXPECT_FALSE(CurlEngine::Make(reactor.get(), bad).ok());
  bad = good;
  bad.max_requests_per_connection = 0;
  EXPECT_FALSE(CurlEngine::Make(reactor.get(), bad).ok());
  bad = good;
  bad.endpoint.host.clear();
  EXPECT_FALSE(CurlEngine::Make(reactor.get(), bad).ok());
}

}  // namespace
}  // namespace headrace::http
