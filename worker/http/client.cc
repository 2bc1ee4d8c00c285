#include "worker/http/client.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "worker/http/curl_engine.h"
#include "worker/http/h2_engine.h"
#include "worker/http/proxy.h"
#include "worker/http/request_check.h"

namespace headrace::http {
namespace {

// Serves an https endpoint with the engine that its ALPN asks for.
//
//   state   | a call                                   | leaves it when
//   unknown | begins a probe, or waits for the one     | the probe connected -> h2 or http11
//           | under way; a failed probe fails it       |
//   h2      | goes to the HTTP/2 engine                | a call could not connect -> unknown
//   http11  | goes to libcurl                          | a call could not connect -> unknown
//
// A call that could not connect makes the next one probe again, so an endpoint that moves to a
// server with another protocol is followed.
class AutoEngine final : public Engine {
 public:
  AutoEngine(Reactor* reactor, std::unique_ptr<H2Engine> h2, std::unique_ptr<CurlEngine> http11)
      : reactor_(reactor),
        h2_(std::move(h2)),
        http11_(std::move(http11)),
        scope_(reactor, StopToken()) {}

  Task<CallResult> Call(const Request* request, Receiver* receiver, StopToken stop) override;
  EngineStats stats() const override;
  Task<void> Shutdown() override;

 private:
  // One attempt to learn the protocol. Owned by the probing task and by the calls that wait for it,
  // which may end in any order.
  struct Probe {
    explicit Probe(Reactor* reactor) : done(reactor) {}
    Event done;
    absl::Status status;
  };

  Task<void> RunProbe(std::shared_ptr<Probe> probe, absl::Duration timeout);
  // True once chosen_ is set; else `result` says why not.
  Task<bool> Choose(absl::Duration connect, StopToken stop, CallResult* result);

  Reactor* const reactor_;
  const std::unique_ptr<H2Engine> h2_;
  const std::unique_ptr<CurlEngine> http11_;
  Engine* chosen_ = nullptr;
  std::shared_ptr<Probe> probe_;  // under way
  int64_t choosing_ = 0;          // calls that wait for it
  TaskScope scope_;
};

Task<void> AutoEngine::RunProbe(std::shared_ptr<Probe> probe, absl::Duration timeout) {
  const absl::StatusOr<Protocol> protocol = co_await h2_->Probe(timeout, scope_.token());
  probe->status = protocol.status();
  if (protocol.ok()) {
    chosen_ = *protocol == Protocol::kHttp2 ? static_cast<Engine*>(h2_.get()) : http11_.get();
  }
  probe_ = nullptr;
  probe->done.Set();
}

Task<bool> AutoEngine::Choose(absl::Duration connect, StopToken stop, CallResult* result) {
  if (probe_ == nullptr) {
    probe_ = std::make_shared<Probe>(reactor_);
    if (!scope_.Spawn(RunProbe(probe_, connect))) {
      probe_ = nullptr;
      result->detail = "the client is shut down";
      co_return false;
    }
  }
  const std::shared_ptr<Probe> probe = probe_;
  ++choosing_;
  DeadlineSource deadline(reactor_, reactor_->Now() + connect, stop);
  const bool decided = co_await probe->done.Wait(deadline.token());
  --choosing_;
  if (decided && probe->status.ok()) co_return true;
  if (!decided && stop.stopped()) {
    result->end = CallEnd::kCancelled;
    result->detail = absl::StrCat("stopped: ", StopCodeName(stop.reason().code));
  } else if (!decided || probe->status.code() == absl::StatusCode::kDeadlineExceeded) {
    result->end = CallEnd::kTimedOut;
    result->timer = TimerKind::kConnect;
    result->detail = "no connection within the connect timeout";
  } else {
    result->connection_error = true;
    result->detail = std::string(probe->status.message());
  }
  co_return false;
}

Task<CallResult> AutoEngine::Call(const Request* request, Receiver* receiver, StopToken stop) {
  CallResult result;
  const MonoTime queued = reactor_->Now();
  bool chosen = chosen_ != nullptr;
  if (!chosen) {
    // The engines check for themselves; here, so that nobody connects for a request like that.
    const absl::Status valid = CheckRequest(*request);
    if (valid.ok()) {
      chosen = co_await Choose(request->timeouts.connect, stop, &result);
    } else {
      result.detail = std::string(valid.message());
    }
  }
  Engine* const engine = chosen_;
  if (chosen && engine != nullptr) {
    result = co_await engine->Call(request, receiver, stop);
    if (result.connection_error && chosen_ == engine) chosen_ = nullptr;
  } else {
    if (chosen) {
      // Another call failed to connect between the probe's end and now.
      result.connection_error = true;
      result.detail = "the connection was lost before the call";
    }
    result.stamps.end = reactor_->Now();
  }
  result.stamps.queued = queued;
  co_return result;
}

EngineStats AutoEngine::stats() const {
  EngineStats sum = h2_->stats();
  const EngineStats other = http11_->stats();
  sum.connections += other.connections;
  sum.connections_made += other.connections_made;
  sum.streams += other.streams;
  sum.waiting += other.waiting + choosing_;
  sum.resets_sent += other.resets_sent;
  sum.goaways += other.goaways;
  sum.replays += other.replays;
  sum.calls += other.calls;
  return sum;
}

Task<void> AutoEngine::Shutdown() {
  scope_.RequestStop(StopReason{StopCode::kShutdown, {}});
  co_await scope_.Join();
  co_await h2_->Shutdown();
  co_await http11_->Shutdown();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> MakeClient(Reactor* reactor, ClientOptions options) {
  std::string proxy;
  if (options.use_environment_proxies) {
    proxy = ProxyFor(options.endpoint,
                     [](const char* name) -> const char* { return std::getenv(name); });
  }
  if (options.protocol == Protocol::kHttp2) {
    if (!proxy.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "HTTP/2 was asked for ", options.endpoint.host,
          ", but the environment sets a proxy for it, and only HTTP/1.1 goes through proxies; name "
          "the host in no_proxy, or leave the protocol to the client"));
    }
    return H2Engine::Make(reactor, std::move(options));
  }
  if (options.protocol == Protocol::kHttp11 || !options.endpoint.tls || !proxy.empty()) {
    return CurlEngine::Make(reactor, std::move(options), std::move(proxy));
  }
  HR_ASSIGN_OR_RETURN(std::unique_ptr<H2Engine> h2, H2Engine::Make(reactor, options));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<CurlEngine> http11,
                      CurlEngine::Make(reactor, std::move(options)));
  return std::make_unique<AutoEngine>(reactor, std::move(h2), std::move(http11));
}

}  // namespace headrace::http
