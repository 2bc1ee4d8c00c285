// Each fault on the wire, as a client sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/utf8.h"
#include "simulator/simulator.h"
#include "tests/unit/simulator/wire.h"

namespace headrace::simulator {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kPlain[] = R"({"model":"m","messages":[{"role":"user","content":"hello"}]})";
constexpr char kStream[] =
    R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]})";
constexpr char kChat[] = "/v1/chat/completions";
constexpr char kMessages[] = "/v1/messages";

class FaultTest : public testing::Test {
 protected:
  void SetUp() override {
    SimulatorOptions options;
    options.latency = absl::ZeroDuration();
    options.chunk_interval = absl::Milliseconds(2);
    options.tick = absl::Milliseconds(1);
    options.min_tokens = options.max_tokens = 6;
    options.hang_time = absl::Milliseconds(60);
    auto simulator = SimulatorThread::Start(options);
    ASSERT_TRUE(simulator.ok()) << simulator.status();
    simulator_ = std::move(*simulator);
  }

  Response Get(absl::string_view fault, const char* body, const std::string& path = kChat,
               Version version = Version::kHttp1, long timeout_ms = 5'000) {
    Ask ask;
    ask.port = simulator_->ports().plain;
    ask.version = version;
    ask.path = path;
    ask.body = body;
    ask.timeout_ms = timeout_ms;
    if (!fault.empty()) ask.headers = {absl::StrCat("x-sim-fault: ", fault)};
    return Fetch(ask);
  }
  std::string GoodStream(const std::string& path = kChat) { return Get("", kStream, path).body; }
  int64_t Struck(absl::string_view fault) {
    return simulator_->Truth().faults[static_cast<size_t>(FaultFromName(fault))];
  }

  std::unique_ptr<SimulatorThread> simulator_;
};

TEST_F(FaultTest, StatusesAreWhatTheirNamesSay) {
  const std::pair<const char*, int> statuses[] = {{"429-date", 429},
                                                  {"429-huge", 429},
                                                  {"429-bare", 429},
                                                  {"429-ms", 429},
                                                  {"insufficient-quota", 429},
                                                  {"dashscope-throttle", 429},
                                                  {"azure-quota-wait", 429},
                                                  {"retry-info-body", 429},
                                                  {"daily-quota", 429},
                                                  {"slow-down", 429},
                                                  {"529", 529},
                                                  {"520", 520},
                                                  {"524", 524},
                                                  {"408", 408},
                                                  {"409", 409},
                                                  {"425", 425},
                                                  {"500", 500},
                                                  {"503", 503},
                                                  {"html-502", 502},
                                                  {"should-not-retry", 500},
                                                  {"200-error", 200},
                                                  {"200-flagged", 200},
                                                  {"responses-failed", 200},
                                                  {"context-400", 400},
                                                  {"unsupported-parameter", 400},
                                                  {"404-model", 404},
                                                  {"401", 401},
                                                  {"403", 403},
                                                  {"402", 402},
                                                  {"content-filter", 400},
                                                  {"empty-200", 200},
                                                  {"choices-null", 200},
                                                  {"refusal", 200}};
  for (const auto& [name, status] : statuses) {
    for (const char* path : {kChat, kMessages}) {
      for (const Version version : {Version::kHttp1, Version::kH2c}) {
        const Response response = Get(name, kPlain, path, version);
        EXPECT_EQ(response.curl_code, 0) << name;
        EXPECT_EQ(response.status, status) << name;
      }
    }
    EXPECT_EQ(Struck(name), 4) << name;
  }
  EXPECT_EQ(simulator_->Truth().completions, 0);
}

