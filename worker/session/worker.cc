#include "worker/session/worker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "worker/provider/codec.h"

namespace headrace {
namespace {

constexpr uint32_t kProtocolVersion = 1;

// The places in line before the gate, for each model. Items that wait for a pool's quota hold a
// permit of the gate each, so the lines take half of it together, where that gives the lightest
// model a place. The gate serves in the order of asking, so full lines share it in proportion to
// their lengths: these go by weight. Chosen, not measured.
std::vector<int64_t> LineLengths(int64_t max_in_flight, const v1::JobSpec& spec) {
  constexpr double kMaxRatio = 64;
  constexpr int64_t kMaxLine = 256;
  double lightest = std::numeric_limits<double>::max();
  for (const v1::ModelSpec& model : spec.models()) lightest = std::min(lightest, model.weight());
  std::vector<int64_t> lengths;
  int64_t sum = 0;
  for (const v1::ModelSpec& model : spec.models()) {
    lengths.push_back(std::lround(std::min(model.weight() / lightest, kMaxRatio)));
    sum += lengths.back();
  }
  const int64_t scale = std::max<int64_t>(max_in_flight / (2 * std::max<int64_t>(sum, 1)), 1);
  for (int64_t& length : lengths) length = std::clamp<int64_t>(length * scale, 1, kMaxLine);
  return lengths;
}

// Of the items in hand that wait for their turn, for each model. Chosen, not measured.
constexpr int64_t kMinWaiting = 16;
constexpr int64_t kMaxWaiting = 8192;
// Rates say something after this many beats.
constexpr int64_t kBeatsToTrust = 10;

// Answers a grant that this worker cannot run.
v1::BatchDone GivenBack(const v1::Grant& grant) {
  v1::BatchDone done;
  done.set_batch_id(grant.batch_id());
  done.set_epoch(grant.epoch());
  done.set_job_id(grant.job_id());
  for (const v1::Item& item : grant.items()) done.add_not_started(item.item());
  return done;
}

std::string AccountOf(const v1::ModelSpec& model) {
  return absl::StrCat(model.endpoint(), "\n", model.api_key().env(), "\n", model.api_key().file());
}

}  // namespace

struct Worker::Job {
  v1::JobSpec spec;
  std::unique_ptr<quota::PoolStore> store;
  std::map<std::string, std::unique_ptr<quota::Admission>> pools;
  std::vector<std::unique_ptr<ModelRuntime>> models;
};

struct Worker::Session {
  Session(Reactor* reactor, WorkerStream* s, StopToken drain)
      : stream(s), scope(reactor, StopToken()), drain_token(drain) {}

  WorkerStream* const stream;
  v1::Welcome welcome;
  bool want_dirty = false;
  std::optional<v1::Beat> beat;
  bool ending = false;  // the coordinator has said that the worker may go
  TaskScope scope;
  StopToken drain_token;
};

Worker::Worker(Reactor* reactor, WorkerOptions options, WorkerEnvironment* environment)
    : reactor_(reactor),
      options_(std::move(options)),
      environment_(environment),
      random_(options_.seed),
      gate_(reactor, options_.max_in_flight),
      outbox_(OutboxOptions{}),
      drain_(kill_.token()),
      outgoing_(reactor),
      budget_(reactor),
      scope_(reactor, StopToken()) {
  budget_.Set();
}

Worker::~Worker() { reactor_->Cancel(&flush_timer_); }

WorkerStats Worker::stats() const {
  WorkerStats stats;
  stats.in_flight = gate_.on_the_wire;
  stats.peak_in_flight = gate_.peak_on_the_wire;
  stats.finished = finished_items_;
  stats.permits_in_use = gate_.permits().in_use();
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      stats.held_items += model->flow.held;
      stats.permits_in_use += model->starts.in_use();
    }
  }
  return stats;
}

