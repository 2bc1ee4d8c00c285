// The simulator on the wire: protocols, dialects, quotas, truth.
#include "simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/simulator/wire.h"

namespace headrace::simulator {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kPlain[] = R"({"model":"m","messages":[{"role":"user","content":"hello"}]})";
constexpr char kStream[] =
    R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]})";

SimulatorOptions Quick() {
  SimulatorOptions options;
  options.latency = absl::ZeroDuration();
  options.chunk_interval = absl::ZeroDuration();
  options.tick = absl::Milliseconds(1);
  return options;
}

std::unique_ptr<SimulatorThread> Started(const SimulatorOptions& options) {
  auto simulator = SimulatorThread::Start(options);
  EXPECT_TRUE(simulator.ok()) << simulator.status();
  return std::move(*simulator);
}

// Waits, by asking again, until `condition` holds of the truth; at most five seconds.
template <typename Condition>
bool Until(SimulatorThread* simulator, Condition condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  while (absl::Now() < deadline) {
    if (condition(simulator->Truth())) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(Simulator, RefusesBadOptionsAndBadAddresses) {
  SimulatorOptions options = Quick();
  options.listen_address = "nowhere";
  EXPECT_EQ(SimulatorThread::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = Quick();
  options.tick = absl::ZeroDuration();
  EXPECT_EQ(SimulatorThread::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
  options = Quick();
  options.tls_port = 0;
  options.cert_file = options.key_file = "/nonexistent.pem";
  EXPECT_EQ(SimulatorThread::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Simulator, APortInUseIsAnError) {
  auto first = Started(Quick());
  SimulatorOptions options = Quick();
  options.port = first->ports().plain;
  EXPECT_FALSE(SimulatorThread::Start(options).ok());
}

TEST(Simulator, GivesTheSameAnswerOverEveryProtocol) {
  SimulatorOptions options = Quick();
  options.tls_port = 0;
  auto simulator = Started(options);
  const std::string ca_file = testing::TempDir() + "/simulator_ca.pem";
  std::ofstream(ca_file) << simulator->ca_pem();
  for (const std::string path : {"/v1/chat/completions", "/v1/messages", "/v1/completions"}) {
    for (const char* body : {kPlain, kStream}) {
      std::string first;
      for (const Version version :
           {Version::kHttp1, Version::kH2c, Version::kTls, Version::kTlsHttp1}) {
        Ask ask;
        const bool tls = version == Version::kTls || version == Version::kTlsHttp1;
        ask.port = tls ? simulator->ports().tls : simulator->ports().plain;
        ask.version = version;
        ask.ca_file = ca_file;
        ask.path = path;
        ask.body = body;
        const Response response = Fetch(ask);
        EXPECT_EQ(response.curl_code, 0);
        EXPECT_EQ(response.status, 200);
        if (first.empty()) first = response.body;
        EXPECT_EQ(response.body, first) << path << " " << static_cast<int>(version);
        EXPECT_THAT(response.Header("content-type"),
                    StartsWith(body == kPlain ? "application/json" : "text/event-stream"));
      }
      EXPECT_THAT(first, Not(testing::IsEmpty()));
    }
  }
  const Truth truth = simulator->Truth();
  EXPECT_EQ(truth.requests, 24);
  EXPECT_EQ(truth.completions, 24);
  EXPECT_EQ(truth.h2_connections_total, 12);
  EXPECT_EQ(truth.in_flight, 0);
}

TEST(Simulator, AnswersDoNotDependOnTheRun) {
  std::string answers[2];
  for (std::string& answer : answers) {
    auto simulator = Started(Quick());
    Fetch({.port = simulator->ports().plain,
           .ca_file = "",
           .body = "{\"model\":\"other\"}",
           .headers = {}});
    answer = Fetch({.port = simulator->ports().plain, .ca_file = "", .body = kPlain, .headers = {}})
                 .body;
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(Simulator, RefusesWhatAProviderRefuses) {
  SimulatorOptions options = Quick();
  options.keys = {"good"};
  options.models = {"m"};
  auto simulator = Started(options);
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kPlain;
  EXPECT_EQ(Fetch(ask).status, 401);
  ask.headers = {"Authorization: Bearer bad"};
  EXPECT_EQ(Fetch(ask).status, 401);
  ask.headers = {"Authorization: Bearer good"};
  EXPECT_EQ(Fetch(ask).status, 200);
  ask.headers = {"x-api-key: good"};
  ask.path = "/v1/messages";
  EXPECT_EQ(Fetch(ask).status, 200);
  ask.body = "{\"model\":\"unknown\"}";
  Response response = Fetch(ask);
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body, StartsWith("{\"type\":\"error\",\"error\":{\"type\":"
                                        "\"not_found_error\""));
  ask.body = "{\"model\":";
  EXPECT_EQ(Fetch(ask).status, 400);
  ask.path = "/v1/nothing";
  EXPECT_EQ(Fetch(ask).status, 404);
  EXPECT_EQ(simulator->Truth().bad_requests, 4);
}

TEST(Simulator, AnswersAreCutAtMaxTokens) {
  auto simulator = Started(Quick());
  const Response response = Fetch({.port = simulator->ports().plain,
                                   .ca_file = "",
                                   .body = "{\"model\":\"m\",\"max_tokens\":3}",
                                   .headers = {}});
  EXPECT_THAT(response.body, HasSubstr("\"completion_tokens\":3,"));
  EXPECT_THAT(response.body, HasSubstr("\"finish_reason\":\"length\""));
}

TEST(Simulator, TheQuotaIsEnforcedPerKeyAndRejectionsAreCounted) {
  SimulatorOptions options = Quick();
  options.rpm = 2;
  auto simulator = Started(options);
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kPlain;
  ask.headers = {"Authorization: Bearer a"};
  EXPECT_EQ(Fetch(ask).Header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(Fetch(ask).status, 200);
  const Response rejected = Fetch(ask);
  EXPECT_EQ(rejected.status, 429);
  EXPECT_EQ(rejected.Header("x-ratelimit-limit-requests"), "2");
  EXPECT_THAT(rejected.Header("retry-after"), testing::AnyOf("29", "30"));
  EXPECT_THAT(rejected.body, HasSubstr("requests per min (RPM): Limit 2"));
  ask.headers = {"Authorization: Bearer b"};
  EXPECT_EQ(Fetch(ask).status, 200);
  const Truth truth = simulator->Truth();
  EXPECT_EQ(truth.rejections[static_cast<size_t>(LimitKind::kRequests)], 1);
  EXPECT_EQ(truth.total_rejections(), 1);
  EXPECT_EQ(truth.admitted, 3);
}

TEST(Simulator, RepeatsAndDuplicatesAreToldApart) {
  auto simulator = Started(Quick());
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kPlain;
  ask.headers = {"x-headrace-item: job/1", "x-sim-fault: 503"};
  EXPECT_EQ(Fetch(ask).status, 503);
  ask.headers = {"x-headrace-item: job/1"};
  EXPECT_EQ(Fetch(ask).status, 200);
  EXPECT_EQ(simulator->Truth().repeats, 1);
  EXPECT_EQ(simulator->Truth().duplicates, 0);
  EXPECT_EQ(Fetch(ask).status, 200);
  EXPECT_EQ(simulator->Truth().repeats, 2);
  EXPECT_EQ(simulator->Truth().duplicates, 1);
  ask.headers = {"x-headrace-item: job/2"};
  EXPECT_EQ(Fetch(ask).status, 200);
  EXPECT_EQ(simulator->Truth().duplicates, 1);
}

TEST(Simulator, TruthIsServedAndReset) {
  auto simulator = Started(Quick());
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kPlain;
  Fetch(ask);
  ask.path = "/truth";
  ask.body = "";
  EXPECT_THAT(Fetch(ask).body, StartsWith("{\"requests\":1,\"in_flight\":0,\"peak_in_flight\":1,"));
  ask.path = "/truth/reset";
  ask.body = "{}";
  EXPECT_EQ(Fetch(ask).body, "{}");
  EXPECT_EQ(simulator->Truth().requests, 0);
  ask.path = "/v1/models";
  ask.body = "";
  EXPECT_EQ(Fetch(ask).body, "{\"object\":\"list\",\"data\":[]}");
}

TEST(Simulator, ABarrierHoldsCallsUntilAllAreInFlight) {
  auto simulator = Started(Quick());
  H2Client client(simulator->ports().plain);
  for (int i = 0; i < 9; ++i) client.Post("/v1/messages", kPlain, {{"x-sim-barrier", "10"}});
  ASSERT_TRUE(Until(simulator.get(), [](const Truth& truth) { return truth.in_flight == 9; }));
  EXPECT_EQ(simulator->Truth().completions, 0);
  client.Post("/v1/messages", kPlain, {{"x-sim-barrier", "10"}});
  client.Run(10);
  const Truth truth = simulator->Truth();
  EXPECT_EQ(truth.peak_in_flight, 10);
  EXPECT_EQ(truth.completions, 10);
  EXPECT_EQ(truth.barriers_released, 1);
}

TEST(Simulator, ABarrierThatIsNeverReachedTimesOut) {
  SimulatorOptions options = Quick();
  options.barrier = 5;
  options.barrier_timeout = absl::Milliseconds(20);
  auto simulator = Started(options);
  EXPECT_EQ(Fetch({.port = simulator->ports().plain, .ca_file = "", .body = kPlain, .headers = {}})
                .status,
            200);
  EXPECT_EQ(simulator->Truth().barriers_timed_out, 1);
}

TEST(Simulator, TellsHowAClientCancelled) {
  SimulatorOptions options = Quick();
  options.latency = absl::Minutes(1);
  auto simulator = Started(options);
  const std::string head = absl::StrCat(
      "POST /v1/messages HTTP/1.1\r\ncontent-length: ", sizeof(kPlain) - 1, "\r\n\r\n", kPlain);
  {
    H2Client client(simulator->ports().plain);
    const int32_t stream = client.Post("/v1/messages", kPlain);
    ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 1; }));
    client.Cancel(stream);
    ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 0; }));
  }
  {
    RawSocket socket(simulator->ports().plain);
    socket.Send(head);
    ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 1; }));
  }
  ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 0; }));
  RawSocket socket(simulator->ports().plain);
  socket.Send(head);
  ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 1; }));
  socket.Reset();
  ASSERT_TRUE(Until(simulator.get(), [](const Truth& t) { return t.in_flight == 0; }));
  const Truth truth = simulator->Truth();
  EXPECT_EQ(truth.cancelled[static_cast<size_t>(Gone::kRstStream)], 1);
  EXPECT_EQ(truth.cancelled[static_cast<size_t>(Gone::kClosed)], 1);
  EXPECT_EQ(truth.cancelled[static_cast<size_t>(Gone::kReset)], 1);
  EXPECT_EQ(truth.completions, 0);
}

