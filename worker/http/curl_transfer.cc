#include "worker/http/curl_transfer.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "worker/http/curl_shard.h"

namespace headrace::http {
namespace {

// CURLE_TOO_LARGE of libcurl 8.6 and later: among others, a header line over its limit of 100 KB.
constexpr auto kTooLarge = static_cast<CURLcode>(100);

std::string StopText(const StopReason& reason) {
  return absl::StrCat("stopped: ", StopCodeName(reason.code), reason.text.empty() ? "" : ", ",
                      reason.text);
}

absl::string_view TimerText(TimerKind timer) {
  switch (timer) {
    case TimerKind::kConnect:
      return "no connection within the connect timeout";
    case TimerKind::kFirstByte:
      return "no response headers within the first-byte timeout";
    case TimerKind::kSilence:
      return "no byte of the body within the silence timeout";
    case TimerKind::kProgress:
      return "nothing but signs of life within the progress timeout";
    case TimerKind::kTotal:
    case TimerKind::kNone:
      break;
  }
  return "not ended within the total timeout";
}

}  // namespace

CurlTransfer::CurlTransfer(Reactor* reactor, const CurlSettings* settings,
                           CurlConnections* connections, const Request* request, Receiver* receiver,
                           MonoTime queued)
    : reactor_(reactor),
      settings_(settings),
      connections_(connections),
      request_(request),
      receiver_(receiver),
      done_(reactor) {
  result_.stamps.queued = queued;
}

CurlTransfer::~CurlTransfer() {
  HR_CHECK(easy_ == nullptr) << "a transfer died in the hands of libcurl";
  reactor_->Cancel(&timer_);
}

void CurlTransfer::Start(CurlShard* shard, CURL* easy, absl::Duration connect_used,
                         const std::string& addresses) {
  shard_ = shard;
  easy_ = easy;
  started_ = reactor_->Now();
  connect_used_ = connect_used;
  phase_ = Phase::kConnecting;
  if (!addresses.empty()) addresses_ = curl_slist_append(nullptr, addresses.c_str());
  SetOptions();
  ArmTimer();
}

void CurlTransfer::CancelOn(StopToken stop) {
  stop_ = stop;
  on_stop_.Arm(stop, &CurlTransfer::OnStop, this);
}

void CurlTransfer::Reject(CallEnd end, TimerKind timer, absl::string_view detail) {
  Decide(end, timer, detail);
  done_.Set();
}

void CurlTransfer::RejectUnconnected(absl::string_view detail) {
  result_.connection_error = true;
  Reject(CallEnd::kNotSent, TimerKind::kNone, detail);
}

// The callbacks of libcurl.

int CurlTransfer::OnPrereq(void* self, char*, char* local_ip, int, int local_port) {
  return static_cast<CurlTransfer*>(self)->Prereq(local_ip == nullptr ? "" : local_ip, local_port);
}

size_t CurlTransfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  return static_cast<CurlTransfer*>(self)->TakeHeader(absl::string_view(data, size * count));
}

size_t CurlTransfer::OnBody(char* data, size_t size, size_t count, void* self) {
  return static_cast<CurlTransfer*>(self)->TakeBody(absl::string_view(data, size * count));
}

int CurlTransfer::Prereq(absl::string_view local_ip, int local_port) {
  if (phase_ == Phase::kEnded) return CURL_PREREQFUNC_ABORT;
  if (attempts_ == 0) {
    curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &request_size_before_);
  } else {
    // libcurl found its connection dead and begins again, whatever the method. That is harmless
    // only when no byte of the request has left.
    NoteSent();
    if (result_.sends > 0) {
      vetoed_ = true;
      return CURL_PREREQFUNC_ABORT;
    }
    ++result_.replays;
  }
  ++attempts_;
  const long connects_before = connects_;
  curl_easy_getinfo(easy_, CURLINFO_NUM_CONNECTS, &connects_);
  const bool made = connects_ > connects_before;
  const CurlConnections::Use use = connections_->OnUse(local_ip, local_port, made);
  if (use.requests >= settings_->max_requests_per_connection) {
    curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L);
  }
  WatchGoodbye(use);
  const MonoTime now = reactor_->Now();
  result_.connection_id = use.id;
  result_.http_version = 11;
  result_.stamps.sent = now;
  result_.stamps.connect = made ? now - started_ + connect_used_ : absl::ZeroDuration();
  phase_ = Phase::kSent;
  ArmTimer();
  return CURL_PREREQFUNC_OK;
}

