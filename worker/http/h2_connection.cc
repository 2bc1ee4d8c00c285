#include "worker/http/h2_connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "worker/http/h2_callbacks.h"

namespace headrace::http {
namespace {

// TLS records read in one go before others get their turn. Chosen, not measured.
constexpr int kMaxReadsPerTurn = 32;
// Below this a read that left nothing pending has most likely emptied the socket.
constexpr size_t kLargeRead = 16 * 1024;
// A header block is at most 64 KB; an endless one of CONTINUATION frames ends here.
constexpr size_t kMaxUnframedBytes = 256 * 1024;
// PING, SETTINGS and frames of no use that a peer may send per window. Chosen, not measured: honest
// peers send a few per minute.
constexpr int kMaxControlFrames = 1000;
constexpr absl::Duration kControlWindow = absl::Seconds(10);

nghttp2_nv Field(absl::string_view name, absl::string_view value) {
  // nghttp2 copies both and does not write to them.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

H2Connection::H2Connection(H2Host* host, net::Transport transport, uint64_t id, int peer_streams)
    : host_(host),
      id_(id),
      transport_(std::move(transport)),
      peer_streams_(peer_streams),
      opened_at_(host->reactor()->Now()),
      now_(opened_at_),
      last_read_(opened_at_),
      phase_since_(opened_at_),
      control_window_start_(opened_at_) {
  UpdateLimit();
}

H2Connection::~H2Connection() {
  HR_CHECK(calls_.empty()) << "a connection was destroyed with calls on it";
  CloseTransport();
  nghttp2_session_del(session_);
}

absl::Status H2Connection::Start() {
  session_ = NewH2Session(this);
  if (session_ == nullptr) return absl::ResourceExhaustedError("nghttp2: out of memory");
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2Call::kMaxHeaderListBytes},
  }};
  int error =
      nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  if (error == 0) {
    error =
        nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  }
  if (error != 0) return absl::InternalError(nghttp2_strerror(error));
  const absl::Status watched = host_->reactor()->Watch(transport_.fd(), EPOLLIN, this);
  if (!watched.ok()) return watched;
  interest_ = EPOLLIN;
  started_ = true;
  RequestFlush();
  ArmTimer(opened_at_);
  // The handshake may have read the peer's first frames already, which epoll does not see.
  if (transport_.HasPending()) ReadAll(opened_at_);
  return absl::OkStatus();
}

bool H2Connection::Submit(H2Call* call) {
  const Request& request = call->request();
  const std::string length = absl::StrCat(request.body.size());
  absl::InlinedVector<nghttp2_nv, 24> fields = {
      Field(":method", request.method),
      Field(":scheme", host_->options().endpoint.tls ? "https" : "http"),
      Field(":authority", host_->authority()),
      Field(":path", request.path),
  };
  for (const auto& [name, value] : request.headers) fields.push_back(Field(name, value));
  const bool has_body = !request.body.empty();
  if (has_body || request.method == "POST") fields.push_back(Field("content-length", length));
  const nghttp2_data_provider provider = H2BodyProvider();
  const int32_t stream_id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                                   has_body ? &provider : nullptr, call);
  if (stream_id < 0) {
    Drain();
    return false;
  }
  const MonoTime now = host_->reactor()->Now();
  calls_.PushBack(call);
  ++requests_;
  if (++streams_ == 1) {
    phase_since_ = now;
    ArmTimer(now);
  }
  std::optional<absl::Duration> connect_time;
  if (call->queued() <= opened_at_) connect_time = transport_.connect_time;
  call->OnSubmitted(this, stream_id, id_, connect_time, now);
  if (requests_ >= host_->options().max_requests_per_connection) Drain();
  RequestFlush();
  return true;
}

void H2Connection::UpdateLimit() {
  limit_ = std::min({host_->options().streams_per_connection, host_->stream_cap(), peer_streams_});
}

void H2Connection::Drain() {
  if (state_ != State::kOpen) return;
  state_ = State::kDraining;
  RequestFlush();
  host_->OnDraining(this);
}

void H2Connection::ResetStream(int32_t stream_id, bool on_wire) {
  // The code is CANCEL whatever the reason: the answer is wanted no more (RFC 9113 section 7).
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_CANCEL);
  RequestFlush();
  // nghttp2 drops a request that has not gone out together with its reset.
  if (!on_wire) return;
  host_->OnResetSent();
  if (++resets_sent_ >= host_->tuning().max_resets_per_connection) Drain();
}

