// How calls of the HTTP/1.1 engine end when something breaks, is late, or is cancelled.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/worker/http/curl_fixture.h"

namespace headrace::http {
namespace {

using After = H1TestServer::After;
using testing::HasSubstr;
using testing::Not;

// A listening socket whose connections nobody accepts: TCP connects, and nothing more happens.
class SilentListener {
 public:
  SilentListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    socklen_t size = sizeof(address);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentListener() { CloseNow(); }
  void CloseNow() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

TEST_F(CurlEngineTest, ARefusedConnectionIsNotSent) {
  SilentListener listener;
  client_options_.endpoint = *ParseUrl("http://127.0.0.1/");
  client_options_.endpoint.port = listener.port();
  listener.CloseNow();
  StartEngine();
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
  EXPECT_EQ(result.sends, 0);
  EXPECT_THAT(result.detail, HasSubstr("127.0.0.1:"));
}

TEST_F(CurlEngineTest, AnUntrustedCertificateIsNotSentAndNamedSo) {
  TestCertificate other;
  server_ = std::make_unique<H1TestServer>(TestServerOptions{.tls = true});
  client_options_.endpoint = server_->url();
  client_options_.ca_file = other.cert_file();
  StartEngine();
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
  EXPECT_THAT(result.detail, HasSubstr("certificate"));
  EXPECT_EQ(server_->stats().requests, 0);
}

TEST_F(CurlEngineTest, TlsToAPlainServerIsNotSent) {
  Start();
  client_options_.endpoint.tls = true;
  Stop();
  StartEngine();
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
}

// libcurl sends a request again, body included, when a reused connection ends without a byte of an
// answer. The server may have begun to work on it, and to bill (cases B14).
TEST_F(CurlEngineTest, APostWhoseReusedConnectionDiesUnansweredIsNotSentAgain) {
  Start();
  server_->SetRaw("/ok", Ok("x"), After::kKeep);
  server_->SetScripts("/die", {{step::AwaitBody(), step::Fin()}});
  ASSERT_EQ(Call(Post("/ok")).end, CallEnd::kComplete);
  const CallResult result = Call(Post("/die"));
  EXPECT_EQ(result.end, CallEnd::kLost);
  EXPECT_EQ(result.sends, 1);
  EXPECT_EQ(result.replays, 0);
  EXPECT_FALSE(result.connection_error);
  EXPECT_THAT(result.detail, HasSubstr("not sent again"));
  EXPECT_EQ(server_->stats().bodies, 2);
  EXPECT_EQ(Call(Post("/ok")).end, CallEnd::kComplete);
}

TEST_F(CurlEngineTest, APostWhoseReusedConnectionIsResetIsNotSentAgain) {
  Start();
  server_->SetRaw("/ok", Ok("x"), After::kKeep);
  server_->SetScripts("/die", {{step::AwaitBody(), step::TcpReset()}});
  ASSERT_EQ(Call(Post("/ok")).end, CallEnd::kComplete);
  const CallResult result = Call(Post("/die"));
  EXPECT_EQ(result.end, CallEnd::kLost) << result.detail;
  EXPECT_EQ(result.sends, 1);
  EXPECT_EQ(server_->stats().bodies, 2);
}

TEST_F(CurlEngineTest, AConnectionThatTheServerClosedWhileIdleIsReplacedUnseen) {
  Start();
  server_->SetRaw("/close", Ok("x"), After::kClose);
  ASSERT_EQ(Call(Post("/close")).end, CallEnd::kComplete);
  ASSERT_TRUE(server_->WaitForFins(1, absl::Seconds(5)));
  const CallResult result = Call(Post("/close"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(result.sends, 1);
  EXPECT_EQ(server_->stats().bodies, 2);
}

TEST_F(CurlEngineTest, AFreshConnectionThatDiesUnansweredIsLost) {
  Start();
  server_->SetScripts("/die", {{step::AwaitBody(), step::Fin()}});
  const CallResult result = Call(Post("/die"));
  EXPECT_EQ(result.end, CallEnd::kLost);
  EXPECT_EQ(result.sends, 1);
  EXPECT_EQ(server_->stats().bodies, 1);
}

TEST_F(CurlEngineTest, ABodyShorterThanItsContentLengthIsLost) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"a\":{}", After::kClose);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kLost);
  EXPECT_EQ(result.status, 200);
  EXPECT_EQ(result.body_bytes, 7);
}

TEST_F(CurlEngineTest, AChunkedBodyWithoutItsLastChunkIsLost) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
                  After::kClose);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kLost);
}