Task<absl::Status> Worker::Serve(WorkerStream* stream, StopToken drain) {
  Session session(reactor_, stream, drain);
  absl::Status shaken = co_await Handshake(&session);
  if (!shaken.ok()) co_return shaken;

  session_ = &session;
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      // What is held from an earlier session is in no account of this one.
      model->flow.granted = model->flow.wanted = 0;
      UpdateWant(*job, model.get());
    }
  }
  outbox_.Rewind();
  StopCallback on_drain;
  on_drain.Arm(
      drain,
      [](void* self) {
        auto* worker = static_cast<Worker*>(self);
        worker->drain_.RequestStop(worker->session_->drain_token.reason());
      },
      this);
  session.scope.Spawn(WriteLoop(&session));
  session.scope.Spawn(BeatLoop(&session));
  co_await ReadLoop(&session);
  session.scope.RequestStop({StopCode::kPeerLost, "the session ended"});
  WakeWriter();
  co_await session.scope.Join();
  session_ = nullptr;
  if (session.ending) co_return absl::OkStatus();
  absl::Status status = stream->status();
  co_return absl::UnavailableError(
      absl::StrCat("the session with the coordinator broke: ", status.message()));
}

Task<absl::Status> Worker::Handshake(Session* session) {
  v1::WorkerMessage hello_message;
  v1::Hello* hello = hello_message.mutable_hello();
  hello->set_worker_id(options_.id);
  hello->set_boot_nonce(options_.boot_nonce);
  hello->set_protocol_min(kProtocolVersion);
  hello->set_protocol_max(kProtocolVersion);
  hello->set_build(options_.build);
  hello->set_max_in_flight(static_cast<uint32_t>(options_.max_in_flight));
  for (const auto& [id, batch] : batches_) *hello->add_held() = batch->ToHeld();
  const bool sent = co_await session->stream->Write(std::move(hello_message));
  if (!sent) co_return absl::UnavailableError("the coordinator closed the session before hello");
  std::optional<v1::CoordinatorMessage> answer =
      co_await session->stream->Read(session->drain_token);
  if (!answer.has_value()) {
    const absl::Status& status = session->stream->status();
    co_return status.ok() ? absl::UnavailableError("the coordinator ended the session") : status;
  }
  if (!answer->has_welcome()) {
    co_return absl::InternalError("the coordinator's first message is not a welcome");
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
  co_return absl::OkStatus();
}

Task<void> Worker::ReadLoop(Session* session) {
  while (!session->ending) {
    const bool draining = session->drain_token.stopped();
    if (draining && batches_.empty() && outbox_.empty()) {
      session->ending = true;
      co_return;
    }
    // While results are left to acknowledge, the end of the drain comes with a message.
    std::optional<v1::CoordinatorMessage> message =
        co_await session->stream->Read(draining ? StopToken() : session->drain_token);
    if (message.has_value()) {
      OnMessage(session, *std::move(message));
    } else if (draining || !session->drain_token.stopped()) {
      co_return;  // the stream is over
    }
  }
}

void Worker::OnMessage(Session* session, v1::CoordinatorMessage message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kJob:
      OnJob(message.job());
      break;
    case v1::CoordinatorMessage::kGrant:
      OnGrant(std::move(*message.mutable_grant()));
      break;
    case v1::CoordinatorMessage::kAck:
      outbox_.Ack(message.ack().chunk_seq());
      if (!outbox_.over_budget()) budget_.Set();
      break;
    case v1::CoordinatorMessage::kCancel:
      OnCancel(message.cancel());
      break;
    case v1::CoordinatorMessage::kDrain: {
      StopReason reason{StopCode::kDrain, message.drain().reason()};
      drain_.RequestStop(reason);
      if (message.drain().cancel_in_flight()) kill_.RequestStop(std::move(reason));
      break;
    }
    case v1::CoordinatorMessage::kJobDone:
      retired_jobs_.push_back(message.job_done().job_id());
      session->ending = true;
      break;
    default:
      // A message of a newer coordinator: safe to ignore, by the rules of the protocol.
      break;
  }
}

