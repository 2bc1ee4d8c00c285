#include "worker/http/h2_call.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/http/h2_connection.h"

namespace headrace::http {
namespace {

// Room for the headers that most providers send. Chosen.
constexpr size_t kUsualHeaders = 24;

bool IsPseudo(absl::string_view name) { return !name.empty() && name[0] == ':'; }

}  // namespace

H2Call::H2Call(H2Host* host, const Request* request, Receiver* receiver, StopToken stop)
    : host_(host), request_(request), receiver_(receiver), stop_(stop) {
  result_.http_version = 20;
  result_.stamps.queued = host->reactor()->Now();
}

H2Call::~H2Call() {
  host_->reactor()->Cancel(&timer_);
  HR_CHECK(ended_) << "a call was destroyed before its end";
}

bool H2Call::Begin() {
  if (stop_.stopped()) {
    OnStop();
    return false;
  }
  for (const auto& [name, value] : request_->headers) {
    const auto* n = reinterpret_cast<const uint8_t*>(name.data());
    const auto* v = reinterpret_cast<const uint8_t*>(value.data());
    if (IsPseudo(name) || nghttp2_check_header_name(n, name.size()) == 0 ||
        nghttp2_check_header_value(v, value.size()) == 0) {
      End(CallEnd::kNotSent, absl::StrCat("not a valid HTTP/2 header: ", name));
      return false;
    }
  }
  const auto* path = reinterpret_cast<const uint8_t*>(request_->path.data());
  if (request_->path.empty() || request_->path[0] != '/' ||
      nghttp2_check_path(path, request_->path.size()) == 0) {
    End(CallEnd::kNotSent, "not a valid request path");
    return false;
  }
  stop_callback_.Arm(stop_, [](void* self) { static_cast<H2Call*>(self)->OnStop(); }, this);
  return true;
}

void H2Call::OnNoConnection(const absl::Status& status) {
  result_.connection_error = true;
  if (absl::IsDeadlineExceeded(status)) {
    result_.timer = TimerKind::kConnect;
    End(CallEnd::kTimedOut, status.message());
  } else {
    End(CallEnd::kNotSent, status.message());
  }
}

void H2Call::OnEngineStopped() { End(CallEnd::kNotSent, "the engine is shut down"); }

void H2Call::OnRefused(absl::string_view why) { End(CallEnd::kNotSent, why); }

void H2Call::OnSubmitted(H2Connection* connection, int32_t stream_id, uint64_t connection_id,
                         std::optional<absl::Duration> connect_time, MonoTime now) {
  connection_ = connection;
  stream_id_ = stream_id;
  result_.connection_id = connection_id;
  result_.stamps.connect = connect_time.value_or(absl::ZeroDuration());
  result_.stamps.sent = now;
  upload_done_ = request_->body.empty();
  ArmTimer();
}

void H2Call::OnOnWire() {
  if (std::exchange(on_wire_, true)) return;
  ++result_.sends;
}

size_t H2Call::ReadBody(char* buffer, size_t size, bool* end) {
  const size_t count = std::min(size, request_->body.size() - body_sent_);
  memcpy(buffer, request_->body.data() + body_sent_, count);
  body_sent_ += count;
  upload_done_ = *end = body_sent_ == request_->body.size();
  return count;
}

bool H2Call::OnHeader(absl::string_view name, absl::string_view value) {
  header_bytes_ += name.size() + value.size() + 32;
  if (header_bytes_ > kMaxHeaderListBytes) {
    EndWithReset(CallEnd::kBadResponse, "the response's headers are over 64 KB");
    return false;
  }
  if (headers_seen_) return true;
  if (!IsPseudo(name)) {
    if (headers_.empty()) headers_.reserve(kUsualHeaders);
    headers_.emplace_back(std::string(name), std::string(value));
    return true;
  }
  // nghttp2 has checked that it is three digits.
  if (name == ":status" && !absl::SimpleAtoi(value, &status_)) status_ = 0;
  return true;
}

void H2Call::OnHeadersComplete(MonoTime now) {
  header_bytes_ = 0;
  last_byte_ = now;
  if (headers_seen_) return;  // trailers
  if (status_ / 100 == 1) {
    headers_.clear();
    return;
  }
  headers_seen_ = true;
  last_progress_ = now;
  result_.status = status_;
  result_.stamps.headers = now;
  if (const std::string* length = FindHeader(headers_, "content-length")) {
    uint64_t bytes = 0;
    if (absl::SimpleAtoi(*length, &bytes)) content_length_ = bytes;
  }
  ArmTimer();
  receiver_->OnHeaders(status_, std::exchange(headers_, {}));
}

void H2Call::OnData(absl::string_view piece, MonoTime now) {
  last_byte_ = now;
  result_.body_bytes += static_cast<int64_t>(piece.size());
  result_.stamps.read_tick = std::max(result_.stamps.read_tick, host_->pacer()->tick());
  if (complete_ || piece.empty()) return;
  if (static_cast<uint64_t>(result_.body_bytes) > request_->max_response_bytes) {
    EndWithReset(CallEnd::kTooLarge,
                 absl::StrCat("the body is over ", request_->max_response_bytes, " bytes"));
    return;
  }
  const BodyVerdict verdict = receiver_->OnBody(piece);
  if (ended_) return;  // the receiver stopped its own call
  if (verdict == BodyVerdict::kAbort) {
    EndWithReset(CallEnd::kAborted, "the receiver gave up");
    return;
  }
  if (verdict == BodyVerdict::kKeepAlive) return;
  last_progress_ = now;
  if (!result_.stamps.first_body.has_value()) result_.stamps.first_body = now;
  if (verdict == BodyVerdict::kComplete) {
    complete_ = true;
    complete_at_ = now;
    ArmTimer();
  }
}

void H2Call::OnEndStream() {
  // An answer before the upload's end: the rest of the body is of no use (RFC 9113 section 8.1).
  upload_done_ ? End(CallEnd::kComplete) : EndWithReset(CallEnd::kComplete, {});
}

void H2Call::OnStreamClosed(uint32_t code) {
  const char* name = nghttp2_http2_strerror(code);
  if (complete_) {
    End(CallEnd::kComplete, absl::StrCat("after the end marker: stream closed with ", name));
  } else if (code == NGHTTP2_REFUSED_STREAM && !headers_seen_) {
    ReplayOr(CallEnd::kNotSent, "the stream was refused");
  } else if (content_length_.has_value() && !peer_reset_ &&
             static_cast<uint64_t>(result_.body_bytes) < *content_length_) {
    End(CallEnd::kLost, absl::StrCat("the body ended after ", result_.body_bytes, " of ",
                                     *content_length_, " bytes"));
  } else if (code == NGHTTP2_REFUSED_STREAM) {
    // By a GOAWAY or a reset that contradicts the answer it has begun.
    End(CallEnd::kLost, "the peer broke off its answer");
  } else if (!peer_reset_) {
    End(CallEnd::kBadResponse, absl::StrCat("the peer broke HTTP/2: ", name));
  } else {
    End(CallEnd::kLost, absl::StrCat("the peer reset the stream: ", name));
  }
}

void H2Call::OnConnectionLost(absl::string_view why) {
  if (complete_) {
    End(CallEnd::kComplete, absl::StrCat("after the end marker: ", why));
  } else if (!on_wire_) {
    ReplayOr(CallEnd::kNotSent, why);
  } else {
    End(CallEnd::kLost, why);
  }
}

void H2Call::ReplayOr(CallEnd end, absl::string_view detail) {
  if (++tries_ > host_->tuning().max_replays) {
    End(end, absl::StrCat(detail, ", ", tries_, " times"));
    return;
  }
  if (on_wire_) ++result_.replays;
  Detach();
  on_wire_ = upload_done_ = peer_reset_ = false;
  body_sent_ = header_bytes_ = 0;
  headers_.clear();
  result_.stamps.sent.reset();
  host_->Replay(this);
}

void H2Call::Detach() {
  host_->reactor()->Cancel(&timer_);
  Unlink();
  if (connection_ == nullptr) return;
  std::exchange(connection_, nullptr)->OnCallLeft(stream_id_);
}

void H2Call::End(CallEnd end, absl::string_view detail) {
  if (std::exchange(ended_, true)) return;
  result_.end = end;
  result_.detail = std::string(detail);
  result_.stamps.end = host_->reactor()->Now();
  stop_callback_.Disarm();
  const bool was_waiting = connection_ == nullptr && linked();
  Detach();
  host_->OnCallEnded(this, was_waiting);
  if (waiter_ != nullptr) host_->reactor()->Schedule(std::exchange(waiter_, nullptr));
}

void H2Call::EndWithReset(CallEnd end, absl::string_view detail) {
  if (ended_) return;
  // The slot is free once the reset is on its way, which it is before any later request.
  if (connection_ != nullptr) connection_->ResetStream(stream_id_, on_wire_);
  End(end, detail);
}

void H2Call::OnStop() {
  if (complete_) {
    EndWithReset(CallEnd::kComplete, "stopped after the end marker");
    return;
  }
  EndWithReset(CallEnd::kCancelled, absl::StrCat("stopped: ", StopCodeName(stop_.reason().code)));
}

MonoTime H2Call::Deadline(TimerKind* kind) const {
  const Timeouts& timeouts = request_->timeouts;
  *kind = TimerKind::kTotal;
  MonoTime deadline = *result_.stamps.sent + timeouts.total;
  const auto consider = [&](MonoTime when, TimerKind which) {
    if (when >= deadline) return;
    deadline = when;
    *kind = which;
  };
  if (!headers_seen_) {
    consider(*result_.stamps.sent + timeouts.first_byte, TimerKind::kFirstByte);
  } else if (complete_) {
    consider(complete_at_ + host_->tuning().complete_grace, TimerKind::kNone);
  } else {
    consider(last_byte_ + timeouts.silence, TimerKind::kSilence);
    consider(last_progress_ + timeouts.progress, TimerKind::kProgress);
  }
  return deadline;
}

void H2Call::ArmTimer() {
  // Deadlines mostly move away while data arrives; the timer is moved only when one comes nearer,
  // and looks again when it fires too early.
  TimerKind kind;
  const MonoTime when = Deadline(&kind);
  if (when == MonoTime::Max() || (timer_.armed() && timer_.when() <= when)) return;
  host_->reactor()->Arm(
      &timer_, when, [](void* self) { static_cast<H2Call*>(self)->OnTimer(); }, this);
}

void H2Call::OnTimer() {
  TimerKind kind;
  const MonoTime when = Deadline(&kind);
  if (when > host_->reactor()->Now()) {
    ArmTimer();
  } else if (complete_) {
    EndWithReset(CallEnd::kComplete, "the stream did not end after its end marker");
  } else {
    result_.timer = kind;
    EndWithReset(CallEnd::kTimedOut, absl::StrCat(TimerKindName(kind), " timer"));
  }
}

}  // namespace headrace::http