void CurlTransfer::WatchGoodbye(const CurlConnections::Use& use) {
  curl_tlssessioninfo* session = nullptr;
  curl_easy_getinfo(easy_, CURLINFO_TLS_SSL_PTR, &session);
  if (session == nullptr || session->backend != CURLSSLBACKEND_OPENSSL) return;
  if (session->internals == nullptr) return;  // no TLS
  tls_address_ = use.address;
  goodbye_ = false;
  connections_->WatchGoodbye(use, static_cast<SSL*>(session->internals), &goodbye_);
}

size_t CurlTransfer::TakeHeader(absl::string_view line) {
  if (phase_ == Phase::kEnded) return CURL_WRITEFUNC_ERROR;
  switch (head_.AddLine(line)) {
    case ResponseHead::Event::kMore:
      break;
    case ResponseHead::Event::kBad:
      End(CallEnd::kBadResponse, TimerKind::kNone, head_.problem());
      break;
    case ResponseHead::Event::kHeaders:
      last_byte_ = last_progress_ = reactor_->Now();
      result_.status = head_.status();
      result_.stamps.headers = last_byte_;
      phase_ = Phase::kBody;
      ArmTimer();
      receiver_->OnHeaders(head_.status(), std::move(head_.headers()));
      break;
  }
  return phase_ == Phase::kEnded ? CURL_WRITEFUNC_ERROR : line.size();
}

size_t CurlTransfer::TakeBody(absl::string_view piece) {
  // After the end marker the bytes mean nothing.
  if (phase_ == Phase::kGrace) return piece.size();
  if (phase_ != Phase::kBody) return CURL_WRITEFUNC_ERROR;
  last_byte_ = reactor_->Now();
  result_.body_bytes += static_cast<int64_t>(piece.size());
  if (static_cast<size_t>(result_.body_bytes) > request_->max_response_bytes) {
    End(CallEnd::kTooLarge, TimerKind::kNone, "the response is larger than max_response_bytes");
    return CURL_WRITEFUNC_ERROR;
  }
  const BodyVerdict verdict = receiver_->OnBody(piece);
  if (phase_ == Phase::kEnded) return CURL_WRITEFUNC_ERROR;  // the receiver stopped its own call
  switch (verdict) {
    case BodyVerdict::kKeepAlive:
      return piece.size();
    case BodyVerdict::kAbort:
      End(CallEnd::kAborted, TimerKind::kNone, "the receiver refused the response");
      return CURL_WRITEFUNC_ERROR;
    case BodyVerdict::kProgress:
    case BodyVerdict::kComplete:
      break;
  }
  last_progress_ = last_byte_;
  if (!result_.stamps.first_body.has_value()) result_.stamps.first_body = last_byte_;
  if (verdict == BodyVerdict::kComplete) {
    phase_ = Phase::kGrace;
    ArmTimer();
  }
  return piece.size();
}

// Endings.

void CurlTransfer::OnStop(void* self) {
  auto* transfer = static_cast<CurlTransfer*>(self);
  transfer->End(CallEnd::kCancelled, TimerKind::kNone, StopText(transfer->stop_.reason()));
}

void CurlTransfer::OnTimer(void* self) {
  auto* transfer = static_cast<CurlTransfer*>(self);
  const Deadline deadline = transfer->NextDeadline();
  if (deadline.when > transfer->reactor_->Now()) {
    // Bytes have come since it was armed.
    transfer->ArmTimer();
    return;
  }
  transfer->End(CallEnd::kTimedOut, deadline.timer,
                transfer->phase_ == Phase::kGrace ? "closed by us after the end marker"
                                                  : TimerText(deadline.timer));
}

void CurlTransfer::OnCurlDone(CURLcode code) {
  curl_done_ = true;
  NoteSent();
  if (code == CURLE_OK && BodyIsCut()) {
    Decide(CallEnd::kLost, TimerKind::kNone,
           "the connection was closed without a TLS goodbye: the body may be cut off");
  } else if (code == CURLE_OK) {
    Decide(head_.complete() ? CallEnd::kComplete : CallEnd::kLost, TimerKind::kNone,
           head_.complete() ? "" : "the connection was closed within the head of the response");
  } else if (vetoed_) {
    Decide(CallEnd::kLost, TimerKind::kNone,
           "the connection ended before any answer; the request was not sent again");
  } else if (attempts_ == 0) {
    Decide(CallEnd::kNotSent, TimerKind::kNone, Describe(code));
    result_.connection_error = true;
  } else if (result_.sends == 0) {
    Decide(CallEnd::kNotSent, TimerKind::kNone, Describe(code));
  } else if (BodyIsWhole()) {
    Decide(CallEnd::kComplete, TimerKind::kNone, Describe(code));
  } else if (code == CURLE_OPERATION_TIMEDOUT) {
    Decide(CallEnd::kTimedOut, TimerKind::kTotal, Describe(code));
  } else {
    Decide(IsBadResponse(code) ? CallEnd::kBadResponse : CallEnd::kLost, TimerKind::kNone,
           Describe(code));
  }
}