TEST_F(FaultTest, RetryHintsAreWhereTheCasesHaveThem) {
  EXPECT_THAT(Get("429-date", kPlain).Header("retry-after"), EndsWith(" GMT"));
  EXPECT_THAT(Get("429-date", kPlain).Header("date"), EndsWith(" GMT"));
  EXPECT_EQ(Get("429-huge", kPlain).Header("retry-after"), "86400");
  EXPECT_EQ(Get("429-bare", kPlain).Header("retry-after"), "");
  EXPECT_EQ(Get("429-ms", kPlain).Header("retry-after-ms"), "150");
  EXPECT_THAT(Get("retry-info-body", kPlain).body, HasSubstr("\"retryDelay\":\"1.250000001s\""));
  EXPECT_EQ(Get("should-not-retry", kPlain).Header("x-should-retry"), "false");
  EXPECT_THAT(Get("dashscope-throttle", kPlain).body,
              AllOf(HasSubstr("Throttling.AllocationQuota"), HasSubstr("insufficient_quota")));
  EXPECT_THAT(Get("529", kPlain, kMessages).body, HasSubstr("\"type\":\"overloaded_error\""));
}

TEST_F(FaultTest, FramingFaultsKeepTheContentOfTheStream) {
  for (const char* path : {kChat, kMessages}) {
    const std::string good = GoodStream(path);
    const auto restored = [&](const char* fault,
                              const std::vector<std::pair<const char*, const char*>>& undo) {
      std::string body = Get(fault, kStream, path).body;
      EXPECT_NE(body, good) << fault;
      return absl::StrReplaceAll(body, undo);
    };
    EXPECT_EQ(restored("crlf", {{"\r\n", "\n"}}), good);
    EXPECT_EQ(restored("cr", {{"\r", "\n"}}), good);
    EXPECT_EQ(restored("mixed-line-ends", {{"\r\n", "\n"}, {"\r", "\n"}}), good);
    EXPECT_EQ(restored("no-space", {{"data:", "data: "}, {"event:", "event: "}}), good);
    EXPECT_EQ(restored("bom", {{"\xEF\xBB\xBF", ""}}), good);
    EXPECT_EQ(restored("comments", {{": OPENROUTER PROCESSING\n\n: keep-alive\n\n", ""}}), good);
    EXPECT_EQ(restored("retry-only-blocks",
                       {{"retry: 1000\n\nid: 7\n", ""}, {": ping\n\nid: 8\n\n", ""}}),
              good);
    EXPECT_EQ(restored("empty-data", {{"event: keepalive\n\ndata:\n\ndata: \n\n", ""}}), good);
    EXPECT_EQ(Get("slow-stream", kStream, path).body, good);
    EXPECT_EQ(Get("silent-gap", kStream, path).body, good);
    EXPECT_EQ(Get("one-byte-writes", kStream, path).body, good);
    EXPECT_EQ(Get("slow-first-byte", kStream, path).body, good);
  }
}

TEST_F(FaultTest, CharactersAreSplitBetweenTwoFrames) {
  for (const char* fault : {"split-utf8", "bom"}) {
    H2Client client(simulator_->ports().plain);
    const int32_t stream = client.Post(kChat, kStream, {{"x-sim-fault", fault}});
    client.Run(1);
    EXPECT_TRUE(IsValidUtf8(client.seen(stream).body));
    bool split = false;
    for (const std::string& frame : client.seen(stream).frames) {
      split = split || !IsValidUtf8(frame);
    }
    EXPECT_TRUE(split) << fault;
  }
}

TEST_F(FaultTest, OneByteWritesMakeOneFramePerByte) {
  H2Client client(simulator_->ports().plain);
  const int32_t stream = client.Post(kChat, kPlain, {{"x-sim-fault", "one-byte-writes"}});
  client.Run(1);
  EXPECT_EQ(client.seen(stream).frames.size(), client.seen(stream).body.size());
  EXPECT_EQ(client.seen(stream).body, Get("", kPlain).body);
}

