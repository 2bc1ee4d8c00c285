// What only the HTTP/2 engine has: pings, rotation, calm, TLS and its connections' lives.
#include "worker/http/h2_engine.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/async/scope.h"
#include "common/async/wait.h"
#include "tests/support/h2_test_server.h"
#include "tests/unit/worker/http/conformance.h"

namespace headrace::http {
namespace {

using Condition = bool (*)(const TestServerStats&);

class H2EngineTest : public testing::Test {
 public:
  void Start(TestServerOptions options = {}, H2ServerExtras extras = {}) {
    server_ = MakeH2TestServer(options, extras);
    server_->SetScripts("/ok",
                        {{step::AwaitBody(), step::Headers(), step::Data("ok"), step::End()}});
    server_->SetScripts("/silent", {{step::AwaitBody()}});
    absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
    ASSERT_TRUE(reactor.ok()) << reactor.status();
    reactor_ = *std::move(reactor);
    client_.endpoint = server_->url();
    if (trusts_server_) client_.ca_file = server_->ca_file();
    absl::StatusOr<std::unique_ptr<H2Engine>> engine =
        H2Engine::Make(reactor_.get(), client_, tuning_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  static Request Post(std::string path) {
    Request request;
    request.path = std::move(path);
    request.body = "{}";
    request.timeouts.connect = absl::Seconds(5);
    request.timeouts.total = absl::Seconds(5);
    return request;
  }

  // One call after the other, then waits for `condition` (5 s at most) and shuts down.
  std::vector<Made> InTurn(std::vector<Request> requests, Condition condition = nullptr) {
    std::vector<Made> made(requests.size());
    reactor_->Run(Main(this, std::move(requests), &made, condition));
    return made;
  }
  CallResult One(Request request) {
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    return InTurn(std::move(requests))[0].result;
  }

  static Task<void> Main(H2EngineTest* self, std::vector<Request> requests, std::vector<Made>* made,
                         Condition condition) {
    for (size_t i = 0; i < requests.size(); ++i) {
      Recorder* recorder = &(*made)[i].recorder;
      (*made)[i].result = co_await self->engine_->Call(&requests[i], recorder, StopToken());
    }
    const MonoTime limit = self->reactor_->Now() + absl::Seconds(5);
    while (condition != nullptr && self->reactor_->Now() < limit) {
      if (condition(self->server_->stats())) break;
      Sleep moment(self->reactor_.get(), absl::Milliseconds(1), StopToken());
      co_await moment;
    }
    co_await self->engine_->Shutdown();
  }

  ClientOptions client_;
  H2Tuning tuning_;
  bool trusts_server_ = true;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<H2Engine> engine_;
};

TEST_F(H2EngineTest, AnUnansweredPingMeansALostConnection) {
  tuning_.ping_after = absl::Milliseconds(40);
  tuning_.ping_timeout = absl::Milliseconds(40);
  Start({}, {.answers_pings = false});
  const CallResult result = One(Post("/silent"));
  EXPECT_EQ(result.end, CallEnd::kLost);
  EXPECT_NE(result.detail.find("PING"), std::string::npos) << result.detail;
  EXPECT_EQ(server_->stats().pings, 1);
}

// A key with a line end in it must not become a second header (cases I1).
TEST_F(H2EngineTest, AHeaderThatWouldForgeAnotherIsNeverSent) {
  Start();
  Request request = Post("/ok");
  request.headers = {{"authorization", "Bearer sk-secret\r\nx-evil: 1"}};
  const CallResult result = One(std::move(request));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_EQ(result.sends, 0);
  EXPECT_EQ(result.detail.find("sk-secret"), std::string::npos) << result.detail;
}

// Cases G6: too many pings end the connection at the server.
TEST_F(H2EngineTest, ASilentStreamIsPingedNotMoreOftenThanItsPeriod) {
  tuning_.ping_after = absl::Milliseconds(60);
  Start();
  server_->SetScripts("/slow", {{step::AwaitBody(), step::Delay(absl::Milliseconds(300)),
                                 step::Headers(), step::End()}});
  EXPECT_EQ(One(Post("/slow")).end, CallEnd::kComplete);
  EXPECT_GE(server_->stats().pings, 1);
  EXPECT_LE(server_->stats().pings, 5);
}

TEST_F(H2EngineTest, AnIdleConnectionIsClosed) {
  client_.idle_timeout = absl::Milliseconds(30);
  Start();
  InTurn({Post("/ok")}, [](const TestServerStats& stats) { return stats.open_connections == 0; });
  EXPECT_EQ(server_->stats().open_connections, 0);
  EXPECT_EQ(engine_->stats().connections, 0);
}

TEST_F(H2EngineTest, AConnectionIsReplacedAfterItsShareOfRequests) {
  client_.max_requests_per_connection = 10;
  Start();
  for (const Made& m : InTurn(std::vector<Request>(35, Post("/ok")))) {
    EXPECT_EQ(m.result.end, CallEnd::kComplete) << m.result.detail;
    EXPECT_EQ(m.result.replays, 0);
  }
  EXPECT_EQ(server_->stats().connections, 4);
}

TEST_F(H2EngineTest, AConnectionIsReplacedBeforeItsResetsTripADefence) {
  tuning_.max_resets_per_connection = 5;
  Start({.max_resets_per_connection = 5});
  server_->SetScripts("/bad", {{step::AwaitBody(), step::Headers(), step::Data("[BAD]")}});
  const std::vector<Made> made =
      InTurn(std::vector<Request>(12, Post("/bad")),
             [](const TestServerStats& stats) { return stats.resets == 12; });
  for (const Made& m : made) EXPECT_EQ(m.result.end, CallEnd::kAborted) << m.result.detail;
  EXPECT_EQ(server_->stats().connections, 3);
  EXPECT_EQ(engine_->stats().resets_sent, 12);
  EXPECT_EQ(engine_->stats().goaways, 0);
}

TEST_F(H2EngineTest, EnhanceYourCalmPausesTheEndpoint) {
  tuning_.calm_pause = absl::Milliseconds(80);
  Start();
  server_->SetScripts("/calm", {{step::AwaitBody(), step::Reset(NGHTTP2_ENHANCE_YOUR_CALM)}});
  const std::vector<Made> made = InTurn({Post("/calm"), Post("/ok")});
  EXPECT_EQ(made[0].result.end, CallEnd::kLost) << made[0].result.detail;
  ASSERT_EQ(made[1].result.end, CallEnd::kComplete) << made[1].result.detail;
  EXPECT_GE(*made[1].result.stamps.sent - made[1].result.stamps.queued, absl::Milliseconds(60));
}

TEST_F(H2EngineTest, LaterConnectionsResumeTheTlsSession) {
  client_.max_requests_per_connection = 1;
  Start({.tls = true});
  for (const Made& m : InTurn(std::vector<Request>(5, Post("/ok")))) {
    EXPECT_EQ(m.result.end, CallEnd::kComplete) << m.result.detail;
  }
  // The last one may have a successor already.
  EXPECT_GE(server_->stats().connections, 5);
  EXPECT_GE(server_->stats().resumed_sessions, 3);
}

TEST_F(H2EngineTest, AFloodOfPingsEndsTheConnectionAndTheCall) {
  Start({}, {.pings_on_connect = 5000});
  const CallResult result = One(Post("/silent"));
  EXPECT_TRUE(result.end == CallEnd::kLost || result.end == CallEnd::kNotSent)
      << CallEndName(result.end);
  EXPECT_LE(server_->stats().connections, 1 + H2Tuning().max_replays);
}

TEST_F(H2EngineTest, AnUnknownCertificateIsRefused) {
  trusts_server_ = false;
  Start({.tls = true});
  const CallResult result = One(Post("/ok"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
  EXPECT_NE(result.detail.find("certificate"), std::string::npos) << result.detail;
  EXPECT_EQ(server_->stats().requests, 0);
}

TEST_F(H2EngineTest, APeerWithoutHttp2IsToldByProbeAndGetsNoCall) {
  Start({.tls = true}, {.offers_h2 = false});
  struct Runner {
    static Task<void> Main(H2Engine* engine, absl::StatusOr<Protocol>* out, CallResult* result) {
      *out = co_await engine->Probe(absl::Seconds(5), StopToken());
      Recorder recorder;
      Request request = Post("/ok");
      *result = co_await engine->Call(&request, &recorder, StopToken());
      co_await engine->Shutdown();
    }
  };
  absl::StatusOr<Protocol> protocol = absl::UnknownError("");
  CallResult result;
  reactor_->Run(Runner::Main(engine_.get(), &protocol, &result));
  ASSERT_TRUE(protocol.ok()) << protocol.status();
  EXPECT_EQ(*protocol, Protocol::kHttp11);
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
}

TEST_F(H2EngineTest, TheConnectionOfAProbeServesTheFirstCalls) {
  Start({.tls = true});
  struct Runner {
    static Task<void> Main(H2Engine* engine, absl::StatusOr<Protocol>* out, CallResult* result) {
      *out = co_await engine->Probe(absl::Seconds(5), StopToken());
      Recorder recorder;
      Request request = Post("/ok");
      *result = co_await engine->Call(&request, &recorder, StopToken());
      co_await engine->Shutdown();
    }
  };
  absl::StatusOr<Protocol> protocol = absl::UnknownError("");
  CallResult result;
  reactor_->Run(Runner::Main(engine_.get(), &protocol, &result));
  ASSERT_TRUE(protocol.ok()) << protocol.status();
  EXPECT_EQ(*protocol, Protocol::kHttp2);
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(server_->stats().connections, 1);
  EXPECT_EQ(result.stamps.connect, absl::ZeroDuration());
}

TEST_F(H2EngineTest, AHandshakeThatHangsIsTheConnectTimer) {
  Start({.tls = true}, {.shakes_hands = false});
  Request request = Post("/ok");
  request.timeouts.connect = absl::Milliseconds(60);
  const CallResult result = One(std::move(request));
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kConnect);
  EXPECT_TRUE(result.connection_error);
  EXPECT_EQ(result.sends, 0);
}

TEST_F(H2EngineTest, AHeaderWithALineEndIsNeverSent) {
  Start();
  Request request = Post("/ok");
  request.headers = {{"x-evil", "a\r\nb: c"}};
  EXPECT_EQ(One(std::move(request)).end, CallEnd::kNotSent);
  EXPECT_EQ(server_->stats().requests, 0);
}

TEST_F(H2EngineTest, AStopWhileACallWaitsForAStreamSendsNothing) {
  client_.max_connections = 1;
  client_.streams_per_connection = 1;
  Start();
  struct Runner {
    static Task<void> Caller(Engine* engine, CallResult* result, StopToken stop) {
      Recorder recorder;
      Request request = Post("/silent");
      *result = co_await engine->Call(&request, &recorder, stop);
    }
    static Task<void> Main(H2EngineTest* self, CallResult* first, CallResult* second) {
      StopSource stop;
      TaskScope scope(self->reactor_.get(), StopToken());
      scope.Spawn(Caller(self->engine_.get(), first, stop.token()));
      scope.Spawn(Caller(self->engine_.get(), second, stop.token()));
      while (self->server_->stats().bodies == 0) {
        Sleep moment(self->reactor_.get(), absl::Milliseconds(1), StopToken());
        co_await moment;
      }
      EXPECT_EQ(self->engine_->stats().waiting, 1);
      EXPECT_EQ(self->engine_->stats().streams, 1);
      stop.RequestStop(StopReason{StopCode::kUser, {}});
      co_await scope.Join();
      co_await self->engine_->Shutdown();
    }
  };
  CallResult first, second;
  reactor_->Run(Runner::Main(this, &first, &second));
  EXPECT_EQ(first.end, CallEnd::kCancelled);
  EXPECT_EQ(first.sends, 1);
  EXPECT_EQ(second.end, CallEnd::kCancelled);
  EXPECT_EQ(second.sends, 0);
  EXPECT_EQ(server_->stats().requests, 1);
}

}  // namespace
}  // namespace headrace::http