void CurlTransfer::OnShardFailed(absl::string_view why) {
  NoteSent();
  Decide(result_.sends > 0 ? CallEnd::kLost : CallEnd::kNotSent, TimerKind::kNone, why);
}

void CurlTransfer::OnReleased() {
  easy_ = nullptr;
  if (!tls_address_.empty()) connections_->UnwatchGoodbye(tls_address_, &goodbye_);
  curl_slist_free_all(headers_);
  curl_slist_free_all(addresses_);
  headers_ = addresses_ = nullptr;
  done_.Set();
}

void CurlTransfer::NoteSent() {
  if (attempts_ == 0 || easy_ == nullptr) return;
  long request_size = 0;
  curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &request_size);
  if (request_size > request_size_before_ || head_.complete()) result_.sends = 1;
}

bool CurlTransfer::BodyIsWhole() const {
  return head_.complete() && head_.content_length().has_value() &&
         result_.body_bytes >= *head_.content_length();
}

// A body without a length ends with its connection, which under TLS anybody can cut.
bool CurlTransfer::BodyIsCut() const {
  return head_.ends_with_connection() && request_->method != "HEAD" && !tls_address_.empty() &&
         !goodbye_;
}

bool CurlTransfer::IsBadResponse(CURLcode code) const {
  if (code == kTooLarge) return true;
  switch (code) {
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:  // bytes that are no HTTP at all: "HTTP/0.9 not allowed"
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_OUT_OF_MEMORY:  // before 8.6: a header line over libcurl's own limit of 100 KB
      return true;
    case CURLE_RECV_ERROR:
      return absl::StrContains(error_, "chunk") || absl::StrContains(error_, "header");
    default:
      return false;
  }
}

std::string CurlTransfer::Describe(CURLcode code) const {
  if (code == CURLE_OUT_OF_MEMORY) return "a header line is too long, or no memory (curl 27)";
  if (code == kTooLarge) return "a header line is too long, or another value (curl 100)";
  return absl::StrCat(error_[0] != '\0' ? error_ : curl_easy_strerror(code), " (curl ",
                      static_cast<int>(code), ")");
}

void CurlTransfer::Decide(CallEnd end, TimerKind timer, absl::string_view detail) {
  if (phase_ == Phase::kEnded) return;
  const bool marked = phase_ == Phase::kGrace;
  NoteSent();
  phase_ = Phase::kEnded;
  reactor_->Cancel(&timer_);
  on_stop_.Disarm();
  result_.end = marked ? CallEnd::kComplete : end;
  result_.timer = marked ? TimerKind::kNone : timer;
  if (!detail.empty()) result_.detail = absl::StrCat(settings_->host, ": ", detail);
  result_.stamps.end = reactor_->Now();
}

void CurlTransfer::End(CallEnd end, TimerKind timer, absl::string_view detail) {
  Decide(end, timer, detail);
  shard_->Abort(this);
}

// The clocks.

CurlTransfer::Deadline CurlTransfer::NextDeadline() const {
  const Timeouts& timeouts = request_->timeouts;
  const MonoTime begin = started_ - connect_used_;
  Deadline next{begin + timeouts.total, TimerKind::kTotal};
  const auto consider = [&next](MonoTime when, TimerKind timer) {
    if (when <= next.when) next = {when, timer};
  };
  switch (phase_) {
    case Phase::kConnecting:
      consider(begin + timeouts.connect, TimerKind::kConnect);
      break;
    case Phase::kSent:
      consider(*result_.stamps.sent + timeouts.first_byte, TimerKind::kFirstByte);
      break;
    case Phase::kBody:
      consider(last_progress_ + timeouts.progress, TimerKind::kProgress);
      consider(last_byte_ + timeouts.silence, TimerKind::kSilence);
      break;
    case Phase::kGrace:
      return {last_progress_ + kCompleteGrace, TimerKind::kNone};
    case Phase::kIdle:
    case Phase::kEnded:
      return {};
  }
  return next;
}

void CurlTransfer::ArmTimer() {
  const MonoTime when = NextDeadline().when;
  if (when == MonoTime::Max()) {
    reactor_->Cancel(&timer_);
  } else {
    reactor_->Arm(&timer_, when, &CurlTransfer::OnTimer, this);
  }
}

}  // namespace headrace::http
