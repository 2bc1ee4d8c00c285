#include <algorithm>
#include <utility>

#include "simulator/service.h"

namespace headrace::simulator {
namespace {

// A stream waits while this much of it has not been taken by the transport. Chosen, not measured.
constexpr size_t kMaxBufferedPerStream = size_t{256} << 10;
// A stream that is later than this stops trying to catch up. Chosen, not measured.
constexpr absl::Duration kMaxLag = absl::Seconds(1);
// Most events of one stream in one tick; the rest comes in the next ones.
constexpr int kMaxEventsPerTick = 256;

// Between the last bytes of a broken response and its break. Chosen, not measured.
constexpr absl::Duration kBreakDelay = absl::Milliseconds(10);

constexpr uint32_t kH2InternalError = 0x2;  // RFC 9113 section 7
constexpr uint32_t kH2RefusedStream = 0x7;

}  // namespace

Call::Call(Service* service, Responder* responder, Request request)
    : service_(service), responder_(responder), request_(std::move(request)) {}

Call::~Call() { PeerGone(Gone::kOurs); }

void Call::PeerGone(Gone how) {
  if (state_ == State::kDone) return;
  Leave();
  if (state_ == State::kHeld) std::erase(service_->held_, this);
  if (state_ == State::kQueued) std::erase(service_->queued_, this);
  if (counted_) ++service_->truth_.counters().cancelled[static_cast<size_t>(how)];
  TokenUse use = plan_.use;
  // A provider bills what was produced before the cancellation arrived.
  if (plan_.events != nullptr) {
    use.output = std::min(use.output, plan_.events->sent_tokens());
  } else if (state_ != State::kSending) {
    use.output = 0;
  }
  Close(service_->Now(), use, /*failed=*/false);
}

void Call::Play(Plan plan, MonoTime now) {
  plan_ = std::move(plan);
  state_ = State::kWaiting;
  if (plan_.delay <= absl::ZeroDuration()) return SendHead(now);
  service_->wheel_.Add(this, now + plan_.delay);
}

void Call::OnTick(MonoTime now) {
  switch (state_) {
    case State::kHeld:
      return service_->ReleaseBarrier(now, /*timed_out=*/true);
    case State::kWaiting:
      return SendHead(now);
    case State::kSending:
      return Step(now);
    case State::kQueued:
    case State::kDone:
      return;
  }
}

void Call::SendHead(MonoTime now) {
  state_ = State::kSending;
  if (plan_.no_head) return Finish(now);
  if (plan_.goaway) responder_->GoAway(GoAwayKind::kGraceful);
  if (plan_.one_byte) responder_->set_one_byte(true);
  ResponseHead head;
  head.status = plan_.status;
  head.content_type = plan_.content_type;
  head.headers = std::move(plan_.headers);
  if (!plan_.stream) head.content_length = plan_.length.value_or(plan_.whole.size());
  responder_->SendHead(head);
  if (!plan_.stream) {
    if (responder_->body().empty()) {
      responder_->body() = std::move(plan_.whole);
    } else {
      responder_->body() += plan_.whole;
    }
    responder_->Wake();
    if (plan_.ending == Ending::kEnd) return Finish(now);
    // What was sent must be on the wire before the connection breaks.
    service_->wheel_.Add(this, now + kBreakDelay);
    return;
  }
  streaming_ = true;
  Truth& truth = service_->truth_.counters();
  truth.peak_streams = std::max(truth.peak_streams, ++truth.streams);
  // Streams that start together do not tick together: each has its own phase.
  next_at_ = plan_.interval > absl::ZeroDuration() ? now + plan_.interval * phase_ : now;
  responder_->Wake();
  Step(now);
}

bool Call::NextPiece() {
  std::string& out = responder_->body();
  if (plan_.events != nullptr) {
    if (!plan_.events->Next(&out)) return false;
    ++service_->truth_.counters().events_sent;
    return true;
  }
  if (next_piece_ >= plan_.pieces.size()) {
    if (!plan_.repeat_last || plan_.pieces.empty()) return false;
    out += plan_.pieces.back();
    return true;
  }
  out += plan_.pieces[next_piece_++];
  return true;
}

void Call::Step(MonoTime now) {
  if (now - next_at_ > kMaxLag) next_at_ = now;
  bool wrote = false;
  for (int i = 0; i < kMaxEventsPerTick && next_at_ <= now; ++i) {
    if (responder_->buffered() > kMaxBufferedPerStream) break;
    if (next_piece_ == plan_.gap_before && plan_.gap > absl::ZeroDuration()) {
      next_at_ = now + std::exchange(plan_.gap, absl::ZeroDuration());
      break;
    }
    if (!NextPiece()) {
      responder_->Wake();
      return Finish(now);
    }
    wrote = true;
    next_at_ = next_at_ + plan_.interval;
    if (plan_.apart) break;
  }
  if (wrote) responder_->Wake();
  // The end comes with the last event, as a server sends it.
  const bool generated_all = plan_.events != nullptr &&
                             plan_.events->sent_tokens() == plan_.events->spec().completion_tokens;
  if (generated_all && plan_.ending == Ending::kEnd) return Finish(now);
  service_->wheel_.Add(this, std::max(next_at_, now + absl::Nanoseconds(1)));
}

void Call::Finish(MonoTime now) {
  switch (plan_.ending) {
    case Ending::kHang:
      return;  // until the peer gives up
    case Ending::kEnd:
      if (plan_.complete) service_->truth_.CompleteIdentity(identity_);
      Close(now, plan_.use, /*failed=*/plan_.status >= 500);
      return responder_->SendEnd();
    case Ending::kRstStream:
      Close(now, plan_.use, false);
      return responder_->ResetStream(kH2InternalError);
    case Ending::kFin:
      Close(now, plan_.use, false);
      return responder_->CloseConnection(/*reset=*/false);
    case Ending::kTcpRst:
      Close(now, plan_.use, false);
      return responder_->CloseConnection(/*reset=*/true);
    case Ending::kRefuse:
      Close(now, {}, /*failed=*/true);
      return responder_->ResetStream(kH2RefusedStream);
    case Ending::kGoAwayHard:
      Close(now, {}, /*failed=*/true);
      return responder_->GoAway(GoAwayKind::kHard);
    case Ending::kGoAwayCalm:
      Close(now, {}, /*failed=*/true);
      return responder_->GoAway(GoAwayKind::kCalm);
  }
}

void Call::Close(MonoTime now, TokenUse use, bool failed) {
  if (std::exchange(state_, State::kDone) == State::kDone) return;
  Leave();
  if (account_ != nullptr) account_->Settle(now, use, failed, &charge_);
  if (std::exchange(counted_, false)) service_->truth_.EndCall();
  Truth& truth = service_->truth_.counters();
  if (std::exchange(streaming_, false)) --truth.streams;
  if (plan_.complete) {
    truth.input_tokens += use.input;
    truth.output_tokens += use.output;
  }
  if (std::exchange(served_, false)) service_->FreeServer(now);
}

}  // namespace headrace::simulator