void Worker::OnJob(const v1::JobSpec& spec) {
  if (jobs_.contains(spec.job_id())) return;
  auto job = std::make_unique<Job>();
  job->spec = spec;
  if (spec.max_in_flight() > 0) {
    gate_.permits().SetCapacity(
        std::min<int64_t>(options_.max_in_flight, static_cast<int64_t>(spec.max_in_flight())));
  }
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> store = environment_->MakePools(spec);
  const uint32_t prefix = static_cast<uint32_t>(random_());
  if (store.ok()) {
    job->store = *std::move(store);
    for (const v1::PoolSpec& pool : spec.pools()) {
      job->pools[pool.name()] =
          std::make_unique<quota::Admission>(reactor_, job->store.get(), pool.name(), prefix);
    }
  }
  const std::vector<int64_t> lines = LineLengths(gate_.permits().capacity(), spec);
  for (int i = 0; i < spec.models_size(); ++i) {
    job->models.push_back(
        std::make_unique<ModelRuntime>(reactor_, lines[static_cast<size_t>(i)], drain_.token()));
    ModelRuntime* model = job->models.back().get();
    model->job_id = spec.job_id();
    model->model = static_cast<uint32_t>(i);
    const absl::Status status =
        store.ok() ? SetUpModel(job.get(), static_cast<uint32_t>(i), model) : store.status();
    if (status.ok()) continue;
    // The model exists, refuses to start anything, and says why.
    const bool key = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
    model->stopped = {key ? ErrorClass::kAuth : ErrorClass::kConfig, std::string(status.message())};
    model->drain.RequestStop({StopCode::kConfigStop, std::string(status.message())});
  }
  jobs_[spec.job_id()] = std::move(job);
  UpdateWants();
}

absl::Status Worker::SetUpModel(Job* job, uint32_t index, ModelRuntime* m) {
  const v1::JobSpec& spec = job->spec;
  const v1::ModelSpec& model = spec.models(static_cast<int>(index));
  m->label = model.label();
  m->weight = model.weight();
  m->retry.attempts = static_cast<int>(spec.attempts());
  m->retry.backoff.first_delay = absl::Milliseconds(spec.first_delay_ms());
  m->retry.backoff.max_delay = absl::Milliseconds(spec.max_delay_ms());
  m->retry.backoff.jitter = absl::Milliseconds(spec.jitter_ms());
  m->retry.max_retry_after = absl::Milliseconds(spec.max_retry_after_ms());
  m->timeouts.connect = absl::Milliseconds(model.connect_timeout_ms());
  m->timeouts.first_byte = absl::Milliseconds(model.first_byte_timeout_ms());
  m->timeouts.silence = absl::Milliseconds(model.silence_timeout_ms());
  m->timeouts.progress = absl::Milliseconds(model.progress_timeout_ms());
  m->timeouts.total = absl::Milliseconds(model.total_timeout_ms());
  m->on_account_stop = &Worker::OnAccountStop;
  m->context = this;
  m->charging = quota::DefaultCharging(model.provider(), model.endpoint());
  m->estimator = std::make_unique<quota::TokenEstimator>(std::nullopt);

  provider::ModelConfig config;
  config.provider = model.provider();
  config.name = model.name();
  config.endpoint = model.endpoint();
  config.params_json = model.params_json();
  config.stream = model.stream();
  for (const auto& [name, value] : model.headers()) config.headers[name] = value;
  absl::StatusOr<Secret> key = environment_->ReadKey(model.api_key());
  if (!key.ok()) return Annotate(key.status(), absl::StrCat("model ", model.label()));
  absl::StatusOr<std::unique_ptr<provider::Codec>> codec =
      provider::MakeCodec(std::move(config), *std::move(key));
  if (!codec.ok()) return Annotate(codec.status(), absl::StrCat("model ", model.label()));
  m->codec = *std::move(codec);
  absl::StatusOr<http::Engine*> client = ClientFor(model);
  if (!client.ok()) return Annotate(client.status(), absl::StrCat("model ", model.label()));
  m->client = *client;
  auto pool = job->pools.find(model.pool());
  if (pool == job->pools.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model.label(), ": no pool named ", model.pool()));
  }
  m->pool = pool->second.get();
  return absl::OkStatus();
}

