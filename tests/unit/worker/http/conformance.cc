#include "tests/unit/worker/http/conformance.h"

#include <time.h>

#include <utility>

#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/log.h"

namespace headrace::http {
namespace {

Task<void> CallInto(Engine* engine, Request request, Made* made, StopToken stop) {
  made->result = co_await engine->Call(&request, &made->recorder, stop);
}

Task<void> CallEach(Reactor* reactor, Engine* engine, std::vector<Request> requests,
                    std::vector<Made>* made, StopToken stop) {
  TaskScope scope(reactor, StopToken());
  for (size_t i = 0; i < requests.size(); ++i) {
    scope.Spawn(CallInto(engine, std::move(requests[i]), &(*made)[i], stop));
  }
  co_await scope.Join();
}

Task<void> ThenShutdown(Task<void> main, Engine* engine) {
  co_await main;
  co_await engine->Shutdown();
}

}  // namespace

void Recorder::OnHeaders(int s, Headers h) {
  ++header_calls;
  status = s;
  headers = std::move(h);
}

BodyVerdict Recorder::OnBody(absl::string_view piece) {
  body.append(piece.data(), piece.size());
  if (on_body) on_body();
  if (piece.find("[DONE]") != absl::string_view::npos) return BodyVerdict::kComplete;
  if (piece.find("[BAD]") != absl::string_view::npos) return BodyVerdict::kAbort;
  return piece[0] == ':' ? BodyVerdict::kKeepAlive : BodyVerdict::kProgress;
}

HttpConformance::~HttpConformance() {
  engine_.reset();
  server_.reset();
}

void HttpConformance::Start(TestServerOptions server_options) {
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  ASSERT_TRUE(reactor.ok()) << reactor.status();
  reactor_ = *std::move(reactor);
  server_options.tls = GetParam().tls;
  server_ = GetParam().make_server(server_options);
  client_options_.endpoint = server_->url();
  client_options_.ca_file = server_->ca_file();
  client_options_.use_environment_proxies = false;
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      GetParam().make_engine(reactor_.get(), client_options_);
  ASSERT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
}

Request HttpConformance::Post(std::string path, std::string body) {
  Request request;
  request.path = std::move(path);
  request.headers = {{"content-type", "application/json"}};
  request.body = std::move(body);
  // A test that hangs fails by these, not by ctest's timeout.
  request.timeouts.connect = absl::Seconds(5);
  request.timeouts.total = absl::Seconds(5);
  return request;
}

void HttpConformance::Run(Task<void> main) {
  reactor_->Run(ThenShutdown(std::move(main), engine_.get()));
}

std::vector<Made> HttpConformance::CallAll(std::vector<Request> requests, StopToken stop) {
  std::vector<Made> made(requests.size());
  Run(CallEach(reactor_.get(), engine_.get(), std::move(requests), &made, stop));
  return made;
}

Made HttpConformance::CallOne(Request request, StopToken stop) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return std::move(CallAll(std::move(requests), stop)[0]);
}

Made HttpConformance::CallAndStop(Request request, bool (*when)(const TestServerStats&)) {
  Made made;
  struct Runner {
    static Task<void> StopWhen(HttpConformance* self, bool (*condition)(const TestServerStats&),
                               StopSource* stop) {
      co_await self->Until(condition);
      stop->RequestStop(StopReason{StopCode::kUser, {}});
    }
    static Task<void> Main(HttpConformance* self, Request r,
                           bool (*condition)(const TestServerStats&), Made* out) {
      StopSource stop;
      TaskScope scope(self->reactor_.get(), StopToken());
      scope.Spawn(CallInto(self->engine_.get(), std::move(r), out, stop.token()));
      scope.Spawn(StopWhen(self, condition, &stop));
      co_await scope.Join();
    }
  };
  Run(Runner::Main(this, std::move(request), when, &made));
  return made;
}

Task<bool> HttpConformance::Until(bool (*condition)(const TestServerStats&)) {
  const MonoTime limit = reactor_->Now() + absl::Seconds(5);
  while (!condition(server_->stats())) {
    if (reactor_->Now() >= limit) co_return false;
    Sleep moment(reactor_.get(), absl::Milliseconds(1), StopToken());
    co_await moment;
  }
  co_return true;
}

absl::Duration ThreadCpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace headrace::http
