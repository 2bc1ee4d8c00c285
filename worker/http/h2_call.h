// One call of the HTTP/2 engine, from its entry to its end: what has been sent, what has arrived,
// the timers, and the result. Lives in the frame of H2Engine::Call().
#ifndef HEADRACE_WORKER_HTTP_H2_CALL_H_
#define HEADRACE_WORKER_HTTP_H2_CALL_H_

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "worker/http/h2_host.h"
#include "worker/http/http.h"

namespace headrace::http {

// A list node: in the engine's queue while it waits, in its connection's list while on a stream.
class H2Call : public ListNode<H2Call> {
 public:
  // Sum over the response's header fields of name + value + 32 (RFC 9113 section 6.5.2); announced
  // to the peer, and enforced.
  static constexpr size_t kMaxHeaderListBytes = 64 * 1024;

  // `request` and `receiver` outlive it.
  H2Call(H2Host* host, const Request* request, Receiver* receiver, StopToken stop);
  ~H2Call();

  // Watches the stop token from now on. False when the call has ended at once.
  bool Begin();
  const Request& request() const { return *request_; }

  // co_await call.Ended(): resumes when the call has ended.
  struct [[nodiscard]] Awaiter {
    H2Call* call;
    bool await_ready() const { return call->ended_; }
    void await_suspend(std::coroutine_handle<> handle) { call->waiter_ = handle; }
    void await_resume() const {}
  };
  Awaiter Ended() { return Awaiter{this}; }
  CallResult TakeResult() { return std::move(result_); }

  // From the engine: no connection could be had.
  void OnNoConnection(const absl::Status& status);
  void OnEngineStopped();
  void OnRefused(absl::string_view why);  // the request would break or forge another

  // From the connection. `now` is the time of the read that brought the event.
  void OnSubmitted(H2Connection* connection, int32_t stream_id, uint64_t connection_id,
                   std::optional<absl::Duration> connect_time, MonoTime now);
  void OnOnWire();  // its HEADERS are being sent
  size_t ReadBody(char* buffer, size_t size, bool* end);
  // False when the header list is over the limit; the call has ended then.
  bool OnHeader(absl::string_view name, absl::string_view value);
  void OnHeadersComplete(MonoTime now);
  void OnData(absl::string_view piece, MonoTime now);
  void OnEndStream();
  void OnPeerReset() { peer_reset_ = true; }
  // The stream is gone before its end. `code` is an HTTP/2 error code.
  void OnStreamClosed(uint32_t code);
  // The connection is gone, or its HEADERS were never sent.
  void OnConnectionLost(absl::string_view why);

  int32_t stream_id() const { return stream_id_; }
  MonoTime queued() const { return result_.stamps.queued; }
  int tries() const { return tries_; }

 private:
  void End(CallEnd end, absl::string_view detail = {});
  // Ends, and resets the stream if it is on one.
  void EndWithReset(CallEnd end, absl::string_view detail);
  // Leaves the connection without ending.
  void ReplayOr(CallEnd end, absl::string_view detail);
  void Detach();
  void OnStop();
  void OnTimer();
  MonoTime Deadline(TimerKind* kind) const;
  void ArmTimer();

  H2Host* const host_;
  const Request* const request_;
  Receiver* const receiver_;
  const StopToken stop_;
  CallResult result_;
  Headers headers_;  // of the response, until complete
  StopCallback stop_callback_;
  Timer timer_;
  std::coroutine_handle<> waiter_;
  H2Connection* connection_ = nullptr;
  MonoTime last_byte_;
  MonoTime last_progress_;
  MonoTime complete_at_;
  std::optional<uint64_t> content_length_;
  size_t body_sent_ = 0;
  size_t header_bytes_ = 0;
  int32_t stream_id_ = 0;
  int tries_ = 0;         // that came to nothing, on the wire or not
  int status_ = 0;        // of the header block that is arriving
  bool on_wire_ = false;  // HEADERS of the current stream went out
  bool upload_done_ = false;
  bool headers_seen_ = false;  // of the final response
  bool complete_ = false;      // the receiver said so
  bool peer_reset_ = false;
  bool ended_ = false;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_CALL_H_