TEST_F(FaultTest, TextFaultsHoldTheBytesOfTheirCases) {
  for (const char* body : {kPlain, kStream}) {
    EXPECT_THAT(Get("unicode-separators", body).body, HasSubstr("\xE2\x80\xA8"));
    EXPECT_THAT(Get("colon-content", body).body, HasSubstr("k: v, x: y"));
    EXPECT_THAT(Get("raw-control", body).body, HasSubstr("\x0B"));
    EXPECT_FALSE(IsValidUtf8(Get("bad-utf8", body).body));
    EXPECT_THAT(Get("no-charset", body).body, HasSubstr("\xE2\x9C\x85"));
  }
  EXPECT_EQ(Get("no-charset", kStream).Header("content-type"), "text/event-stream");
  EXPECT_THAT(Get("nan-logprobs", kPlain).body, AllOf(HasSubstr("NaN"), HasSubstr("-Infinity")));
  EXPECT_THAT(Get("reasoning-only", kPlain).body,
              HasSubstr("\"content\":null,\"reasoning_content\":\""));
}

TEST_F(FaultTest, ChunkFaultsOfOpenAiStreams) {
  EXPECT_THAT(Get("usage-chunk-first", kStream).body,
              AllOf(HasSubstr("\"choices\":[],\"prompt_filter_results\""), EndsWith("[DONE]\n\n")));
  EXPECT_THAT(Get("usage-chunk-last", kStream).body, HasSubstr("\"choices\":[],\"usage\":{"));
  EXPECT_THAT(Get("usage-no-choices", kStream).body,
              AllOf(HasSubstr(",\"usage\":{"), Not(HasSubstr("\"choices\":[],"))));
  EXPECT_THAT(Get("tool-calls-no-index", kStream).body,
              AllOf(HasSubstr("\"tool_calls\":[{\"id\":\"c1\""), EndsWith("[DONE]\n\n")));
  // Not a fault of the other dialect.
  EXPECT_EQ(Get("usage-chunk-first", kStream, kMessages).body, GoodStream(kMessages));
}

TEST_F(FaultTest, StreamsThatEndWrongly) {
  EXPECT_THAT(Get("no-done", kStream).body,
              AllOf(HasSubstr("\"finish_reason\":\"stop\""), Not(HasSubstr("[DONE]"))));
  EXPECT_THAT(Get("no-done", kStream, kMessages).body,
              AllOf(HasSubstr("end_turn"), Not(HasSubstr("event: message_stop"))));
  const Response cut = Get("truncated-stream", kStream);
  EXPECT_EQ(cut.curl_code, 0);
  EXPECT_THAT(cut.body, Not(AllOf(HasSubstr("\"finish_reason\":\"stop\""), HasSubstr("[DONE]"))));
  EXPECT_THAT(GoodStream(), StartsWith(cut.body));
  EXPECT_THAT(Get("anthropic-overloaded-event", kStream, kMessages).body,
              StartsWith("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                         "\"overloaded_error\""));
  EXPECT_THAT(Get("overloaded-mid-stream", kStream, kMessages).body,
              AllOf(StartsWith("event: message_start"), HasSubstr("overloaded_error")));
  EXPECT_THAT(Get("error-chunk", kStream).body, StartsWith("data: {\"error\":{\"message\""));
  EXPECT_THAT(Get("glued-error", kStream).body, HasSubstr("\nevent: error\ndata: {\"error\""));
  EXPECT_THAT(Get("glued-error", kStream).body, Not(HasSubstr("\n\nevent: error")));
  EXPECT_THAT(Get("invalid-request-event", kStream).body,
              StartsWith("event: error\ndata: {\"error\":{\"message\":\"messages: field required\","
                         "\"type\":\"invalid_request_error\""));
  EXPECT_THAT(Get("refusal", kStream, kMessages).body, HasSubstr("\"stop_reason\":\"refusal\""));
}