TEST(Simulator, AnnouncesItsStreamLimit) {
  SimulatorOptions options = Quick();
  options.max_streams = 7;
  auto simulator = Started(options);
  H2Client client(simulator->ports().plain);
  client.Post("/v1/messages", kPlain);
  client.Run(1);
  EXPECT_EQ(client.max_streams(), 7u);
}

TEST(Simulator, AConnectionEndsGracefullyAfterItsLastRequest) {
  SimulatorOptions options = Quick();
  options.max_requests_per_connection = 2;
  auto simulator = Started(options);
  H2Client client(simulator->ports().plain);
  client.Post("/v1/messages", kPlain);
  client.Run(1);
  EXPECT_FALSE(client.goaway().has_value());
  const int32_t last = client.Post("/v1/messages", kStream);
  client.Run(3);
  ASSERT_TRUE(client.goaway().has_value());
  EXPECT_EQ(client.goaway()->last_stream_id, last);
  EXPECT_TRUE(client.seen(last).end_stream);
  EXPECT_EQ(client.end(), WireEnd::kFin);

  RawSocket socket(simulator->ports().plain);
  socket.Send("GET /v1/models HTTP/1.1\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n");
  EXPECT_THAT(socket.ReadAll(), HasSubstr("connection: close\r\n"));
  EXPECT_EQ(socket.end(), WireEnd::kFin);
}