absl::StatusOr<http::Engine*> Worker::ClientFor(const v1::ModelSpec& model) {
  const std::string place = absl::StrCat(model.endpoint(), "\n", model.ca_file());
  auto it = clients_.find(place);
  if (it == clients_.end()) {
    // Only what was made is kept: others ask each client for its numbers and shut it down.
    HR_ASSIGN_OR_RETURN(std::unique_ptr<http::Engine> client, environment_->MakeClient(model));
    it = clients_.emplace(place, std::move(client)).first;
  }
  return it->second.get();
}

void Worker::OnGrant(v1::Grant grant) {
  const BatchId id(grant.batch_id());
  auto job = jobs_.find(grant.job_id());
  if (job == jobs_.end() || grant.model() >= job->second->models.size() || batches_.contains(id)) {
    HR_LOG(kWarning) << "a grant of batch " << id << " does not fit what this worker knows";
    // A batch that is held already will be answered; any other would be leased for ever.
    if (!batches_.contains(id)) outbox_.Add(GivenBack(grant));
    outbox_.Flush();
    WakeWriter();
    return;
  }
  ModelRuntime* model = job->second->models[grant.model()].get();
  model->flow.granted += grant.items_size();
  model->flow.held += grant.items_size();
  HeldBatch::Hooks hooks;
  hooks.worker = options_.id;
  hooks.budget = &budget_;
  hooks.outbox = &outbox_;
  hooks.context = this;
  hooks.on_item_finished = [](void* self, ModelRuntime* m) {
    static_cast<Worker*>(self)->OnItemFinished(m);
  };
  auto batch = std::make_unique<HeldBatch>(reactor_, std::move(grant), job->second->spec, model,
                                           &gate_, &random_, kill_.token(), hooks);
  scope_.Spawn(RunBatch(this, batch.get()));
  batches_[id] = std::move(batch);
}

Task<void> Worker::RunBatch(Worker* self, HeldBatch* batch) {
  co_await batch->Run();
  self->outbox_.Add(batch->Done());
  self->outbox_.Flush();
  self->WakeWriter();
  self->batches_.erase(batch->id());
}

void Worker::OnItemFinished(ModelRuntime* model) {
  --model->flow.held;
  ++model->flow.finished;
  ++finished_items_;
  if (outbox_.over_budget()) budget_.Reset();
  if (outbox_.has_open() && !flush_timer_.armed()) {
    reactor_->Arm(
        &flush_timer_, reactor_->Now() + options_.flush_interval,
        [](void* self) {
          auto* worker = static_cast<Worker*>(self);
          worker->outbox_.Flush();
          worker->WakeWriter();
        },
        this);
  }
  if (outbox_.has_unsent()) WakeWriter();
  UpdateWant(*jobs_[model->job_id], model);
}

void Worker::OnCancel(const v1::Cancel& cancel) {
  auto it = batches_.find(BatchId(cancel.batch_id()));
  if (it == batches_.end() || it->second->epoch() != Epoch(cancel.epoch())) return;
  it->second->Cancel(cancel);
}

void Worker::OnAccountStop(void* context, ModelRuntime* model) {
  auto* self = static_cast<Worker*>(context);
  Job* job = self->jobs_[model->job_id].get();
  const std::string account = AccountOf(job->spec.models(static_cast<int>(model->model)));
  for (const std::unique_ptr<ModelRuntime>& other : job->models) {
    if (AccountOf(job->spec.models(static_cast<int>(other->model))) != account) continue;
    if (other->stopped.error_class == ErrorClass::kNone) other->stopped = model->stopped;
    other->drain.RequestStop({StopCode::kAccountStop, model->stopped.message});
  }
}

