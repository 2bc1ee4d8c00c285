// What breaks on the way, and what each engine must make of it.
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <string>
#include <vector>

#include "tests/unit/worker/http/conformance.h"

namespace headrace::http {
namespace {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HttpConformance);

// http.md section 2.1: libcurl's HTTP/2 took such a body for a whole one.
TEST_P(HttpConformance, AResetMidBodyIsALostCall) {
  Start();
  for (uint32_t code : {NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL}) {
    Serve("/" + std::to_string(code),
          {step::Headers(), step::Data("data: a\n\n"), step::Data("data: b\n\n"),
           step::Delay(absl::Milliseconds(5)), step::Reset(code)});
  }
  const std::vector<Made> made = CallAll({Post("/0"), Post("/2"), Post("/8")});
  for (const Made& m : made) {
    EXPECT_EQ(m.result.end, CallEnd::kLost) << m.result.detail;
    EXPECT_EQ(m.result.status, 200);
    EXPECT_EQ(m.result.sends, 1);
    EXPECT_EQ(m.recorder.body, "data: a\n\ndata: b\n\n");
  }
}

TEST_P(HttpConformance, AnOrderlyCloseMidBodyIsALostCall) {
  Start();
  Serve("/p", {step::Headers(), step::Data("data: a\n\n"), step::Fin()});
  const Made made = CallOne(Post("/p"));
  // HTTP/1.1 without a length ends a body by closing: only a marker can tell, and none came.
  if (multiplexes()) EXPECT_EQ(made.result.end, CallEnd::kLost) << made.result.detail;
  EXPECT_EQ(made.result.sends, 1);
  EXPECT_EQ(made.recorder.body, "data: a\n\n");
}

TEST_P(HttpConformance, ATcpResetMidBodyIsALostCall) {
  Start();
  Serve("/p", {step::Headers(), step::Data("data: a\n\n"), step::Delay(absl::Milliseconds(20)),
               step::TcpReset()});
  const Made made = CallOne(Post("/p"));
  EXPECT_EQ(made.result.end, CallEnd::kLost) << made.result.detail;
  EXPECT_EQ(made.result.sends, 1);
}

TEST_P(HttpConformance, AGoAwayThatDeniesAStreamMidBodyIsALostCallAndNoReplay) {
  Start();
  if (!multiplexes()) GTEST_SKIP() << "HTTP/1.1 has no GOAWAY";
  for (uint32_t code : {NGHTTP2_NO_ERROR, NGHTTP2_ENHANCE_YOUR_CALM}) {
    Serve("/" + std::to_string(code),
          {step::Headers(), step::Data("data: a\n\n"), step::Delay(absl::Milliseconds(5)),
           step::GoAway(code, Step::Last::kNone), step::Fin()});
  }
  const std::vector<Made> made = CallAll({Post("/0"), Post("/11")});
  for (const Made& m : made) {
    EXPECT_EQ(m.result.end, CallEnd::kLost) << m.result.detail;
    EXPECT_EQ(m.result.sends, 1);
    EXPECT_EQ(m.result.replays, 0);
  }
}

TEST_P(HttpConformance, AGracefulGoAwayHurtsNoCall) {
  Start();
  if (!multiplexes()) GTEST_SKIP() << "HTTP/1.1 has no GOAWAY";
  Serve("/p", {step::AwaitBody(), step::GoAway(NGHTTP2_NO_ERROR, Step::Last::kAll),
               step::Delay(absl::Milliseconds(5)), step::Headers(), step::Data("ok"), step::End()});
  for (const Made& m : CallAll(std::vector<Request>(30, Post("/p")))) {
    EXPECT_EQ(m.result.end, CallEnd::kComplete) << m.result.detail;
    EXPECT_EQ(m.recorder.body, "ok");
  }
}

TEST_P(HttpConformance, AHardGoAwayReplaysWhatWasNotProcessedAndNothingElse) {
  Start();
  if (!multiplexes()) GTEST_SKIP() << "HTTP/1.1 has no GOAWAY";
  const Script good = {step::AwaitBody(), step::Delay(absl::Milliseconds(20)), step::Headers(),
                       step::Data("ok"), step::End()};
  // The 10th request says that it and all after it were not processed.
  std::vector<Script> scripts(9, good);
  scripts.push_back({step::AwaitBody(), step::GoAway(NGHTTP2_NO_ERROR, Step::Last::kPrevious)});
  scripts.push_back(good);
  server_->SetScripts("/p", scripts);
  int replays = 0;
  for (const Made& m : CallAll(std::vector<Request>(30, Post("/p")))) {
    EXPECT_EQ(m.result.end, CallEnd::kComplete) << m.result.detail;
    EXPECT_EQ(m.result.sends, 1 + m.result.replays);
    replays += m.result.replays;
  }
  EXPECT_GE(replays, 1);
  EXPECT_LE(replays, 21);
  EXPECT_EQ(server_->stats().connections, 2);
}

TEST_P(HttpConformance, ARefusedStreamIsReplayedUpToACap) {
  Start();
  if (!multiplexes()) GTEST_SKIP() << "HTTP/1.1 refuses no streams";
  const Script refuse = {step::Reset(NGHTTP2_REFUSED_STREAM)};
  const Script good = {step::AwaitBody(), step::Headers(), step::Data("ok"), step::End()};
  server_->SetScripts("/twice", {refuse, refuse, good});
  server_->SetScripts("/always", {refuse});
  const std::vector<Made> made = CallAll({Post("/twice"), Post("/always")});
  EXPECT_EQ(made[0].result.end, CallEnd::kComplete) << made[0].result.detail;
  EXPECT_EQ(made[0].result.replays, 2);
  EXPECT_EQ(made[0].result.sends, 3);
  EXPECT_EQ(made[1].result.end, CallEnd::kNotSent) << made[1].result.detail;
  EXPECT_GE(made[1].result.replays, 2);
  EXPECT_EQ(made[1].result.sends, 1 + made[1].result.replays);
  EXPECT_FALSE(made[1].result.connection_error);
}

// Cases B14: four paid generations for one request.
TEST_P(HttpConformance, AConnectionLostAfterTheRequestIsNeverSentAgain) {
  Start();
  Serve("/p", {step::AwaitBody(), step::Delay(absl::Milliseconds(10)), step::Fin()});
  const std::vector<Made> made = CallAll(std::vector<Request>(20, Post("/p")));
  int sends = 0;
  for (const Made& m : made) {
    EXPECT_EQ(m.result.end, CallEnd::kLost) << m.result.detail;
    EXPECT_EQ(m.result.replays, 0);
    sends += m.result.sends;
  }
  EXPECT_EQ(sends, 20);
  EXPECT_EQ(server_->stats().requests, 20);
}

// http.md section 1.9: every second request of a connection was sent twice by libcurl.
TEST_P(HttpConformance, ARequestOnAReusedConnectionThatClosesIsNotSentTwice) {
  Start();
  Serve("/ok", {step::AwaitBody(), step::Headers(200, {{"content-length", "2"}}), step::Data("ok"),
                step::End()});
  Serve("/closed", {step::AwaitBody(), step::Fin()});
  struct Runner {
    static Task<void> Main(Engine* engine, std::vector<Made>* out) {
      for (Made& made : *out) {
        Request request = Post(&made == &out->front() ? "/ok" : "/closed");
        made.result = co_await engine->Call(&request, &made.recorder, StopToken());
      }
    }
  };
  std::vector<Made> made(2);
  Run(Runner::Main(engine_.get(), &made));
  EXPECT_EQ(made[0].result.end, CallEnd::kComplete) << made[0].result.detail;
  EXPECT_EQ(made[1].result.end, CallEnd::kLost) << made[1].result.detail;
  EXPECT_EQ(made[1].result.sends, 1);
  EXPECT_EQ(server_->stats().requests, 2);
}

// Cases B18.
TEST_P(HttpConformance, ABodyShortOfItsContentLengthIsALostCall) {
  Start();
  Serve("/p", {step::AwaitBody(), step::Headers(200, {{"content-length", "500"}}),
               step::Data("{\"a\":{}}"), multiplexes() ? step::End() : step::Fin()});
  const Made made = CallOne(Post("/p"));
  EXPECT_EQ(made.result.end, CallEnd::kLost) << made.result.detail;
  EXPECT_EQ(made.result.body_bytes, 8);
}

TEST_P(HttpConformance, ATransportErrorAfterTheEndMarkerIsASuccess) {
  Start();
  const std::vector<Step> begin = {step::AwaitBody(), step::Headers(),
                                   step::Data("data: [DONE]\n\n"),
                                   step::Delay(absl::Milliseconds(5))};
  std::vector<Step> reset = begin;
  reset.push_back(step::Reset(NGHTTP2_INTERNAL_ERROR));
  std::vector<Step> closed = begin;
  closed.push_back(step::TcpReset());
  Serve("/reset", reset);
  EXPECT_EQ(CallOne(Post("/reset")).result.end, CallEnd::kComplete);
}

TEST_P(HttpConformance, ATcpResetAfterTheEndMarkerIsASuccess) {
  Start();
  Serve("/p", {step::AwaitBody(), step::Headers(), step::Data("data: [DONE]\n\n"),
               step::Delay(absl::Milliseconds(20)), step::TcpReset()});
  const Made made = CallOne(Post("/p"));
  EXPECT_EQ(made.result.end, CallEnd::kComplete) << made.result.detail;
}

// Cases A15: the peer vanishes without FIN or RST.
TEST_P(HttpConformance, ABlackHoledPeerIsNoticedBySilence) {
  Start();
  Serve("/p", {step::Headers(), step::Data("data: a\n\n"), step::BlackHole()});
  Request request = Post("/p");
  request.timeouts.silence = absl::Milliseconds(100);
  const Made made = CallOne(std::move(request));
  EXPECT_EQ(made.result.end, CallEnd::kTimedOut) << made.result.detail;
  EXPECT_EQ(made.result.timer, TimerKind::kSilence);
  EXPECT_LT(made.result.stamps.end - made.result.stamps.queued, absl::Seconds(2));
}

TEST_P(HttpConformance, HeadersOverTheLimitAreABadResponse) {
  Start();
  Headers headers;
  for (int i = 0; i < 30; ++i)
    headers.emplace_back("x-" + std::to_string(i), std::string(4000, 'a'));
  Serve("/p", {step::AwaitBody(), step::Headers(200, headers), step::End()});
  const Made made = CallOne(Post("/p"));
  EXPECT_EQ(made.result.end, CallEnd::kBadResponse) << made.result.detail;
  EXPECT_EQ(made.recorder.header_calls, 0);
}

TEST_P(HttpConformance, NothingListensMeansNotSent) {
  Start();
  server_.reset();
  const std::vector<Made> made = CallAll(std::vector<Request>(3, Post("/p")));
  for (const Made& m : made) {
    EXPECT_EQ(m.result.end, CallEnd::kNotSent) << m.result.detail;
    EXPECT_TRUE(m.result.connection_error);
    EXPECT_EQ(m.result.sends, 0);
    EXPECT_NE(m.result.detail, "");
  }
}

}  // namespace
}  // namespace headrace::http