TEST_F(FaultTest, StreamsThatNeverEnd) {
  for (const Version version : {Version::kHttp1, Version::kH2c}) {
    const Response comments = Get("comments-forever", kStream, kChat, version, 600);
    EXPECT_EQ(comments.curl_code, 28);  // CURLE_OPERATION_TIMEDOUT
    EXPECT_THAT(comments.body, HasSubstr(": keepalive\n\n: keepalive\n\n"));
    EXPECT_EQ(Get("whitespace-forever", kStream, kChat, version, 600).curl_code, 28);
    const Response hang = Get("silent-hang", kStream, kChat, version, 200);
    EXPECT_EQ(hang.curl_code, 28);
    EXPECT_NE(hang.body, "");
    EXPECT_EQ(Get("silent-hang", kPlain, kChat, version, 200).curl_code, 28);
    const Response nothing = Get("no-first-byte", kPlain, kChat, version, 200);
    EXPECT_EQ(nothing.curl_code, 28);
    EXPECT_EQ(nothing.status, 0);
  }
}

TEST_F(FaultTest, EachEventInItsOwnZstdFrameIfTheClientTakesZstd) {
  EXPECT_EQ(Get("zstd-frames", kStream).body, GoodStream());
  Ask ask;
  ask.port = simulator_->ports().plain;
  ask.body = kStream;
  ask.headers = {"x-sim-fault: zstd-frames", "Accept-Encoding: zstd"};
  const Response response = Fetch(ask);
  EXPECT_EQ(response.Header("content-encoding"), "zstd");
  std::string plain;
  const char* at = response.body.data();
  const char* const end = at + response.body.size();
  int frames = 0;
  while (at < end) {
    const size_t size = ZSTD_findFrameCompressedSize(at, static_cast<size_t>(end - at));
    ASSERT_FALSE(ZSTD_isError(size));
    std::string frame(ZSTD_getFrameContentSize(at, size), '\0');
    ASSERT_EQ(ZSTD_decompress(frame.data(), frame.size(), at, size), frame.size());
    plain += frame;
    at += size;
    ++frames;
  }
  EXPECT_EQ(plain, GoodStream());
  EXPECT_EQ(frames, 6);
}

// ---------------------------------------------------------------------------- connections, h1

std::string H1Request(const char* body, const char* fault) {
  return absl::StrCat("POST /v1/chat/completions HTTP/1.1\r\nx-sim-fault: ", fault,
                      "\r\ncontent-length: ", strlen(body), "\r\n\r\n", body);
}

TEST_F(FaultTest, Http1ConnectionsBreakAsNamed) {
  struct Case {
    const char* fault;
    const char* body;
    WireEnd end;
    bool some_bytes;
  };
  const Case cases[] = {{"lost-after-accept", kPlain, WireEnd::kFin, false},
                        {"short-body", kPlain, WireEnd::kFin, true},
                        {"fin-mid-body", kPlain, WireEnd::kFin, true},
                        {"fin-mid-body", kStream, WireEnd::kFin, true},
                        {"rst-mid-body", kPlain, WireEnd::kReset, true},
                        {"rst-mid-body", kStream, WireEnd::kReset, true},
                        {"tcp-rst", kPlain, WireEnd::kReset, true},
                        {"tcp-rst", kStream, WireEnd::kReset, true}};
  for (const Case& c : cases) {
    RawSocket socket(simulator_->ports().plain);
    socket.Send(H1Request(c.body, c.fault));
    const std::string all = socket.ReadAll();
    EXPECT_EQ(socket.end(), c.end) << c.fault;
    EXPECT_EQ(!all.empty(), c.some_bytes) << c.fault;
    EXPECT_THAT(all, Not(HasSubstr("\r\n0\r\n\r\n"))) << c.fault;
  }
  EXPECT_EQ(simulator_->Truth().completions, 0);
}

TEST_F(FaultTest, Http1GoawayIsConnectionCloseAfterAWholeAnswer) {
  RawSocket socket(simulator_->ports().plain);
  socket.Send(H1Request(kPlain, "goaway"));
  const std::string all = socket.ReadAll();
  EXPECT_EQ(socket.end(), WireEnd::kFin);
  EXPECT_THAT(all, HasSubstr("connection: close\r\n"));
  EXPECT_THAT(all, EndsWith(Get("", kPlain).body));
}