TEST(Simulator, WritesTheCaOfItsCertificateWhereAsked) {
  SimulatorOptions options = Quick();
  options.tls_port = 0;
  options.ca_out_file = testing::TempDir() + "/simulator_ca_out.pem";
  auto simulator = Started(options);
  std::ifstream file(options.ca_out_file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), simulator->ca_pem());
  options.ca_out_file = "/nonexistent/ca.pem";
  EXPECT_EQ(SimulatorThread::Start(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Http1, PipelinedRequestsAreAnsweredInOrder) {
  auto simulator = Started(Quick());
  RawSocket socket(simulator->ports().plain);
  socket.Send(
      "GET /v1/models HTTP/1.1\r\n\r\nGET /none HTTP/1.1\r\n\r\n"
      "GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = socket.ReadAll();
  EXPECT_EQ(socket.end(), WireEnd::kFin);
  EXPECT_LT(all.find("200 OK"), all.find("404 Not Found"));
  EXPECT_LT(all.find("404 Not Found"), all.rfind("200 OK"));
}

TEST(Http1, TakesARequestInAnyPiecesAndAChunkedBody) {
  auto simulator = Started(Quick());
  const std::string request = absl::StrCat(
      "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
      absl::Hex(10), ";x=y\r\n", std::string(kPlain, 10), "\r\n",
      absl::Hex(sizeof(kPlain) - 1 - 10), "\r\n", kPlain + 10, "\r\n0\r\ntrailer: t\r\n\r\n");
  RawSocket socket(simulator->ports().plain);
  for (const char c : request) socket.Send({&c, 1});
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(Http1, Says100ContinueWhenAsked) {
  auto simulator = Started(Quick());
  RawSocket socket(simulator->ports().plain);
  socket.Send(
      absl::StrCat("POST /v1/messages HTTP/1.1\r\nExpect: 100-continue\r\n"
                   "Connection: close\r\nContent-Length: ",
                   sizeof(kPlain) - 1, "\r\n\r\n"));
  EXPECT_EQ(socket.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.Send(kPlain);
  EXPECT_THAT(socket.ReadAll(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(Http1, GarbageClosesTheConnection) {
  auto simulator = Started(Quick());
  for (const char* garbage :
       {"nonsense\r\n\r\n", "GET / HTTP/3\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawSocket socket(simulator->ports().plain);
    socket.Send(garbage);
    EXPECT_EQ(socket.ReadAll(), "") << garbage;
    EXPECT_EQ(socket.end(), WireEnd::kFin) << garbage;
  }
}

TEST(Simulator, ABodyAboveTheLimitIsRefusedAndTheConnectionLives) {
  auto simulator = Started(Quick());
  for (const Version version : {Version::kHttp1, Version::kH2c}) {
    Ask ask;
    ask.port = simulator->ports().plain;
    ask.version = version;
    ask.body = std::string(kMaxRequestBody + 1, 'x');
    EXPECT_EQ(Fetch(ask).status, 413);
  }
}

TEST(Simulator, AHeadAboveTheLimitIsRefused) {
  auto simulator = Started(Quick());
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kPlain;
  ask.headers = {"x-long: " + std::string(100'000, 'x')};
  EXPECT_NE(Fetch(ask).curl_code, 0);
  ask.version = Version::kH2c;
  EXPECT_NE(Fetch(ask).curl_code, 0);
}

TEST(Simulator, AStreamKeepsItsPace) {
  SimulatorOptions options = Quick();
  options.chunk_interval = absl::Milliseconds(10);
  options.min_tokens = options.max_tokens = 20;
  auto simulator = Started(options);
  Ask ask;
  ask.port = simulator->ports().plain;
  ask.body = kStream;
  const absl::Time start = absl::Now();
  EXPECT_THAT(Fetch(ask).body, EndsWith("data: [DONE]\n\n"));
  const absl::Duration took = absl::Now() - start;
  EXPECT_GE(took, absl::Milliseconds(180));  // 19 intervals, less one tick of rounding
  EXPECT_EQ(simulator->Truth().events_sent, 20);
  EXPECT_EQ(simulator->Truth().peak_streams, 1);
}

Task<void> WaitFor(Event* event) { co_await event->Wait(StopToken()); }

TEST(Simulator, RunsOnTheReactorOfItsUserAndStopsThere) {
  auto reactor = EpollReactor::Make();
  ASSERT_TRUE(reactor.ok());
  Simulator simulator(reactor->get(), Quick());
  ASSERT_TRUE(simulator.Start().ok());
  Event done(reactor->get());
  Response response;
  std::thread client([&] {
    Ask ask;
    ask.port = simulator.ports().plain;
    ask.body = kPlain;
    response = Fetch(ask);
    (*reactor)->Post([&] { done.Set(); });
  });
  (*reactor)->Run(WaitFor(&done));
  client.join();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(simulator.Truth().completions, 1);
  simulator.Stop();
  simulator.Stop();
  EXPECT_EQ((*reactor)->timer_count(), 0u);
}

TEST(Simulator, StopsWithStreamsOpen) {
  SimulatorOptions options = Quick();
  options.chunk_interval = absl::Seconds(10);
  auto simulator = Started(options);
  RawSocket socket(simulator->ports().plain);
  socket.Send(absl::StrCat("POST /v1/messages HTTP/1.1\r\ncontent-length: ", sizeof(kStream) - 1,
                           "\r\n\r\n", kStream));
  EXPECT_THAT(socket.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 200 OK"));
  simulator.reset();
  socket.ReadAll();
  EXPECT_NE(socket.end(), WireEnd::kTimeout);
}

}  // namespace
}  // namespace headrace::simulator
