// One session of a worker: hello, the loops that read, write and beat, and the goodbye.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "worker/session/worker.h"
#include "worker/session/worker_state.h"

namespace headrace {
namespace {

constexpr uint32_t kProtocolVersion = 1;
// Results whose acknowledgement does not come for this share of a lease are sent again.
constexpr int kResendsPerLease = 2;
// How long a worker that leaves waits for the coordinator to end the stream. Chosen, not measured.
constexpr absl::Duration kGoodbye = absl::Seconds(2);

// A status that a further session would only meet again.
bool IsFinal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsAborted(status) ||
         absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

Task<absl::Status> Worker::Serve(WorkerStream* stream, StopToken drain, StopToken end) {
  StopCallback on_drain;
  struct Context {
    Worker* worker;
    StopToken drain;
  } context{this, drain};
  on_drain.Arm(
      drain,
      [](void* c) {
        auto* ctx = static_cast<Context*>(c);
        ctx->worker->drain_.RequestStop(ctx->drain.reason());
      },
      &context);
  Session session(reactor_, stream, drain, end);
  absl::Status shaken = co_await Handshake(&session);
  if (!shaken.ok()) co_return shaken;

  session_ = &session;
  for (const auto& [id, job] : jobs_) {
    job->draining = false;
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      // What is held from an earlier session is in no account of this one.
      model->flow.granted = model->flow.wanted = 0;
      UpdateWant(*job, model.get());
    }
  }
  outbox_.Rewind();
  session.scope.Spawn(WriteLoop(&session));
  session.scope.Spawn(BeatLoop(&session));
  co_await ReadLoop(&session);
  session.scope.RequestStop({StopCode::kPeerLost, "the session ended"});
  WakeWriter();
  co_await session.scope.Join();
  session_ = nullptr;
  if (session.ending) {
    co_await SayBye(&session);
    co_return absl::OkStatus();
  }
  if (session.broken.reason().code == StopCode::kPeerLost) {
    co_return absl::UnavailableError(
        absl::StrCat("the session with the coordinator broke: ", session.broken.reason().text));
  }
  absl::Status status = stream->status();
  if (IsFinal(status)) co_return status;
  co_return absl::UnavailableError(
      absl::StrCat("the session with the coordinator broke: ",
                   status.message().empty() ? "it closed the stream" : status.message()));
}

v1::Hello Worker::MakeHello() const {
  v1::Hello hello;
  hello.set_worker_id(options_.id);
  hello.set_boot_nonce(options_.boot_nonce);
  hello.set_protocol_min(kProtocolVersion);
  hello.set_protocol_max(kProtocolVersion);
  hello.set_build(options_.build);
  hello.set_max_in_flight(static_cast<uint32_t>(options_.max_in_flight));
  hello.set_first_unacked_chunk(outbox_.first_unacked());
  hello.set_next_chunk(outbox_.next_seq());
  std::map<std::pair<BatchKey, uint32_t>, v1::HeldBatch> held;
  for (const auto& [key, batch] : batches_) {
    held[{key, batch->epoch().value()}] = batch->ToHeld(/*with_items=*/true);
  }
  // What is not acknowledged may be lost with the coordinator that it was sent to.
  outbox_.ForEachUnacked([&](const v1::ItemResult& result) {
    const BatchKey key(result.job_id(), BatchId(result.batch_id()));
    v1::HeldBatch& batch = held[{key, result.epoch()}];
    batch.set_job_id(result.job_id());
    batch.set_batch_id(result.batch_id());
    batch.set_epoch(result.epoch());
    auto job = jobs_.find(result.job_id());
    if (job != jobs_.end()) {
      batch.set_model(static_cast<uint32_t>(result.item() % job->second->models.size()));
    }
    batch.add_open_items(result.item());
  });
  for (auto& [key, batch] : held) *hello.add_held() = std::move(batch);
  return hello;
}

Task<absl::Status> Worker::Handshake(Session* session) {
  v1::WorkerMessage hello;
  *hello.mutable_hello() = MakeHello();
  CountBeat(session);
  const bool sent = co_await session->stream->Write(std::move(hello));
  if (!sent) {
    const absl::Status& status = session->stream->status();
    if (IsFinal(status)) co_return status;
    co_return absl::UnavailableError(status.message().empty()
                                         ? "the coordinator closed the session before hello"
                                         : status.message());
  }
  // A worker that drains still delivers what it has.
  const bool deliver = session->drain_token.stopped() && !idle();
  std::optional<v1::CoordinatorMessage> answer = co_await session->stream->Read(
      deliver ? session->broken.token() : session->interrupt.token());
  if (!answer.has_value()) {
    const absl::Status& status = session->stream->status();
    if (IsFinal(status)) co_return status;
    co_return absl::UnavailableError(status.message().empty() ? "the coordinator did not answer"
                                                              : status.message());
  }
  if (!answer->has_welcome()) {
    co_return absl::FailedPreconditionError("the coordinator's first message is not a welcome");
  }
  session->welcome = answer->welcome();
  if (session->welcome.protocol() != kProtocolVersion) {
    co_return absl::FailedPreconditionError(absl::StrCat("the coordinator speaks protocol ",
                                                         session->welcome.protocol(),
                                                         ", this worker ", kProtocolVersion));
  }
  if (session->welcome.max_unacked_bytes() > 0) {
    outbox_.set_max_unacked_bytes(session->welcome.max_unacked_bytes());
  }
  const uint64_t max_chunk = session->welcome.max_chunk_bytes();
  if (max_chunk > 0) outbox_.set_max_chunk_bytes(max_chunk);
  // Of an earlier coordinator that took more. Sent again and again, it would break every session.
  if (max_chunk > 0 && outbox_.largest_chunk_bytes() > max_chunk) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator takes results of at most ", max_chunk, " bytes, and this worker holds ",
        outbox_.largest_chunk_bytes(), " bytes in one for the coordinator before it"));
  }
  co_return absl::OkStatus();
}

