// What the tests of the HTTP/1.1 engine share: a server, an engine for it, and calls to make.
#ifndef HEADRACE_TESTS_UNIT_WORKER_HTTP_CURL_FIXTURE_H_
#define HEADRACE_TESTS_UNIT_WORKER_HTTP_CURL_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "tests/support/h1_test_server.h"
#include "worker/http/curl_engine.h"

namespace headrace::http {

// Keeps what it was given; `verdict` judges each piece.
struct Answer final : Receiver {
  void OnHeaders(int s, Headers h) override {
    ++heads;
    status = s;
    headers = std::move(h);
  }
  BodyVerdict OnBody(absl::string_view piece) override {
    body.append(piece.data(), piece.size());
    return verdict ? verdict(body) : BodyVerdict::kProgress;
  }

  int heads = 0;
  int status = 0;
  Headers headers;
  std::string body;
  std::function<BodyVerdict(const std::string& body_so_far)> verdict;
};

// Complete once the body so far ends with "[DONE]".
inline BodyVerdict UntilDone(const std::string& body) {
  return body.ends_with("[DONE]") ? BodyVerdict::kComplete : BodyVerdict::kProgress;
}

inline Request Post(std::string path, std::string body = "{}") {
  Request request;
  request.path = std::move(path);
  request.headers = {{"content-type", "application/json"}};
  request.body = std::move(body);
  return request;
}

class CurlEngineTest : public testing::Test {
 protected:
  ~CurlEngineTest() override { Stop(); }

  void Start(TestServerOptions options = {}, std::string proxy = "") {
    server_ = std::make_unique<H1TestServer>(options);
    client_options_.endpoint = server_->url();
    client_options_.ca_file = server_->ca_file();
    StartEngine(std::move(proxy));
  }
  // For the endpoint in client_options_.
  void StartEngine(std::string proxy = "") {
    reactor_ = *EpollReactor::Make();
    auto engine = CurlEngine::Make(reactor_.get(), client_options_, std::move(proxy));
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void Stop() {
    if (engine_ == nullptr) return;
    reactor_->Run(engine_->Shutdown());
    engine_.reset();
    reactor_.reset();
  }

  // One call from start to end.
  CallResult Call(Request request, Receiver* receiver, StopToken stop = StopToken()) {
    CallResult result;
    reactor_->Run(CallInto(engine_.get(), std::move(request), receiver, stop, &result));
    return result;
  }
  CallResult Call(Request request) {
    answer_ = Answer();
    return Call(std::move(request), &answer_);
  }

  static Task<void> CallInto(Engine* engine, Request request, Receiver* receiver, StopToken stop,
                             CallResult* result) {
    *result = co_await engine->Call(&request, receiver, stop);
  }
  // Stops `source` after `delay`.
  static Task<void> StopAfter(Reactor* reactor, absl::Duration delay, StopSource* source) {
    co_await Sleep(reactor, delay, StopToken());
    source->RequestStop(StopReason{StopCode::kUser, "test"});
  }

  ClientOptions client_options_;
  Answer answer_;
  std::unique_ptr<H1TestServer> server_;
  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<CurlEngine> engine_;
};

inline std::string Ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_UNIT_WORKER_HTTP_CURL_FIXTURE_H_