TEST_F(CurlEngineTest, ABodyThatEndsWithTheConnectionIsCompleteAfterACleanClose) {
  Start();
  server_->SetRaw("/", "HTTP/1.0 200 OK\r\n\r\nold", After::kClose);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(answer_.body, "old");
}

TEST_F(CurlEngineTest, ABodyThatEndsWithAResetConnectionIsLost) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("old"),
                             step::Delay(absl::Milliseconds(50)), step::TcpReset()}});
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kLost);
}

TEST_F(CurlEngineTest, UnderTlsACloseWithoutGoodbyeIsNoCleanEnd) {
  Start({.tls = true});
  server_->SetRaw("/", "HTTP/1.0 200 OK\r\n\r\ncut", After::kTruncate);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kLost) << result.detail;
}

TEST_F(CurlEngineTest, UnderTlsACloseWithAGoodbyeIsACleanEnd) {
  Start({.tls = true});
  server_->SetRaw("/", "HTTP/1.0 200 OK\r\n\r\nwhole", After::kClose);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
}

TEST_F(CurlEngineTest, AfterTheEndMarkerABrokenConnectionIsASuccess) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a[DONE]"),
                             step::Delay(absl::Milliseconds(20)), step::TcpReset()}});
  Answer answer;
  answer.verdict = UntilDone;
  const CallResult result = Call(Post("/"), &answer);
  EXPECT_EQ(result.end, CallEnd::kComplete);
  EXPECT_THAT(result.detail, Not(""));
}

TEST_F(CurlEngineTest, AfterTheEndMarkerAStreamThatStaysOpenIsClosedByUs) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a[DONE]")}});
  Answer answer;
  answer.verdict = UntilDone;
  const MonoTime before = reactor_->Now();
  const CallResult result = Call(Post("/"), &answer);
  EXPECT_EQ(result.end, CallEnd::kComplete);
  EXPECT_EQ(result.timer, TimerKind::kNone);
  EXPECT_GE(reactor_->Now() - before, kCompleteGrace);
  EXPECT_TRUE(
      server_->WaitFor([](const TestServerStats& s) { return s.resets == 1; }, absl::Seconds(5)));
}

TEST_F(CurlEngineTest, BrokenChunksAreABadResponse) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n",
                  After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kBadResponse);
}

TEST_F(CurlEngineTest, BytesThatAreNoHttpAreABadResponse) {
  Start();
  server_->SetRaw("/", "SSH-2.0-OpenSSH_9.2\r\n\r\n", After::kClose);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kBadResponse) << result.detail;
  EXPECT_EQ(result.sends, 1);
}

TEST_F(CurlEngineTest, HeadersOverTheLimitAreABadResponse) {
  Start();
  std::string head = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 200; ++i) head += "x-filler: " + std::string(1000, 'h') + "\r\n";
  server_->SetRaw("/", head + "\r\n", After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kBadResponse);
  EXPECT_EQ(answer_.heads, 0);
}

TEST_F(CurlEngineTest, OneEndlessHeaderLineIsABadResponse) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 200 OK\r\nx: " + std::string(400 << 10, 'h') + "\r\n\r\n",
                  After::kKeep);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kBadResponse) << result.detail;
  // libcurl's own words are "Out of memory", or of a value that "grew larger than allowed".
  EXPECT_NE(result.detail.find("a header line is too long"), std::string::npos) << result.detail;
}