Task<void> Worker::ReadLoop(Session* session) {
  while (!session->ending) {
    const bool draining = session->drain_token.stopped();
    if (draining && idle()) {
      session->ending = true;
      co_return;
    }
    // While results are left to acknowledge, the end of the drain comes with a message.
    std::optional<v1::CoordinatorMessage> message = co_await session->stream->Read(
        draining ? session->broken.token() : session->interrupt.token());
    if (message.has_value()) {
      session->last_heard = reactor_->Now();
      OnMessage(session, *std::move(message));
    } else if (draining || !session->drain_token.stopped() || session->broken.stopped()) {
      co_return;  // the stream is over
    }
  }
}

Task<void> Worker::SayBye(Session* session) {
  v1::WorkerMessage message;
  message.mutable_bye()->set_reason(drain_.stopped()
                                        ? absl::StrCat("it has drained: ", drain_.reason().text)
                                        : std::string("it was let go"));
  const bool sent = co_await session->stream->Write(std::move(message));
  if (!sent) co_return;
  // The coordinator ends the stream when it has read the goodbye.
  DeadlineSource patience(reactor_, reactor_->Now() + kGoodbye, session->broken.token());
  while (true) {
    std::optional<v1::CoordinatorMessage> rest = co_await session->stream->Read(patience.token());
    if (!rest.has_value()) co_return;
  }
}

