#include "coordinator/session/worker_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

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

void WorkerSession::End(absl::Status status) {
  if (end_.stopped()) return;
  end_status_ = std::move(status);
  end_.RequestStop({StopCode::kOwnerDone, std::string(end_status_.message())});
}

Task<void> WorkerSession::Run(StopToken stop) {
  struct Context {
    WorkerSession* session;
    StopToken stop;
  } context{this, stop};
  StopCallback on_stop;
  on_stop.Arm(
      stop,
      [](void* c) {
        auto* ctx = static_cast<Context*>(c);
        ctx->session->End(absl::UnavailableError(ctx->stop.reason().text));
      },
      &context);
  scope_.Spawn(WatchSilence());
  v1::Hello hello;
  absl::Status status = co_await Handshake(&hello);
  if (!status.ok()) {
    if (absl::IsUnavailable(status)) {
      HR_LOG(kInfo) << "a worker's session did not begin: " << status.message();
    } else {
      HR_LOG(kWarning) << "a worker's session was refused: " << status.message();
    }
    scope_.RequestStop({StopCode::kPeerLost, "no handshake"});
    co_await stream_->Close(status);
    co_await scope_.Join();
    co_return;
  }
  host_->OnSessionOpen(this, hello);
  scope_.Spawn(WriteLoop());
  while (true) {
    std::optional<v1::WorkerMessage> message = co_await stream_->Read(end_.token());
    if (!message.has_value()) break;
    last_heard_ = reactor_->Now();
    OnMessage(*std::move(message));
  }
  host_->OnSessionClosed(this);
  scope_.RequestStop({StopCode::kPeerLost, "the session ended"});
  co_await stream_->Close(end_status_);
  co_await scope_.Join();
}

Task<void> WorkerSession::WatchSilence() {
  while (true) {
    Sleep wait(reactor_, options_.silence / 4, scope_.token());
    const bool waited = co_await wait;
    if (!waited) co_return;
    if (reactor_->Now() - last_heard_ > options_.silence) {
      End(absl::UnavailableError("nothing was heard from the worker"));
      co_return;
    }
  }
}

Task<absl::Status> WorkerSession::Handshake(v1::Hello* out) {
  DeadlineSource hello_time(reactor_, reactor_->Now() + options_.silence, end_.token());
  std::optional<v1::WorkerMessage> first = co_await stream_->Read(hello_time.token());
  if (!first.has_value()) co_return absl::CancelledError("no hello came");
  if (!first->has_hello()) co_return absl::InvalidArgumentError("the first message is no hello");
  const v1::Hello& hello = first->hello();
  HR_CO_RETURN_IF_ERROR(rpc::CheckWorkerName(stream_->peer(), hello.worker_id()));
  const uint32_t protocol = std::min(kProtocolMax, hello.protocol_max());
  if (protocol < kProtocolMin || protocol < hello.protocol_min()) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("worker ", hello.worker_id(), " speaks session protocol ",
                     hello.protocol_min(), "-", hello.protocol_max(), ", this coordinator ",
                     kProtocolMin, "-", kProtocolMax, ": upgrade the older of the two"));
  }
  worker_id_ = hello.worker_id();
  build_ = hello.build();
  max_in_flight_ = hello.max_in_flight();
  *out = hello;
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
      OnWant(message.want());
      host_->OnCredits(this);
      break;
    case v1::WorkerMessage::kResults: {
      v1::Results results = std::move(*message.mutable_results());
      host_->OnResults(this, std::move(results));
      break;
    }
    case v1::WorkerMessage::kBye:
      host_->OnBye(this, message.bye());
      End(absl::OkStatus());
      break;
    case v1::WorkerMessage::kBeat:
      last_beat_ = std::move(*message.mutable_beat());
      host_->OnBeat(this, last_beat_);
      break;
    default:
      // Messages of newer workers are safe to ignore.
      break;
  }
}

void WorkerSession::OnWant(const v1::Want& want) {
  const MonoTime now = reactor_->Now();
  for (const v1::ModelWant& model : want.models()) {
    Credits& credits = credits_[{model.job_id(), model.model()}];
    credits.wanted = std::max<uint64_t>(credits.wanted, model.items_total());
    // Messages of a live stream take no half lease: what has not come by then is lost.
    const bool settled = now - credits.last_grant > options_.lease / 2;
    if (settled && model.items_received() < credits.granted) {
      credits.granted = model.items_received();
    }
  }
}

uint64_t WorkerSession::credits(uint64_t job_id, uint32_t model) const {
  auto it = credits_.find({job_id, model});
  if (it == credits_.end()) return 0;
  const Credits& credits = it->second;
  return credits.wanted > credits.granted ? credits.wanted - credits.granted : 0;
}

void WorkerSession::SendGrant(v1::Grant grant) {
  Credits& credits = credits_[{grant.job_id(), grant.model()}];
  credits.granted += static_cast<uint64_t>(grant.items_size());
  credits.last_grant = reactor_->Now();
  grant.set_beat(std::max<uint64_t>(last_beat_.seq(), 1));
  v1::CoordinatorMessage message;
  *message.mutable_grant() = std::move(grant);
  Send(std::move(message));
}

void WorkerSession::Send(v1::CoordinatorMessage message) {
  out_.push_back(std::move(message));
  outgoing_.Set();
}

void WorkerSession::SendAck(uint64_t seq) {
  v1::CoordinatorMessage message;
  message.mutable_ack()->set_chunk_seq(seq);
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