int64_t Worker::TargetItems(const Job& job, const ModelRuntime& model) const {
  if (drain_.stopped()) return 0;
  const int64_t gate = gate_.permits().capacity();
  if (model.flow.beats < kBeatsToTrust) {
    // Its share of the gate by weight and half as much again, and always enough for its line.
    double weights = 0;
    for (const std::unique_ptr<ModelRuntime>& other : job.models) weights += other->weight;
    const auto share = static_cast<int64_t>(
        std::ceil(static_cast<double>(gate) * model.weight / std::max(weights, model.weight)));
    return share + std::max(share / 2, model.starts.capacity());
  }
  // What is under way, however long it takes, and behind it what starts within about a second. Half
  // of what is under way lets a model grow into a gate that others have left.
  const int64_t busy = model.on_the_wire + model.backing_off;
  const auto rate = static_cast<int64_t>(model.flow.finish_rate);
  const int64_t waiting =
      std::clamp(std::max(rate, busy / 2), std::min(kMinWaiting, gate), kMaxWaiting);
  return std::min(busy, gate) + waiting;
}

void Worker::UpdateWant(const Job& job, ModelRuntime* model) {
  if (session_ == nullptr) return;
  ItemFlow& flow = model->flow;
  const int64_t target = TargetItems(job, *model);
  const int64_t total = flow.granted + std::max<int64_t>(target - flow.held, 0);
  // Small steps are gathered, unless the worker is about to run dry.
  const int64_t step = std::max<int64_t>(1, target / 8);
  if (total < flow.wanted + step && flow.held > target / 4) return;
  if (total <= flow.wanted) return;
  flow.wanted = total;
  session_->want_dirty = true;
  WakeWriter();
}

void Worker::UpdateWants() {
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) UpdateWant(*job, model.get());
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
    for (const auto& [id, job] : jobs_) {
      for (const std::unique_ptr<ModelRuntime>& model : job->models) {
        ItemFlow& flow = model->flow;
        const double rate =
            static_cast<double>(std::exchange(flow.finished, 0)) / absl::ToDoubleSeconds(interval);
        flow.finish_rate = flow.beats++ == 0 ? rate : 0.8 * flow.finish_rate + 0.2 * rate;
      }
    }
    session->beat = MakeBeat();
    UpdateWants();
    WakeWriter();
  }
}

v1::Beat Worker::MakeBeat() const {
  v1::Beat beat;
  for (const auto& [id, batch] : batches_) *beat.add_held() = batch->ToHeld();
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
    for (const auto& [name, pool] : job->pools) {
      const quota::PoolSnapshot snapshot = pool->Snapshot();
      v1::PoolState* state = beat.add_pools();
      state->set_pool(name);
      state->set_tokens_last_minute(
          snapshot.charged_last_minute[static_cast<size_t>(quota::Dimension::kTokens)]);
      state->set_requests_last_minute(
          snapshot.charged_last_minute[static_cast<size_t>(quota::Dimension::kRequests)]);
      state->set_waiting(pool->waiting());
      if (snapshot.limited_by.has_value()) {
        state->set_limited_by(std::string(quota::DimensionName(*snapshot.limited_by)));
      }
      const MonoTime now = reactor_->Now();
      if (snapshot.gate_until > now) {
        state->set_gated_ms(absl::ToInt64Milliseconds(snapshot.gate_until - now));
      }
    }
  }
  return beat;
}

Task<void> Worker::Shutdown() {
  kill_.RequestStop({StopCode::kShutdown, "the worker ends"});
  co_await scope_.Join();
  for (const auto& [id, job] : jobs_) {
    for (const auto& [name, pool] : job->pools) co_await pool->Shutdown();
  }
  for (const auto& [endpoint, client] : clients_) co_await client->Shutdown();
}

}  // namespace headrace