void Worker::OnMessage(Session* session, v1::CoordinatorMessage message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kJob:
      OnJob(message.job());
      break;
    case v1::CoordinatorMessage::kGrant: {
      const MonoTime lease_end =
          LeaseEnd(*session, message.grant().beat(), message.grant().ttl_ms());
      OnGrant(std::move(*message.mutable_grant()), lease_end);
      break;
    }
    case v1::CoordinatorMessage::kAck:
      outbox_.Ack(message.ack().chunk_seq());
      session->last_progress = reactor_->Now();
      if (!outbox_.over_budget()) budget_.Set();
      break;
    case v1::CoordinatorMessage::kRenew:
      OnRenew(message.renew(),
              LeaseEnd(*session, message.renew().beat(), message.renew().ttl_ms()));
      break;
    case v1::CoordinatorMessage::kCancel:
      OnCancel(message.cancel());
      break;
    case v1::CoordinatorMessage::kDrain:
      OnDrain(message.drain());
      break;
    case v1::CoordinatorMessage::kResync:
      outbox_.Rewind();
      session->want_dirty = true;
      WakeWriter();
      break;
    case v1::CoordinatorMessage::kSharers:
      OnSharers(message.sharers());
      break;
    case v1::CoordinatorMessage::kInFlightLimit:
      OnInFlightLimit(message.in_flight_limit());
      break;
    case v1::CoordinatorMessage::kGiveBack:
      OnGiveBack(message.give_back());
      break;
    case v1::CoordinatorMessage::kJobDone:
      OnJobDone(message.job_done().job_id());
      break;
    case v1::CoordinatorMessage::kLeave:
      HR_LOG(kInfo) << "the coordinator lets this worker go: " << message.leave().reason();
      session->ending = true;
      break;
    default:
      // A message of a newer coordinator: safe to ignore, by the rules of the protocol.
      break;
  }
}

void Worker::OnDrain(const v1::Drain& drain) {
  const StopReason reason{StopCode::kDrain, drain.reason()};
  for (const auto& [id, job] : jobs_) {
    if (drain.job_id() == 0 || drain.job_id() == id) job->draining = true;
  }
  for (const auto& [key, batch] : batches_) {
    if (drain.job_id() != 0 && drain.job_id() != key.first) continue;
    if (drain.cancel_in_flight()) {
      batch->CancelAll(reason);
    } else {
      batch->Drain(reason);
    }
  }
}

v1::Want Worker::MakeWant() const {
  v1::Want want;
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      v1::ModelWant* of_model = want.add_models();
      of_model->set_job_id(id);
      of_model->set_model(model->model);
      of_model->set_items_total(static_cast<uint64_t>(model->flow.wanted));
      of_model->set_items_received(static_cast<uint64_t>(model->flow.granted));
    }
  }
  return want;
}

void Worker::WakeWriter() { outgoing_.Set(); }

Task<void> Worker::WriteLoop(Session* session) {
  while (!session->scope.stopped()) {
    outgoing_.Reset();
    v1::WorkerMessage message;
    if (session->want_dirty) {
      session->want_dirty = false;
      *message.mutable_want() = MakeWant();
    } else if (session->beat.has_value()) {
      *message.mutable_beat() = *std::move(session->beat);
      session->beat.reset();
    } else if (const v1::Results* chunk = outbox_.NextToSend()) {
      *message.mutable_results() = *chunk;
    } else {
      co_await outgoing_.Wait(session->scope.token());
      continue;
    }
    const bool sent = co_await session->stream->Write(std::move(message));
    if (!sent) co_return;
  }
}

Task<void> Worker::BeatLoop(Session* session) {
  const absl::Duration interval = absl::Milliseconds(std::max(session->welcome.beat_ms(), 100u));
  while (true) {
    Sleep wait(reactor_, interval, session->scope.token());
    const bool waited = co_await wait;
    if (!waited) co_return;
    const absl::Duration lease = absl::Milliseconds(session->welcome.lease_ms());
    if (reactor_->Now() - session->last_heard > lease) {
      session->broken.RequestStop({StopCode::kPeerLost, "nothing was heard for a whole lease"});
      co_return;
    }
    UpdateRates(interval);
    ResendIfStuck(*session);
    session->beat = MakeBeat(session);
    UpdateWants();
    // Credits go with every beat: one that was lost is made up for.
    session->want_dirty = true;
    WakeWriter();
  }
}

void Worker::UpdateRates(absl::Duration interval) {
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      ItemFlow& flow = model->flow;
      const double rate =
          static_cast<double>(std::exchange(flow.finished, 0)) / absl::ToDoubleSeconds(interval);
      flow.finish_rate = flow.beats++ == 0 ? rate : 0.8 * flow.finish_rate + 0.2 * rate;
    }
  }
}