TEST_F(FaultTest, An417IsSentInsteadOf100AndTheConnectionCloses) {
  RawSocket socket(simulator_->ports().plain);
  socket.Send(
      "POST /v1/messages HTTP/1.1\r\nx-sim-fault: 417\r\nexpect: 100-continue\r\n"
      "content-length: 1000\r\n\r\n");
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 417 "));
  EXPECT_EQ(socket.end(), WireEnd::kFin);
  EXPECT_EQ(Struck("417"), 1);
}

TEST_F(FaultTest, AServerWithout100AnswersWhenTheBodyCame) {
  RawSocket socket(simulator_->ports().plain);
  socket.Send(absl::StrCat(
      "POST /v1/messages HTTP/1.1\r\nx-sim-fault: no-continue\r\nexpect: 100-continue\r\n"
      "connection: close\r\ncontent-length: ",
      sizeof(kPlain) - 1, "\r\n\r\n"));
  socket.SetTimeoutMs(50);
  EXPECT_EQ(socket.ReadAll(), "");
  EXPECT_EQ(socket.end(), WireEnd::kTimeout);
  socket.SetTimeoutMs(5'000);
  socket.Send(kPlain);
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(FaultTest, FaultsOfHttp2DoNotStrikeHttp1) {
  for (const char* fault : {"goaway-hard", "refused-stream", "enhance-your-calm"}) {
    EXPECT_EQ(Get(fault, kPlain).body, Get("", kPlain).body);
    EXPECT_EQ(Struck(fault), 0);
  }
}

// ---------------------------------------------------------------------------- connections, h2

TEST_F(FaultTest, ARefusedStreamIsResetAndTheOthersLive) {
  H2Client client(simulator_->ports().plain);
  const int32_t refused = client.Post(kChat, kPlain, {{"x-sim-fault", "refused-stream"}});
  const int32_t good = client.Post(kChat, kStream);
  client.Run(2);
  EXPECT_EQ(client.seen(refused).reset, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(client.seen(refused).status, 0);
  EXPECT_EQ(client.seen(good).body, GoodStream());
}

TEST_F(FaultTest, AResetInMidBodyComesAfterSomeOfIt) {
  for (const char* body : {kPlain, kStream}) {
    H2Client client(simulator_->ports().plain);
    const int32_t stream = client.Post(kChat, body, {{"x-sim-fault", "rst-mid-body"}});
    client.Run(1);
    EXPECT_EQ(client.seen(stream).status, 200);
    EXPECT_NE(client.seen(stream).body, "");
    EXPECT_EQ(client.seen(stream).reset, NGHTTP2_INTERNAL_ERROR);
    EXPECT_FALSE(client.seen(stream).end_stream);
  }
}

TEST_F(FaultTest, AGracefulGoawayLetsOpenStreamsFinishThenCloses) {
  H2Client client(simulator_->ports().plain);
  const int32_t before = client.Post(kChat, kStream);
  const int32_t struck = client.Post(kChat, kStream, {{"x-sim-fault", "goaway"}});
  client.Run(3);  // two streams, then the end of the connection
  ASSERT_TRUE(client.goaway().has_value());
  EXPECT_EQ(client.goaway()->error, NGHTTP2_NO_ERROR);
  EXPECT_GE(client.goaway()->last_stream_id, struck);
  EXPECT_TRUE(client.seen(before).end_stream);
  EXPECT_TRUE(client.seen(struck).end_stream);
  EXPECT_EQ(client.end(), WireEnd::kFin);
}

TEST_F(FaultTest, AHardGoawayCutsOffItsStreamAndKeepsEarlierOnes) {
  H2Client client(simulator_->ports().plain);
  const int32_t before = client.Post(kChat, kStream);
  const int32_t struck = client.Post(kChat, kStream, {{"x-sim-fault", "goaway-hard"}});
  client.Run(3);
  ASSERT_TRUE(client.goaway().has_value());
  EXPECT_LT(client.goaway()->last_stream_id, struck);
  EXPECT_GE(client.goaway()->last_stream_id, before);
  EXPECT_TRUE(client.seen(before).end_stream);
  EXPECT_EQ(client.seen(struck).status, 0);
  EXPECT_EQ(client.end(), WireEnd::kFin);
  EXPECT_EQ(simulator_->Truth().completions, 1);
}

TEST_F(FaultTest, EnhanceYourCalmEndsTheConnection) {
  H2Client client(simulator_->ports().plain);
  const int32_t before = client.Post(kChat, kStream);
  client.Post(kChat, kPlain, {{"x-sim-fault", "enhance-your-calm"}});
  client.Run(3);
  ASSERT_TRUE(client.goaway().has_value());
  EXPECT_EQ(client.goaway()->error, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_FALSE(client.seen(before).end_stream);
  EXPECT_EQ(client.end(), WireEnd::kFin);
}

TEST_F(FaultTest, Http2ConnectionsBreakAsNamed) {
  for (const auto& [fault, end] :
       {std::pair("lost-after-accept", WireEnd::kFin), std::pair("fin-mid-body", WireEnd::kFin),
        std::pair("tcp-rst", WireEnd::kReset)}) {
    H2Client client(simulator_->ports().plain);
    const int32_t stream = client.Post(kChat, kStream, {{"x-sim-fault", fault}});
    client.Run(1);
    EXPECT_EQ(client.end(), end) << fault;
    EXPECT_FALSE(client.seen(stream).end_stream) << fault;
  }
}

// -------------------------------------------------------------------------------------- rates

TEST(FaultRates, AboutTheirShareOfRequestsIsStruckAndTheSameOnesInEveryRun) {
  SimulatorOptions options;
  options.latency = options.chunk_interval = absl::ZeroDuration();
  options.min_tokens = options.max_tokens = 1;
  options.faults = {{Fault::k503, 0.3}, {Fault::k429Bare, 0.1}};
  std::string runs[2];
  for (std::string& run : runs) {
    auto simulator = SimulatorThread::Start(options);
    ASSERT_TRUE(simulator.ok());
    H2Client client((*simulator)->ports().plain);
    std::vector<int32_t> streams;
    for (int i = 0; i < 500; ++i) {
      streams.push_back(client.Post(kChat, absl::StrCat("{\"model\":\"m\",\"seed\":", i, "}")));
      if (i % 50 == 49) client.Run(static_cast<size_t>(i + 1));
    }
    for (const int32_t stream : streams) absl::StrAppend(&run, client.seen(stream).status, " ");
    const Truth truth = (*simulator)->Truth();
    EXPECT_NEAR(truth.faults[static_cast<size_t>(Fault::k503)], 150, 40);
    EXPECT_NEAR(truth.faults[static_cast<size_t>(Fault::k429Bare)], 50, 25);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

TEST(FaultRates, FaultsOfTheRequestStrikeEveryAttemptAndOthersDoNot) {
  SimulatorOptions options;
  options.latency = options.chunk_interval = absl::ZeroDuration();
  options.min_tokens = options.max_tokens = 1;
  options.faults = {{Fault::kContext400, 0.3}, {Fault::k503, 0.3}};
  auto simulator = SimulatorThread::Start(options);
  ASSERT_TRUE(simulator.ok());
  H2Client client((*simulator)->ports().plain);
  size_t sent = 0;
  const auto attempt = [&](int item) {
    const int32_t stream =
        client.Post(kChat, absl::StrCat("{\"model\":\"m\",\"seed\":", item, "}"));
    client.Run(++sent);
    return client.seen(stream).status;
  };
  int sticky = 0;
  int passing = 0;
  for (int item = 0; item < 60; ++item) {
    std::set<int> statuses;
    for (int i = 0; i < 12; ++i) statuses.insert(attempt(item));
    if (statuses.contains(400)) {
      ++sticky;
      EXPECT_EQ(statuses.size(), 1u);
    } else if (statuses.contains(503)) {
      ++passing;
      EXPECT_TRUE(statuses.contains(200));
    }
  }
  EXPECT_NEAR(sticky, 18, 12);
  EXPECT_GT(passing, 20);
}

}  // namespace
}  // namespace headrace::simulator