void H2Connection::OnCallLeft(int32_t stream_id) {
  if (state_ != State::kGone) {
    nghttp2_session_set_stream_user_data(session_, stream_id, nullptr);
  }
  if (--streams_ == 0 && state_ != State::kGone) {
    phase_since_ = host_->reactor()->Now();
    ping_pending_ = false;
    ArmTimer(phase_since_);
  }
  if (state_ == State::kOpen) host_->OnRoom(this);
  if (state_ == State::kDraining && streams_ == 0) RequestFlush();
}

void H2Connection::OnSettings() {
  const uint32_t streams =
      nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  peer_streams_ = static_cast<int>(std::min<uint32_t>(streams, 1 << 30));
  UpdateLimit();
  if (state_ == State::kOpen) host_->OnRoom(this);
}

void H2Connection::OnGoAway(uint32_t code) {
  host_->OnGoAway();
  if (code == NGHTTP2_ENHANCE_YOUR_CALM) host_->OnCalm();
  Drain();
}

bool H2Connection::CountControlFrame() {
  if (now_ - control_window_start_ >= kControlWindow) {
    control_window_start_ = now_;
    control_frames_ = 0;
  }
  if (++control_frames_ <= kMaxControlFrames) return true;
  broken_ = "the peer floods us with control frames";
  return false;
}

void H2Connection::OnFdReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) RequestFlush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  const MonoTime now = host_->reactor()->Now();
  ReadAll(now);
  if (state_ == State::kGone || paced()) return;
  if (host_->pacer()->AfterRead(this, now)) SetInterest();
}

bool H2Connection::OnReadTick(MonoTime now) { return ReadAll(now); }

void H2Connection::OnPacingEnds() { SetInterest(); }

bool H2Connection::ReadAll(MonoTime now) {
  auto& scratch = *host_->read_scratch();
  now_ = now;
  size_t total = 0;
  for (int reads = 0; reads < kMaxReadsPerTurn; ++reads) {
    size_t count = 0;
    switch (transport_.Read(scratch.data(), scratch.size(), &count)) {
      case net::Transport::Io::kOk:
        break;
      case net::Transport::Io::kWouldBlock:
        return total > 0;
      case net::Transport::Io::kEnd:
        Lose("the peer closed the connection");
        return true;
      case net::Transport::Io::kError:
        Lose(absl::StrCat("connection broken: ", transport_.error()));
        return true;
    }
    last_read_ = now;
    total += count;
    if (!Feed(absl::string_view(scratch.data(), count))) return true;
    // Spares the read that would only say EAGAIN.
    if (count < scratch.size() && total < kLargeRead && !transport_.HasPending()) return true;
  }
  host_->reactor()->Arm(
      &more_timer_, now,
      [](void* self) {
        auto* connection = static_cast<H2Connection*>(self);
        connection->ReadAll(connection->host_->reactor()->Now());
      },
      this);
  return true;
}

bool H2Connection::Feed(absl::string_view bytes) {
  unframed_bytes_ += bytes.size();
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (used < 0) {
    Lose(broken_.empty() ? nghttp2_strerror(static_cast<int>(used)) : broken_);
    return false;
  }
  // Data of streams that are gone is dropped without a callback, but counted against our window.
  const int32_t received = nghttp2_session_get_effective_recv_data_length(session_);
  if (std::exchange(data_received_, received) != received) unframed_bytes_ = 0;
  if (unframed_bytes_ > kMaxUnframedBytes) {
    Lose("the peer sends headers without end");
    return false;
  }
  if (nghttp2_session_want_write(session_) != 0) RequestFlush();
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    Lose("the HTTP/2 session is over");
    return false;
  }
  return true;
}

