#include "coordinator/session/worker_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace {
namespace {

constexpr uint32_t kProtocolMin = 1;
constexpr uint32_t kProtocolMax = 1;

}  // namespace

WorkerSession::WorkerSession(Reactor* reactor, SessionId id,
                             std::unique_ptr<CoordinatorStream> stream, SessionOptions options,
                             SessionHost* host)
    : reactor_(reactor),
      id_(id),
      stream_(std::move(stream)),
      options_(std::move(options)),
      host_(host),
      last_heard_(reactor->Now()),
      outgoing_(reactor),
      scope_(reactor, StopToken()) {}

Task<void> WorkerSession::Run(StopToken stop) {
  absl::Status status = co_await Handshake(stop);
  if (!status.ok()) {
    HR_LOG(kWarning) << "a worker's session was refused: " << status.message();
    co_await stream_->Close(status);
    co_return;
  }
  host_->OnSessionOpen(this);
  scope_.Spawn(WriteLoop());
  while (true) {
    std::optional<v1::WorkerMessage> message = co_await stream_->Read(stop);
    if (!message.has_value()) break;
    last_heard_ = reactor_->Now();
    OnMessage(*std::move(message));
  }
  host_->OnSessionClosed(this);
  scope_.RequestStop({StopCode::kPeerLost, "the session ended"});
  co_await stream_->Close(absl::OkStatus());
  co_await scope_.Join();
}

Task<absl::Status> WorkerSession::Handshake(StopToken stop) {
  std::optional<v1::WorkerMessage> first = co_await stream_->Read(stop);
  if (!first.has_value()) co_return absl::CancelledError("no hello came");
  if (!first->has_hello()) co_return absl::InvalidArgumentError("the first message is no hello");
  const v1::Hello& hello = first->hello();
  const uint32_t protocol = std::min(kProtocolMax, hello.protocol_max());
  if (protocol < kProtocolMin || protocol < hello.protocol_min()) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("worker ", hello.worker_id(), " speaks session protocol ",
                     hello.protocol_min(), "-", hello.protocol_max(), ", this coordinator ",
                     kProtocolMin, "-", kProtocolMax, ": upgrade the older of the two"));
  }
  worker_id_ = hello.worker_id();
  v1::CoordinatorMessage message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_protocol(protocol);
  welcome->set_coordinator_boot_id(options_.boot_id);
  welcome->set_lease_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease)));
  welcome->set_beat_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.beat)));
  welcome->set_max_chunk_bytes(options_.max_chunk_bytes);
  welcome->set_max_unacked_bytes(options_.max_unacked_bytes);
  const bool sent = co_await stream_->Write(std::move(message));
  if (!sent) co_return absl::UnavailableError("the worker left during the handshake");
  co_return absl::OkStatus();
}

void WorkerSession::OnMessage(v1::WorkerMessage message) {
  switch (message.message_case()) {
    case v1::WorkerMessage::kWant:
      for (const v1::ModelWant& want : message.want().models()) {
        credits_[{want.job_id(), want.model()}].wanted = want.items_total();
      }
      host_->OnCredits(this);
      break;
    case v1::WorkerMessage::kResults: {
      v1::Results results = std::move(*message.mutable_results());
      // The worker numbers its chunks over all its sessions; the first one seen sets the base.
      if (!std::exchange(saw_chunk_, true)) acked_ = results.chunk_seq() - 1;
      host_->OnResults(this, std::move(results));
      break;
    }
    case v1::WorkerMessage::kBeat:
      last_beat_ = std::move(*message.mutable_beat());
      host_->OnBeat(this, last_beat_);
      break;
    default:
      // Bye is answered by the end of the stream; messages of newer workers are safe to ignore.
      break;
  }
}

uint64_t WorkerSession::credits(uint64_t job_id, uint32_t model) const {
  auto it = credits_.find({job_id, model});
  if (it == credits_.end()) return 0;
  const Credits& credits = it->second;
  return credits.wanted > credits.granted ? credits.wanted - credits.granted : 0;
}

void WorkerSession::SendGrant(v1::Grant grant) {
  credits_[{grant.job_id(), grant.model()}].granted += static_cast<uint64_t>(grant.items_size());
  v1::CoordinatorMessage message;
  *message.mutable_grant() = std::move(grant);
  Send(std::move(message));
}

void WorkerSession::Send(v1::CoordinatorMessage message) {
  out_.push_back(std::move(message));
  outgoing_.Set();
}

void WorkerSession::ChunkDurable(uint64_t seq) {
  durable_.insert(seq);
  const uint64_t before = acked_;
  while (!durable_.empty() && *durable_.begin() <= acked_ + 1) {
    acked_ = std::max(acked_, *durable_.begin());
    durable_.erase(durable_.begin());
  }
  if (acked_ == before) return;
  v1::CoordinatorMessage message;
  message.mutable_ack()->set_chunk_seq(acked_);
  Send(std::move(message));
}

Task<void> WorkerSession::WriteLoop() {
  while (!scope_.stopped()) {
    if (out_.empty()) {
      outgoing_.Reset();
      co_await outgoing_.Wait(scope_.token());
      continue;
    }
    v1::CoordinatorMessage message = std::move(out_.front());
    out_.pop_front();
    const bool sent = co_await stream_->Write(std::move(message));
    if (!sent) co_return;
  }
}

}  // namespace headrace