TEST_F(CurlEngineTest, AHeadThatIsCutIsALostCall) {
  Start();
  const std::string head = "HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n";
  for (const size_t cut : {size_t{17}, size_t{20}, head.size() - 1, head.size()}) {
    server_->SetRaw("/", head.substr(0, cut), After::kClose);
    const CallResult result = Call(Post("/"));
    EXPECT_EQ(result.end, CallEnd::kLost) << cut << result.detail;
    EXPECT_EQ(result.sends, 1);
  }
}

TEST_F(CurlEngineTest, AnUnaskedSwitchOfProtocolsIsABadResponse) {
  Start();
  server_->SetRaw("/", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nabc", After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kBadResponse);
}

TEST_F(CurlEngineTest, AnAnswerBeforeTheUploadHasEndedIsTaken) {
  Start();
  server_->SetScripts("/", {{step::Headers(413, {{"content-length", "5"}, {"connection", "close"}}),
                             step::Data("large"), step::Fin()}});
  const CallResult result = Call(Post("/", std::string(16 << 20, 'p')));
  EXPECT_EQ(result.status, 413) << result.detail;
  EXPECT_EQ(answer_.body, "large");
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
}

// Timers.

TEST_F(CurlEngineTest, TheConnectTimerEndsAHandshakeThatNeverEnds) {
  SilentListener listener;
  TestCertificate authority;  // without any, libcurl does not begin a handshake
  client_options_.ca_file = authority.cert_file();
  client_options_.endpoint = *ParseUrl("https://127.0.0.1/");
  client_options_.endpoint.port = listener.port();
  StartEngine();
  Request request = Post("/");
  request.timeouts.connect = absl::Milliseconds(100);
  const CallResult result = Call(request);
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kConnect);
  EXPECT_EQ(result.sends, 0);
}

TEST_F(CurlEngineTest, TheFirstByteTimerEndsASilentServer) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::BlackHole()}});
  Request request = Post("/");
  request.timeouts.first_byte = absl::Milliseconds(100);
  const CallResult result = Call(request);
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kFirstByte);
  EXPECT_EQ(result.sends, 1);
  EXPECT_TRUE(
      server_->WaitFor([](const TestServerStats& s) { return s.resets == 1; }, absl::Seconds(5)));
  EXPECT_EQ(engine_->stats().resets_sent, 1);
}

TEST_F(CurlEngineTest, AnInterimResponseDoesNotStopTheFirstByteTimer) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(103), step::BlackHole()}});
  Request request = Post("/");
  request.timeouts.first_byte = absl::Milliseconds(100);
  EXPECT_EQ(Call(request).timer, TimerKind::kFirstByte);
}

TEST_F(CurlEngineTest, TheSilenceTimerEndsAStreamThatStops) {
  Start();
  server_->SetScripts("/",
                      {{step::AwaitBody(), step::Headers(), step::Data("a"), step::BlackHole()}});
  Request request = Post("/");
  request.timeouts.silence = absl::Milliseconds(100);
  const CallResult result = Call(request);
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kSilence);
  EXPECT_EQ(answer_.body, "a");
}

TEST_F(CurlEngineTest, SignsOfLifeDoNotCountAsProgress) {
  Start();
  Script script = {step::AwaitBody(), step::Headers()};
  for (int i = 0; i < 100; ++i) {
    script.push_back(step::Data(": ping\n\n"));
    script.push_back(step::Delay(absl::Milliseconds(20)));
  }
  server_->SetScripts("/", {script});
  Request request = Post("/");
  request.timeouts.silence = absl::Seconds(1);
  request.timeouts.progress = absl::Milliseconds(200);
  Answer answer;
  answer.verdict = [](const std::string&) { return BodyVerdict::kKeepAlive; };
  const CallResult result = Call(request, &answer);
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kProgress);
  EXPECT_FALSE(result.stamps.first_body.has_value());
}

