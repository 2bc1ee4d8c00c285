// The HTTP/2 engine: many calls over few connections to one endpoint, on nghttp2 and OpenSSL.
//
// A call waits in this engine's own FIFO queue until some connection has a free stream; nothing
// waits inside a connection. The life of a connection:
//
//   state      | takes calls | leaves it when
//   connecting | no          | TCP and TLS are up -> open; failed -> gone
//   open       | yes         | GOAWAY, too old, too many requests or resets -> draining
//   draining   | no          | its last stream has ended -> gone
//   gone       | no          | (the peer closed, an error, an unanswered PING, idle for too long)
//
// What becomes of a call when its stream or connection ends early:
//
//   event                                    | then
//   request not on the wire yet              | replayed, free of charge
//   REFUSED_STREAM, GOAWAY below its stream  | replayed, at most H2Tuning::max_replays times
//   the receiver has said kComplete          | kComplete
//   any other reset, FIN, TCP reset, timeout | kLost: perhaps processed, never repeated here
#ifndef HEADRACE_WORKER_HTTP_H2_ENGINE_H_
#define HEADRACE_WORKER_HTTP_H2_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/time.h"
#include "worker/http/client.h"
#include "worker/http/connector.h"
#include "worker/http/h2_options.h"
#include "worker/http/http.h"

namespace headrace::http {

class H2Call;
class H2Connection;

class H2Engine final : public Engine {
 public:
  // Connects nothing yet. http endpoints are spoken to with prior knowledge (h2c). InvalidArgument
  // on an unreadable ca_file. Sets SIGPIPE to be ignored in this process if it has its default.
  static absl::StatusOr<std::unique_ptr<H2Engine>> Make(Reactor* reactor, ClientOptions options,
                                                        H2Tuning tuning = {});
  ~H2Engine() override;

  // Opens the first connection and says what the peer speaks: kHttp2 (the connection is kept and
  // will serve calls; always so for an http endpoint, without connecting) or kHttp11 (it is closed,
  // and this engine is of no use for the endpoint). Errors as in Connector::Connect.
  Task<absl::StatusOr<Protocol>> Probe(absl::Duration timeout, StopToken stop);

  Task<CallResult> Call(Request request, Receiver* receiver, StopToken stop) override;
  EngineStats stats() const override;
  Task<void> Shutdown() override;

 private:
  H2Engine(Reactor* reactor, ClientOptions options, H2Tuning tuning,
           std::unique_ptr<Connector> connector);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_ENGINE_H_
