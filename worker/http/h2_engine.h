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
#include "common/async/wait.h"
#include "common/base/time.h"
#include "common/net/connector.h"
#include "worker/http/client.h"
#include "worker/http/h2_connection.h"
#include "worker/http/h2_host.h"
#include "worker/http/h2_options.h"
#include "worker/http/http.h"

namespace headrace::http {

class H2Engine final : public Engine, private H2Host, private EndOfTurn {
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

  Task<CallResult> Call(const Request* request, Receiver* receiver, StopToken stop) override;
  EngineStats stats() const override;
  Task<void> Shutdown() override;

 private:
  H2Engine(Reactor* reactor, ClientOptions options, H2Tuning tuning,
           std::unique_ptr<net::Connector> connector);

  // H2Host
  int stream_cap() const override { return stream_cap_; }
  void Replay(H2Call* call) override;
  void OnCallEnded(H2Call* call, bool was_waiting) override;
  void OnRoom(H2Connection* connection) override;
  void OnDraining(H2Connection* connection) override;
  void OnGone(H2Connection* connection) override;
  void OnCalm() override;
  void OnResetSent() override { ++stats_.resets_sent; }
  void OnGoAway() override { ++stats_.goaways; }

  void OnEndOfTurn() override;  // destroys connections that are gone

  // Puts waiting calls on streams, then opens connections for the rest.
  void Dispatch();
  H2Call* NextWaiting();
  H2Connection* LeastLoaded();
  int OpenConnections() const;  // those that take calls, or will when a stream ends
  // `successor`: for a connection that drains with streams on it.
  void OpenMore(bool successor);
  Task<void> OpenOne(absl::Duration timeout);
  absl::Status Adopt(net::Transport transport);
  void OnConnectFailed(const absl::Status& status);
  void Pause(absl::Duration pause);
  void ArmWake(MonoTime when);
  void OnWake();

  const std::unique_ptr<net::Connector> connector_;
  std::vector<std::unique_ptr<H2Connection>> connections_;
  std::vector<std::unique_ptr<H2Connection>> gone_;
  List<H2Call> waiting_;
  List<H2Call> replays_;  // go before the others
  int connecting_ = 0;
  int connect_failures_ = 0;  // in a row
  MonoTime next_connect_;
  MonoTime paused_until_;
  absl::Duration calm_pause_;
  MonoTime calm_until_;  // stream_cap_ is doubled then
  int stream_cap_;
  int peer_streams_;  // what the endpoint's last SETTINGS allowed
  bool dispatching_ = false;
  bool stopping_ = false;
  uint64_t next_connection_id_ = 1;
  int64_t live_ = 0;   // calls between their entry and their end
  EngineStats stats_;  // waiting and the totals; the rest is counted when asked
  Timer wake_;         // the end of a pause or of the gap between connects
  Event quiet_;        // no call is under way
  TaskScope scope_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_ENGINE_H_
