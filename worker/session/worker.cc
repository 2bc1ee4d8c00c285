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
#include "common/quota/knee.h"
#include "worker/provider/codec.h"
#include "worker/session/pool_description.h"
#include "worker/session/worker_state.h"

namespace headrace {
namespace {

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
// What a worker takes of a limited pool, before it knows how fast that is. Chosen.
constexpr double kFirstSeconds = 4;
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

// Whether calls that use `name` may be refused for their rate.
bool IsRateLimited(const v1::JobSpec& job, absl::string_view name) {
  for (const v1::PoolSpec& pool : job.pools()) {
    if (pool.name() != name) continue;
    return pool.requests_per_minute() > 0 || pool.tokens_per_minute() > 0 ||
           pool.input_tokens_per_minute() > 0 || pool.output_tokens_per_minute() > 0 ||
           pool.requests_per_day() > 0 || pool.tokens_per_day() > 0;
  }
  return false;
}

// About as many calls a second as the limits per minute of pool `name` let go; 0: they do not say.
double PaceOf(const v1::JobSpec& job, absl::string_view name) {
  constexpr double kTokensOfACall = 200;  // a short one; chosen
  double per_minute = std::numeric_limits<double>::infinity();
  for (const v1::PoolSpec& pool : job.pools()) {
    if (pool.name() != name) continue;
    if (pool.requests_per_minute() > 0) {
      per_minute = static_cast<double>(pool.requests_per_minute());
    }
    for (const int64_t tokens : {pool.tokens_per_minute(), pool.input_tokens_per_minute(),
                                 pool.output_tokens_per_minute()}) {
      if (tokens > 0)
        per_minute = std::min(per_minute, static_cast<double>(tokens) / kTokensOfACall);
    }
  }
  return std::isfinite(per_minute) ? per_minute / 60 : 0;
}

std::string AccountOf(const v1::ModelSpec& model) {
  return absl::StrCat(model.endpoint(), "\n", model.api_key().env(), "\n", model.api_key().file());
}

}  // namespace

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
      batch_ended_(reactor),
      scope_(reactor, StopToken()) {
  budget_.Set();
}

Worker::~Worker() { reactor_->Cancel(&flush_timer_); }

WorkerStats Worker::stats() const {
  WorkerStats stats;
  stats.in_flight = gate_.on_the_wire;
  stats.peak_in_flight = gate_.peak_on_the_wire;
  stats.finished = finished_items_;
  stats.batches = batches_.size();
  stats.unacked_bytes = outbox_.unacked_bytes();
  stats.permits_in_use = gate_.permits().in_use();
  for (const auto& [id, job] : jobs_) {
    for (const std::unique_ptr<ModelRuntime>& model : job->models) {
      stats.held_items += model->flow.held;
      stats.permits_in_use += model->starts.in_use();
    }
  }
  return stats;
}

void Worker::OnJob(const v1::JobSpec& spec) {
  auto known = jobs_.find(spec.job_id());
  if (known != jobs_.end()) {
    // A job that is on its way out here and goes on there comes again with a later beat.
    return;
  }
  auto job = std::make_unique<Job>();
  job->spec = spec;
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> store = environment_->MakePools(spec);
  const uint64_t ids = random_();
  if (store.ok()) {
    job->store = *std::move(store);
    for (const v1::PoolSpec& pool : spec.pools()) {
      job->pools[pool.name()] =
          std::make_unique<quota::Admission>(reactor_, job->store.get(), pool.name(), ids);
    }
  }
  Job* const added = job.get();
  jobs_[spec.job_id()] = std::move(job);
  SizeGate();
  const std::vector<int64_t> lines = LineLengths(gate_.permits().capacity(), spec);
  for (int i = 0; i < spec.models_size(); ++i) {
    added->models.push_back(
        std::make_unique<ModelRuntime>(reactor_, lines[static_cast<size_t>(i)], drain_.token()));
    ModelRuntime* model = added->models.back().get();
    model->job_id = spec.job_id();
    model->quota_job_id = QuotaJobId(spec);
    model->model = static_cast<uint32_t>(i);
    const absl::Status status =
        store.ok() ? SetUpModel(added, static_cast<uint32_t>(i), model) : store.status();
    if (status.ok()) continue;
    // The model exists, refuses to start anything, and says why.
    const bool key = absl::IsNotFound(status) || absl::IsPermissionDenied(status);
    model->stopped = {key ? ErrorClass::kAuth : ErrorClass::kConfig, std::string(status.message())};
    model->drain.RequestStop({StopCode::kConfigStop, std::string(status.message())});
  }
  added->shared_pools = environment_->PoolsOfSharer(spec, 1).empty();
  // Until the coordinator has said how many: this worker's part of the first number.
  if (store.ok() && !added->shared_pools) {
    for (const v1::PoolSpec& pool : spec.pools()) {
      added->store->SetInFlight(pool.name(), quota::KneeFinder::kStart / sharers_);
    }
  }
  if (sharers_ > 1) scope_.Spawn(SharePools(this, spec.job_id()));
  UpdateWants();
}

void Worker::OnSharers(const v1::Sharers& sharers) {
  const int64_t workers = std::max<int64_t>(sharers.workers(), 1);
  if (workers == sharers_) return;
  sharers_ = workers;
  for (const auto& [id, job] : jobs_) scope_.Spawn(SharePools(this, id));
}

void Worker::OnInFlightLimit(const v1::InFlightLimit& limit) {
  auto it = jobs_.find(limit.job_id());
  if (it == jobs_.end() || it->second->store == nullptr) return;
  it->second->store->SetInFlight(limit.pool(), limit.limit());
  UpdateWants();
}

Task<void> Worker::SharePools(Worker* self, uint64_t job_id) {
  auto it = self->jobs_.find(job_id);
  if (it == self->jobs_.end() || it->second->store == nullptr) co_return;
  // In memory, so nothing here waits, and the job stays.
  quota::PoolStore* const store = it->second->store.get();
  for (quota::PoolSpec& spec :
       self->environment_->PoolsOfSharer(it->second->spec, self->sharers_)) {
    const absl::Status status = co_await store->Reconfigure(std::move(spec));
    if (!status.ok()) HR_LOG(kError) << "a pool keeps its limits: " << status.message();
  }
}

void Worker::SizeGate() {
  // A job may ask for less than the worker could do; of several jobs the largest wish counts.
  int64_t wished = 0;
  for (const auto& [id, job] : jobs_) {
    const auto wish = static_cast<int64_t>(job->spec.max_in_flight());
    wished = std::max(wished, wish > 0 ? wish : options_.max_in_flight);
  }
  if (wished > 0) gate_.permits().SetCapacity(std::min(options_.max_in_flight, wished));
}

void Worker::OnJobDone(uint64_t job_id) {
  auto it = jobs_.find(job_id);
  if (it == jobs_.end() || it->second->retiring) return;
  it->second->retiring = true;
  for (const auto& [key, batch] : batches_) {
    if (key.first == job_id) batch->CancelAll({StopCode::kOwnerDone, "the job is over"});
  }
  scope_.Spawn(RetireJob(this, job_id));
}

Task<void> Worker::RetireJob(Worker* self, uint64_t job_id) {
  auto holds = [self, job_id] {
    auto it = self->batches_.lower_bound({job_id, BatchId(0)});
    return it != self->batches_.end() && it->first.first == job_id;
  };
  while (holds()) {
    self->batch_ended_.Reset();
    co_await self->batch_ended_.Wait(StopToken());
  }
  std::unique_ptr<Job> job = std::move(self->jobs_[job_id]);
  self->jobs_.erase(job_id);
  self->seen_.erase(self->seen_.lower_bound({{job_id, BatchId(0)}, 0}),
                    self->seen_.lower_bound({{job_id + 1, BatchId(0)}, 0}));
  self->SizeGate();
  for (const auto& [name, pool] : job->pools) co_await pool->Shutdown();
  if (job->store != nullptr) co_await job->store->Stop();
}

absl::Status Worker::SetUpModel(Job* job, uint32_t index, ModelRuntime* m) {
  const v1::JobSpec& spec = job->spec;
  const v1::ModelSpec& model = spec.models(static_cast<int>(index));
  m->label = model.label();
  m->weight = model.weight();
  m->job_weight = spec.job_weight() > 0 ? spec.job_weight() : 1;
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
  m->hedge = spec.hedge();
  m->charging = ChargeRulesOf(spec, model);
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
  m->rates_limited = IsRateLimited(spec, model.pool());
  m->flow.pace = PaceOf(spec, model.pool());
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

void Worker::OnGrant(v1::Grant grant, MonoTime lease_end) {
  const BatchKey key(grant.job_id(), BatchId(grant.batch_id()));
  const bool fresh = seen_.insert({key, grant.epoch()}).second;
  if (!fresh) return;  // it came twice
  auto found = jobs_.find(grant.job_id());
  if (found == jobs_.end() || found->second->retiring ||
      grant.model() >= found->second->models.size()) {
    // A grant of a job that this worker does not know (yet): its lease must not wait to expire.
    HR_LOG(kWarning) << "batch " << key.second << " does not fit what this worker knows";
    outbox_.Add(GivenBack(grant));
    outbox_.Flush();
    WakeWriter();
    return;
  }
  Job* job = found->second.get();
  ModelRuntime* model = job->models[grant.model()].get();
  model->flow.granted += grant.items_size();
  auto old = batches_.find(key);
  if (old != batches_.end()) {
    // Others had it meanwhile and lost it too, or this worker was away for long.
    if (Epoch(grant.epoch()) > old->second->epoch()) old->second->TakeUp(grant, lease_end);
    return;
  }
  model->flow.held += grant.items_size();
  HeldBatch::Hooks hooks;
  hooks.worker = options_.id;
  hooks.budget = &budget_;
  hooks.outbox = &outbox_;
  hooks.context = this;
  hooks.on_item_finished = [](void* self, ModelRuntime* m) {
    static_cast<Worker*>(self)->OnItemFinished(m);
  };
  auto batch = std::make_unique<HeldBatch>(reactor_, std::move(grant), lease_end, job->spec, model,
                                           &gate_, &random_, kill_.token(), hooks);
  HeldBatch* const held = batch.get();
  batches_[key] = std::move(batch);
  scope_.Spawn(RunBatch(this, held));
}

Task<void> Worker::RunBatch(Worker* self, HeldBatch* batch) {
  co_await batch->Run();
  self->outbox_.Add(batch->Done());
  self->outbox_.Flush();
  self->WakeWriter();
  self->batches_.erase({batch->job_id(), batch->id()});
  self->batch_ended_.Set();
}

void Worker::OnItemFinished(ModelRuntime* model) {
  --model->flow.held;
  ++model->flow.finished;
  ++finished_items_;
  if (outbox_.over_budget()) budget_.Reset();
  FlushSoon();
  if (outbox_.has_unsent()) WakeWriter();
  UpdateWant(*jobs_[model->job_id], model);
}

void Worker::FlushSoon() {
  if (!outbox_.has_open() || flush_timer_.armed()) return;
  reactor_->Arm(
      &flush_timer_, reactor_->Now() + options_.flush_interval,
      [](void* self) {
        auto* worker = static_cast<Worker*>(self);
        worker->outbox_.Flush();
        worker->WakeWriter();
      },
      this);
}

HeldBatch* Worker::FindBatch(uint64_t job_id, uint64_t batch_id, uint32_t epoch) {
  auto it = batches_.find({job_id, BatchId(batch_id)});
  if (it == batches_.end() || it->second->epoch() != Epoch(epoch)) return nullptr;
  return it->second.get();
}

void Worker::OnCancel(const v1::Cancel& cancel) {
  HeldBatch* batch = FindBatch(cancel.job_id(), cancel.batch_id(), cancel.epoch());
  if (batch != nullptr) batch->Cancel(cancel);
}

void Worker::OnRenew(const v1::Renew& renew, MonoTime lease_end) {
  for (const v1::HeldBatch& held : renew.held()) {
    HeldBatch* batch = FindBatch(held.job_id(), held.batch_id(), held.epoch());
    if (batch != nullptr) batch->Renew(lease_end);
  }
}

void Worker::OnGiveBack(const v1::GiveBack& give_back) {
  HeldBatch* batch = FindBatch(give_back.job_id(), give_back.batch_id(), give_back.epoch());
  if (batch == nullptr) return;  // its end is on its way
  v1::ReturnedItems returned = batch->GiveBack(give_back.items());
  batch->model()->flow.held -= returned.items_size();
  // Also when nothing could be given back, so that the coordinator may ask again.
  outbox_.Add(std::move(returned));
  outbox_.Flush();
  WakeWriter();
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
  if (drain_.stopped() || job.draining || job.retiring) return 0;
  const int64_t busy = model.on_the_wire + model.backing_off;
  int64_t gate = gate_.permits().capacity();
  const int64_t found = model.pool == nullptr ? 0 : model.pool->in_flight_limit();
  // The number may be twice as large a moment later.
  if (found > 0) gate = std::min(gate, 2 * found);
  if (model.flow.beats < kBeatsToTrust) {
    // Its share of the gate by weight and half as much again, and always enough for its line.
    double weights = 0;
    for (const std::unique_ptr<ModelRuntime>& other : job.models) weights += other->weight;
    const auto share = static_cast<int64_t>(
        std::ceil(static_cast<double>(gate) * model.weight / std::max(weights, model.weight)));
    const int64_t most = share + std::max(share / 2, model.starts.capacity());
    if (model.flow.pace <= 0) return most;
    // More than goes out soon would only wait here, and other workers would have nothing.
    const auto soon = static_cast<int64_t>(std::ceil(kFirstSeconds * model.flow.pace));
    return std::min(most, std::max(soon, busy) + busy + kMinWaiting);
  }
  // What is under way, however long it takes, and behind it what starts within about a second. Half
  // of what is under way lets a model grow into a gate that others have left.
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

Task<void> Worker::Shutdown() {
  kill_.RequestStop({StopCode::kShutdown, "the worker ends"});
  co_await scope_.Join();
  for (const auto& [id, job] : jobs_) {
    for (const auto& [name, pool] : job->pools) co_await pool->Shutdown();
    if (job->store != nullptr) co_await job->store->Stop();
  }
  for (const auto& [endpoint, client] : clients_) co_await client->Shutdown();
}

}  // namespace headrace