TEST_F(CurlEngineTest, TheTotalTimerEndsALongStream) {
  Start();
  Script script = {step::AwaitBody(), step::Headers()};
  for (int i = 0; i < 100; ++i) {
    script.push_back(step::Data("t"));
    script.push_back(step::Delay(absl::Milliseconds(20)));
  }
  server_->SetScripts("/", {script});
  Request request = Post("/");
  request.timeouts.total = absl::Milliseconds(200);
  const CallResult result = Call(request);
  EXPECT_EQ(result.end, CallEnd::kTimedOut);
  EXPECT_EQ(result.timer, TimerKind::kTotal);
  EXPECT_TRUE(result.stamps.first_body.has_value());
}

// Cancelling.

TEST_F(CurlEngineTest, AStopClosesTheConnectionAtOnce) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a")}});
  StopSource source;
  struct Flow {
    static Task<void> Run(Engine* engine, Reactor* reactor, Receiver* receiver, StopSource* source,
                          CallResult* result) {
      TaskScope scope(reactor, StopToken());
      scope.Spawn(CallInto(engine, Post("/"), receiver, source->token(), result));
      scope.Spawn(StopAfter(reactor, absl::Milliseconds(50), source));
      co_await scope.Join();
    }
  };
  CallResult result;
  reactor_->Run(Flow::Run(engine_.get(), reactor_.get(), &answer_, &source, &result));
  EXPECT_EQ(result.end, CallEnd::kCancelled);
  EXPECT_THAT(result.detail, HasSubstr("user"));
  EXPECT_TRUE(
      server_->WaitFor([](const TestServerStats& s) { return s.resets == 1; }, absl::Seconds(5)));
}

TEST_F(CurlEngineTest, AStopBeforeTheCallSendsNothing) {
  Start();
  StopSource source;
  source.RequestStop(StopCode::kUser);
  EXPECT_EQ(Call(Post("/"), &answer_, source.token()).end, CallEnd::kCancelled);
  EXPECT_EQ(server_->stats().connections, 0);
}

TEST_F(CurlEngineTest, AReceiverMayStopItsOwnCall) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a")}});
  StopSource source;
  Answer answer;
  answer.verdict = [&source](const std::string&) {
    source.RequestStop(StopCode::kPolicy);
    return BodyVerdict::kProgress;
  };
  EXPECT_EQ(Call(Post("/"), &answer, source.token()).end, CallEnd::kCancelled);
}

TEST_F(CurlEngineTest, AReceiverThatAbortsEndsItsCall) {
  Start();
  server_->SetScripts("/", {{step::AwaitBody(), step::Headers(), step::Data("a")}});
  Answer answer;
  answer.verdict = [](const std::string&) { return BodyVerdict::kAbort; };
  EXPECT_EQ(Call(Post("/"), &answer).end, CallEnd::kAborted);
  EXPECT_TRUE(
      server_->WaitFor([](const TestServerStats& s) { return s.resets == 1; }, absl::Seconds(5)));
}

TEST_F(CurlEngineTest, ABodyOverItsLimitEndsTheCall) {
  Start();
  server_->SetRaw("/", Ok(std::string(1001, 'x')), After::kKeep);
  Request request = Post("/");
  request.max_response_bytes = 1000;
  EXPECT_EQ(Call(request).end, CallEnd::kTooLarge);
  request.max_response_bytes = 1001;
  EXPECT_EQ(Call(request).end, CallEnd::kComplete);
}

// A key with a line end in it must not become a second header (cases I1).
TEST_F(CurlEngineTest, ALineEndInAHeaderIsRefusedAndItsValueNotShown) {
  Start();
  Request request = Post("/");
  request.headers.emplace_back("authorization", "Bearer sk-secret\r\nx-evil: 1");
  const CallResult result = Call(request);
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_FALSE(result.connection_error);
  EXPECT_THAT(result.detail, HasSubstr("authorization"));
  EXPECT_THAT(result.detail, Not(HasSubstr("secret")));
  EXPECT_EQ(server_->stats().connections, 0);
}

}  // namespace
}  // namespace headrace::http
