// One HTTP/2 connection: an nghttp2 session on a transport, driven by the reactor. It takes calls
// while it is open; it never holds one back: a call is either on a stream or not here at all.
//
// Input goes socket -> nghttp2 -> calls as it comes, or once per tick under load (ReadPacer).
// Output is gathered at the end of the loop's turn, in whole TLS records. Nothing here writes from
// inside a callback of nghttp2, and a connection is never destroyed inside one.
#ifndef HEADRACE_WORKER_HTTP_H2_CONNECTION_H_
#define HEADRACE_WORKER_HTTP_H2_CONNECTION_H_

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/base/time.h"
#include "worker/http/h2_call.h"
#include "worker/http/h2_host.h"
#include "worker/http/read_pacer.h"
#include "common/net/transport.h"

namespace headrace::http {

class H2Connection final : private FdHandler, private EndOfTurn, private ReadPacer::Client {
 public:
  // Bytes that the peer may send unasked (http.md section 0, A3).
  static constexpr int32_t kStreamWindow = 1 << 20;
  static constexpr int32_t kConnectionWindow = 16 << 20;
  // The peer's limit until its SETTINGS arrive (RFC 9113 section 6.5.2 recommends at least 100).
  static constexpr int kAssumedPeerStreams = 100;

  // `peer_streams`: what the endpoint's last SETTINGS allowed.
  H2Connection(H2Host* host, net::Transport transport, uint64_t id, int peer_streams);
  ~H2Connection() override;

  // Watches the socket and sends the preface. An error leaves the connection unusable.
  absl::Status Start();

  bool accepts() const { return state_ == State::kOpen && streams_ < limit_; }
  bool open() const { return state_ == State::kOpen; }
  bool gone() const { return state_ == State::kGone; }
  int streams() const { return streams_; }
  int peer_streams() const { return peer_streams_; }

  // Puts `call` on a stream; accepts() must hold. False when that is impossible: the connection
  // drains then, and the call is untouched.
  bool Submit(H2Call* call);
  // Takes the engine's stream cap into account anew.
  void UpdateLimit();
  // No new streams; closes when the last one has ended.
  void Drain();

  // From calls.
  void ResetStream(int32_t stream_id, bool on_wire);
  void OnCallLeft(int32_t stream_id);

 private:
  friend struct H2Callbacks;
  enum class State { kOpen, kDraining, kGone };

  void OnFdReady(uint32_t events) override;
  void OnEndOfTurn() override;
  bool OnReadTick(MonoTime now) override;
  void OnPacingEnds() override;

  // True if anything was read.
  bool ReadAll(MonoTime now);
  bool Feed(absl::string_view bytes);
  void Flush();
  // False when output is blocked or the connection is lost.
  bool Write(absl::string_view bytes);
  void SetInterest();
  void RequestFlush() { host_->reactor()->RequestEndOfTurn(this); }

  // Closes at once and tells the calls.
  void Lose(absl::string_view why);
  void CloseTransport();

  void OnTimer();
  void ArmTimer(MonoTime now);
  void OnSettings();
  void OnGoAway(uint32_t code);
  // Counts frames that cost the peer nothing; false when there are too many.
  bool CountControlFrame();

  H2Host* const host_;
  const uint64_t id_;
  net::Transport transport_;
  nghttp2_session* session_ = nullptr;
  State state_ = State::kOpen;
  List<H2Call> calls_;
  int streams_ = 0;
  int peer_streams_;
  int limit_ = 0;
  int requests_ = 0;
  int resets_sent_ = 0;
  std::string blocked_;    // output that the socket would not take, at most one record and frame
  uint32_t interest_ = 0;  // what epoll watches
  bool started_ = false;
  bool goodbye_sent_ = false;
  Timer timer_;       // ping, idle and age
  Timer more_timer_;  // goes on reading in the next turn
  const MonoTime opened_at_;
  MonoTime now_;  // of the read that is being handled
  MonoTime last_read_;
  MonoTime phase_since_;  // since when it has had streams, or has been idle
  MonoTime ping_sent_;    // meaningful while ping_pending_
  bool ping_pending_ = false;
  size_t unframed_bytes_ = 0;  // read since the last frame other than CONTINUATION began
  int32_t data_received_ = 0;  // on the connection, since its last window update
  MonoTime control_window_start_;
  int control_frames_ = 0;
  absl::string_view broken_;  // why a callback gave up
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_CONNECTION_H_