void H2Connection::OnEndOfTurn() {
  if (state_ == State::kGone) return;
  if (state_ == State::kDraining && streams_ == 0 && !goodbye_sent_) {
    goodbye_sent_ = true;
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  Flush();
  if (state_ == State::kGone) return;
  if (goodbye_sent_ && blocked_.empty()) {
    Lose("closed");
  } else if (nghttp2_session_want_read(session_) == 0 &&
             nghttp2_session_want_write(session_) == 0 && blocked_.empty()) {
    // nghttp2 has answered a breach of the protocol with its GOAWAY.
    Lose("the peer broke HTTP/2");
  }
}

void H2Connection::Flush() {
  if (!blocked_.empty()) {
    std::string pending;
    pending.swap(blocked_);
    if (!Write(pending)) return SetInterest();
  }
  auto& scratch = *host_->write_scratch();
  size_t filled = 0;
  while (true) {
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return Lose(nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) break;
    absl::string_view frame(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    bool blocked = false;
    while (!frame.empty()) {
      const size_t part = std::min(frame.size(), scratch.size() - filled);
      memcpy(scratch.data() + filled, frame.data(), part);
      frame.remove_prefix(part);
      filled += part;
      if (filled < scratch.size()) break;
      filled = 0;
      blocked = !Write(absl::string_view(scratch.data(), scratch.size())) || blocked;
      if (state_ == State::kGone) return;
    }
    if (!blocked) continue;
    blocked_.append(scratch.data(), filled);
    return SetInterest();
  }
  if (filled > 0) Write(absl::string_view(scratch.data(), filled));
  if (state_ != State::kGone) SetInterest();
}

bool H2Connection::Write(absl::string_view bytes) {
  while (blocked_.empty() && !bytes.empty()) {
    size_t count = 0;
    switch (transport_.Write(bytes.data(), bytes.size(), &count)) {
      case net::Transport::Io::kOk:
        bytes.remove_prefix(count);
        continue;
      case net::Transport::Io::kWouldBlock:
        blocked_.assign(bytes.data(), bytes.size());
        return false;
      case net::Transport::Io::kEnd:
      case net::Transport::Io::kError:
        Lose(absl::StrCat("connection broken: ", transport_.error()));
        return false;
    }
  }
  blocked_.append(bytes.data(), bytes.size());
  return blocked_.empty();
}

void H2Connection::SetInterest() {
  if (state_ == State::kGone) return;
  const uint32_t wanted = (paced() ? 0 : EPOLLIN) | (blocked_.empty() ? 0 : EPOLLOUT);
  if (wanted == interest_) return;
  interest_ = wanted;
  host_->reactor()->Rewatch(transport_.fd(), wanted, this);
}

void H2Connection::Lose(absl::string_view why) {
  if (state_ == State::kGone) return;
  const std::string reason(why);
  state_ = State::kGone;
  CloseTransport();
  while (H2Call* call = calls_.front()) call->OnConnectionLost(reason);
  host_->OnGone(this);
}

void H2Connection::CloseTransport() {
  host_->reactor()->Cancel(&timer_);
  host_->reactor()->Cancel(&more_timer_);
  host_->pacer()->Remove(this);
  if (std::exchange(started_, false)) host_->reactor()->Unwatch(transport_.fd());
  transport_.Close();
}

void H2Connection::ArmTimer(MonoTime now) {
  const H2Tuning& tuning = host_->tuning();
  MonoTime when =
      state_ == State::kOpen ? opened_at_ + host_->options().max_connection_age : MonoTime::Max();
  if (streams_ == 0) {
    when = std::min(when, phase_since_ + host_->options().idle_timeout);
  } else if (ping_pending_) {
    when = std::min(when, ping_sent_ + tuning.ping_timeout);
  } else {
    // A stream on a connection that has been idle may wait for its answer first.
    when = std::min(when, std::max(last_read_, phase_since_) + tuning.ping_after);
  }
  if (when == MonoTime::Max()) return;
  host_->reactor()->Arm(
      &timer_, std::max(when, now), [](void* self) { static_cast<H2Connection*>(self)->OnTimer(); },
      this);
}

void H2Connection::OnTimer() {
  const MonoTime now = host_->reactor()->Now();
  const H2Tuning& tuning = host_->tuning();
  if (now >= opened_at_ + host_->options().max_connection_age) Drain();
  if (streams_ == 0) {
    if (now >= phase_since_ + host_->options().idle_timeout) Drain();
  } else if (ping_pending_) {
    if (last_read_ > ping_sent_) {
      ping_pending_ = false;
    } else if (now >= ping_sent_ + tuning.ping_timeout) {
      return Lose("the peer does not answer a PING");
    }
  } else if (now >= std::max(last_read_, phase_since_) + tuning.ping_after) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
    ping_pending_ = true;
    ping_sent_ = now;
    RequestFlush();
  }
  ArmTimer(now);
}

}  // namespace headrace::http