void Worker::ResendIfStuck(const Session& session) {
  const MonoTime now = reactor_->Now();
  if (!outbox_.has_sent()) {
    session_->last_progress = now;
    return;
  }
  const absl::Duration patience = absl::Milliseconds(session.welcome.lease_ms()) / kResendsPerLease;
  if (now - session.last_progress < patience) return;
  session_->last_progress = now;
  outbox_.Rewind();
}

void Worker::CountBeat(Session* session) const {
  std::deque<std::pair<uint64_t, MonoTime>>& times = session->beat_times;
  const absl::Duration lease = absl::Milliseconds(session->welcome.lease_ms());
  const MonoTime now = reactor_->Now();
  times.emplace_back(times.empty() ? 1 : times.back().first + 1, now);
  // The last one is kept, so that the next has its number.
  while (times.size() > 1 && now - times.front().second > lease) times.pop_front();
}

MonoTime Worker::LeaseEnd(const Session& session, uint64_t beat, uint32_t ttl_ms) const {
  if (ttl_ms == 0) return MonoTime::Max();
  const absl::Duration ttl = absl::Milliseconds(ttl_ms);
  if (beat == 0) return reactor_->Now() + ttl;
  for (const auto& [seq, time] : session.beat_times) {
    if (seq == beat) return time + ttl;
  }
  return MonoTime();  // so old that the lease is over
}

v1::Beat Worker::MakeBeat(Session* session) {
  CountBeat(session);
  v1::Beat beat;
  beat.set_seq(session->beat_times.back().first);
  for (const auto& [key, batch] : batches_) *beat.add_held() = batch->ToHeld(/*with_items=*/false);
  beat.set_in_flight(static_cast<uint32_t>(gate_.on_the_wire));
  beat.set_gate_waiting(static_cast<uint32_t>(gate_.permits().waiting()));
  beat.set_backing_off(static_cast<uint32_t>(gate_.backing_off));
  beat.set_unacked_bytes(outbox_.unacked_bytes());
  beat.set_throttled_total(gate_.throttled);
  if (gate_.on_the_wire == 0 && !batches_.empty() && !gate_.refusal.empty()) {
    beat.set_waiting_for(absl::StrCat("the provider: ", gate_.refusal));
  }
  int64_t connections = 0;
  for (const auto& [endpoint, client] : clients_) connections += client->stats().connections;
  beat.set_connections(static_cast<uint32_t>(connections));
  for (const auto& [job_id, job] : jobs_) {
    if (job->retiring) continue;
    beat.add_jobs(job_id);
    AddPools(job_id, *job, &beat);
  }
  return beat;
}

void Worker::AddPools(uint64_t job_id, const Job& job, v1::Beat* beat) {
  const MonoTime now = reactor_->Now();
  for (const auto& [name, pool] : job.pools) {
    const quota::PoolSnapshot snapshot = pool->Snapshot();
    // What is wrong with the quota comes before what the calls wait for.
    if (!snapshot.notice.empty()) beat->set_waiting_for(snapshot.notice);
    v1::PoolState* state = beat->add_pools();
    state->set_job_id(job_id);
    state->set_pool(name);
    state->set_shared(job.shared_pools);
    state->set_tokens_last_minute(
        snapshot.charged_last_minute[static_cast<size_t>(quota::Dimension::kTokens)]);
    state->set_requests_last_minute(
        snapshot.charged_last_minute[static_cast<size_t>(quota::Dimension::kRequests)]);
    state->set_waiting(pool->waiting());
    if (snapshot.limited_by.has_value()) {
      state->set_limited_by(std::string(quota::DimensionName(*snapshot.limited_by)));
    }
    if (snapshot.gate_until > now) {
      state->set_gated_ms(absl::ToInt64Milliseconds(snapshot.gate_until - now));
    }
    if (snapshot.in_flight_limit == 0) continue;
    state->set_in_flight_limit(snapshot.in_flight_limit);
    state->set_in_flight_why(snapshot.in_flight_why);
    const quota::FlightSample sample = pool->TakeSample();
    if (job.shared_pools) {
      job.store->AddSample(name, sample);
    } else {
      for (const int64_t number : sample.ToNumbers()) state->add_in_flight_sample(number);
    }
  }
}

}  // namespace headrace
