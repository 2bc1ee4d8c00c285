#include "common/quota/redis_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/knee.h"
#include "common/quota/model.h"

namespace headrace::quota {
namespace {

// Limits of one call, so that the server is never held up for long: Redis runs one script at a
// time. Chosen.
constexpr size_t kMaxRequests = 256;
constexpr size_t kMaxAdopted = 500;
constexpr size_t kMaxSettled = 500;
constexpr size_t kMaxWords = 20'000;  // arguments of penalties and observations that wait
// Settlements that wait for the end of an outage; those beyond it expire in Redis by themselves.
constexpr size_t kMaxSettledWaiting = 200'000;

constexpr absl::Duration kRetry = absl::Milliseconds(100);

std::string Words(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration), " s");
}

}  // namespace

RedisPool::RedisPool(Reactor* reactor, PoolServer* server, SharedPool pool,
                     const RedisStoreOptions& options)
    : reactor_(reactor),
      server_(server),
      spec_(std::move(pool.spec)),
      options_(options),
      keys_(PoolKeys(pool.account, spec_.name)),
      channel_(PoolChannel(pool.account, spec_.name)),
      random_(options.seed),
      config_text_(PoolConfigText(spec_, options.learn)),
      must_configure_(true),
      beat_at_(reactor->Now()),
      wake_(reactor) {
  hint_.free_slots = std::numeric_limits<int64_t>::max();
  if (spec_.auto_in_flight) hint_.in_flight_limit = KneeFinder::kStart;
  for (const DimensionSpec& dimension : spec_.dimensions) {
    snapshot_.limits[static_cast<size_t>(dimension.dimension)] = dimension.limit;
    gauged_ = gauged_ || dimension.mechanics == Mechanics::kGauge;
    if (dimension.mechanics == Mechanics::kWindow || dimension.mechanics == Mechanics::kDay) {
      hint_.look_ahead = PoolModel::kLookAhead;
    }
  }
}

RedisPool::~RedisPool() { reactor_->Cancel(&timer_); }

MonoTime RedisPool::ToMono(int64_t server_us) const {
  return options_.test_clock ? MonoTime::FromNanos(server_us * 1000) : clock_.ToMono(server_us);
}

int64_t RedisPool::ToServerUs(MonoTime time) const {
  return options_.test_clock ? time.nanos() / 1000 : clock_.ToServerUs(time);
}

Task<absl::StatusOr<std::vector<ReserveAnswer>>> RedisPool::Reserve(
    std::vector<ReserveRequest> requests, absl::Duration horizon) {
  Asking asking(reactor_);
  asking.requests = std::move(requests);
  asking.horizon = horizon;
  if (local_ && !rejoining_) {
    AnswerLocally(&asking);
    co_return std::move(asking.answers);
  }
  asking_.push_back(&asking);
  wake_.Set();
  co_await asking.done.Wait(StopToken());
  co_return std::move(asking.answers);
}

Task<absl::Status> RedisPool::Reconfigure(PoolSpec spec) {
  const absl::Status valid = ValidatePool(spec);
  if (!valid.ok()) co_return valid;
  Asking asking(reactor_);
  spec_ = std::move(spec);
  config_text_ = PoolConfigText(spec_, options_.learn);
  must_configure_ = true;
  asking_.push_back(&asking);
  wake_.Set();
  co_await asking.done.Wait(StopToken());
  co_return asking.answers.status();
}

void RedisPool::Settle(ReservationId id, Settlement settlement, const Costs& actual) {
  if (local_ && local_->Settle(id, settlement, actual)) {
    UpdateLocalHint();
    Tell();
    return;
  }
  if (settled_.size() < kMaxSettledWaiting) settled_.push_back(Settled{id, settlement, actual});
  const bool was_held = held_.erase(id) > 0;
  if (local_) {
    UpdateLocalHint();
    return;
  }
  const bool soon = SlotsAreScarce() || settled_.size() >= kMaxSettled;
  TellBy(reactor_->Now() + (soon ? options_.gather : options_.tell_within));
  // Whoever asks now is asked about together with this settlement, which comes first.
  if (was_held && gauged_ && ++hint_.free_slots == 1) Tell();
}

void RedisPool::Penalize(const Penalty& penalty) {
  if (local_) {
    ++snapshot_.penalties;
    if (penalty.kind == Penalty::Kind::kStop) {
      snapshot_.closed = true;
      snapshot_.closed_text = penalty.text;
    }
    const absl::Duration wait = penalty.retry_after.value_or(absl::Seconds(1));
    const MonoTime until = reactor_->Now() + std::min(wait, PoolModel::kMaxGate);
    if (penalty.kind == Penalty::Kind::kCapacity || until <= hint_.gate_until) return;
    hint_.gate_until = until;
    ++hint_.epoch;
    Tell();
    return;
  }
  if (words_.size() < kMaxWords) words_.Penalize(penalty, {ToServerUs(penalty.sent_at)});
  TellBy(reactor_->Now());
}

void RedisPool::Observe(const Observation& observation) {
  if (local_ || words_.size() >= kMaxWords) return;
  words_.Observe(observation, {ToServerUs(observation.sent_at)});
  TellBy(reactor_->Now() + options_.tell_within);
}

void RedisPool::AddSample(const FlightSample& sample) {
  if (spec_.auto_in_flight) sample_ += sample;
}

void RedisPool::OnHint(absl::string_view text) {
  if (local_ || text == absl::StrCat(epoch_, " ", snapshot_.closed ? 1 : 0)) return;
  beat_at_ = reactor_->Now();
  wake_.Set();
}

PoolSnapshot RedisPool::Snapshot() const {
  PoolSnapshot snapshot = snapshot_;
  snapshot.in_flight_limit = hint_.in_flight_limit;
  snapshot.in_flight_why = in_flight_why_;
  snapshot.gate_until = hint_.gate_until;
  if (!silent_since_) return snapshot;
  const MonoTime now = reactor_->Now();
  snapshot.notice = absl::StrCat("Redis at ", server_->place(), " is not reached for ",
                                 Words(now - *silent_since_));
  if (!local_) {
    absl::StrAppend(&snapshot.notice, "; waiting for it");
  } else if (!answered_) {
    absl::StrAppend(&snapshot.notice, "; sending nothing until it is");
  } else if (now - local_since_ >= options_.local_for) {
    absl::StrAppend(&snapshot.notice, "; paused until it is");
  } else {
    absl::StrAppend(&snapshot.notice, "; running on a local share of ",
                    static_cast<int>(local_->share() * 100), "% of the limits");
    snapshot.in_flight = local_->open() + static_cast<int64_t>(held_.size());
  }
  if (!trouble_.empty()) absl::StrAppend(&snapshot.notice, " (", trouble_, ")");
  return snapshot;
}

// The timer only ever moves forward in time: an earlier plan stands.
void RedisPool::WakeAt(MonoTime when) {
  if (timer_.armed() && timer_.when() <= when) return;
  reactor_->Arm(&timer_, when, [](void* event) { static_cast<Event*>(event)->Set(); }, &wake_);
}

void RedisPool::TellBy(MonoTime when) {
  tell_at_ = std::min(tell_at_, when);
  WakeAt(tell_at_);
}

// A listener may settle what it had booked, which tells the listeners again; none leaves meanwhile.
void RedisPool::Tell() {
  PoolListener* listener = listeners_.front();
  while (listener != nullptr) {
    listener->OnPoolChanged();
    listener = listeners_.Next(listener);
  }
}

Task<void> RedisPool::Run(RedisPool* self, StopToken stop) {
  self->WakeAt(self->reactor_->Now());
  while (co_await self->wake_.Wait(stop)) {
    self->wake_.Reset();
    self->reactor_->Cancel(&self->timer_);
    while (self->HasWork() && !stop.stopped()) {
      const bool answered = co_await self->CallOnce(stop);
      if (answered) continue;
      if (self->local_) co_await self->RunLocal(stop);
      const absl::Duration pause = self->random_.Between(kRetry / 2, kRetry);
      const bool slept = co_await Sleep(self->reactor_, pause, stop);
      if (!slept) break;
    }
    if (self->words_.empty() && self->settled_.empty()) self->tell_at_ = MonoTime::Max();
    self->WakeAt(std::min(self->beat_at_, self->tell_at_));
  }
  const absl::Status stopped = absl::CancelledError("the pool's store was stopped");
  self->FailPending(stopped);
  while (!self->asking_.empty()) {
    self->asking_.front()->answers = stopped;
    self->asking_.front()->done.Set();
    self->asking_.pop_front();
  }
}

bool RedisPool::HasWork() const {
  if (pending_ || !asking_.empty() || !to_adopt_.empty() || must_configure_) return true;
  const MonoTime now = reactor_->Now();
  return now >= beat_at_ || (now >= tell_at_ && !(words_.empty() && settled_.empty()));
}

void RedisPool::MakeCall() {
  Pending pending;
  PoolCall& call = pending.call;
  call.worker = options_.worker;
  call.number = ++number_;
  call.channel = channel_;
  call.new_connection = server_->connects() != seen_connects_;
  // Who starts says what the pool is like: the last word counts.
  if (must_configure_) call.ops.Configure(config_text_);
  const bool rejoins = local_ && answered_;
  pending.beats = reactor_->Now() >= beat_at_ || call.new_connection || rejoins;
  if (pending.beats) {
    call.ops.Beat();
    beat_at_ = reactor_->Now() + options_.beat;
  }
  if (rejoins) {
    call.ops.ReportLocal(local_->Debt(reactor_->Now()), local_->Cells(reactor_->Now()));
    local_->EachOpen([&](ReservationId id, uint64_t job_id, uint32_t model, MonoTime at) {
      call.ops.Adopt(id, job_id, model, {ToServerUs(at)});
    });
  }
  for (size_t i = 0; i < kMaxAdopted && !to_adopt_.empty(); ++i) {
    const ReservationId id = to_adopt_.back();
    to_adopt_.pop_back();
    const auto held = held_.find(id);
    if (held == held_.end()) continue;
    call.ops.Adopt(id, held->second.job_id, held->second.model, {held->second.at_us});
  }
  call.ops.Append(std::exchange(words_, PoolOps()));
  while (!settled_.empty() && pending.settled.size() < kMaxSettled) {
    const Settled& settled = settled_.front();
    call.ops.Settle(settled.id, settled.settlement, settled.actual);
    pending.settled.push_back(settled);
    settled_.pop_front();
  }
  tell_at_ = settled_.empty() ? MonoTime::Max() : reactor_->Now();
  size_t requests = 0;
  while (!asking_.empty() && requests < kMaxRequests) {
    Asking* asking = asking_.front();
    // One horizon for each call.
    if (requests > 0 && asking->horizon != call.horizon) break;
    asking_.pop_front();
    pending.asking.push_back(asking);
    call.horizon = asking->horizon;
    for (const ReserveRequest& request : asking->requests) call.ops.Reserve(request);
    requests += asking->requests.size();
  }
  if (pending.beats) call.ops.Snapshot();
  pending.samples = pending.beats && spec_.auto_in_flight;
  if (pending.samples) call.ops.Sample(std::exchange(sample_, FlightSample()));
  pending_ = std::move(pending);
}

Task<bool> RedisPool::CallOnce(StopToken stop) {
  if (!pending_) MakeCall();
  const MonoTime sent = reactor_->Now();
  const int64_t connects = server_->connects();
  if (options_.test_clock) pending_->call.test_clock_us = absl::StrCat(sent.nanos() / 1000);
  ++stats_.calls;
  std::vector<std::string> args = PoolArgs(pending_->call);
  redis::CallOptions call_options{
      .deadline = sent + options_.call_timeout, .stop = stop, .idempotent = true};
  const redis::Outcome outcome =
      co_await server_->Eval(&PoolScript(), keys_, std::move(args), call_options);
  if (!outcome.ok()) {
    ++stats_.failed;
    if (!stop.stopped()) OnNoAnswer(outcome);
    co_return false;
  }
  if (pending_->call.new_connection) seen_connects_ = connects;
  OnAnswer(sent, outcome.reply);
  co_return true;
}

void RedisPool::OnAnswer(MonoTime sent, const redis::Reply& reply) {
  const absl::StatusOr<PoolReply> read = ReadPoolReply(reply);
  if (!read.ok()) {
    HR_LOG(kError) << "pool " << spec_.name << ": " << read.status();
    FailPending(read.status());
    return;
  }
  silent_since_.reset();
  trouble_.clear();
  if (read->unknown_pool) {
    // Nobody has described it, or it was forgotten: the same call again, with our description.
    PoolOps described;
    described.Configure(config_text_);
    described.Append(std::exchange(pending_->call.ops, PoolOps()));
    pending_->call.ops = std::move(described);
    return;
  }
  must_configure_ = false;
  clock_.Note(sent, reactor_->Now(), read->now_us);
  OnReply(*read);
}

void RedisPool::OnReply(const PoolReply& reply) {
  const PoolHint before = hint_;
  const bool was_closed = snapshot_.closed;
  const bool forgotten = answered_ && reply.incarnation != incarnation_;
  const bool buried = answered_ && !local_ && pending_->beats && !reply.worker_known;
  if (forgotten || buried || (answered_ && reply.epoch != epoch_)) ++hint_.epoch;
  incarnation_ = reply.incarnation;
  epoch_ = reply.epoch;
  hint_.gate_until = ToMono(reply.gate_us);
  hint_.free_slots = reply.slots < 0 ? std::numeric_limits<int64_t>::max()
                                     : std::max<int64_t>(0, reply.slots - reply.open);
  hint_.look_ahead = reply.packed ? PoolModel::kLookAhead : 1;
  gauged_ = reply.slots >= 0;
  slots_ = reply.slots;
  hint_.in_flight_limit = spec_.auto_in_flight ? std::max<int64_t>(0, reply.slots) : 0;
  snapshot_.closed = reply.closed;
  snapshot_.in_flight = reply.open;
  if (pending_->beats) workers_ = std::max(reply.workers, options_.least_workers);
  if (forgotten) {
    for (const auto& [id, held] : held_) to_adopt_.push_back(id);
  }
  if (local_) Rejoin();
  answered_ = true;
  AnswerAll(reply);
  const bool reopened = was_closed && !snapshot_.closed;
  const bool has_slots = before.free_slots == 0 && hint_.free_slots > 0;
  if (hint_.epoch != before.epoch || reopened || has_slots) Tell();
}

void RedisPool::AnswerAll(const PoolReply& reply) {
  Pending pending = *std::exchange(pending_, std::nullopt);
  size_t next = 0;
  absl::Status wrong;
  for (Asking* asking : pending.asking) {
    std::vector<ReserveAnswer> answers;
    for (const ReserveRequest& request : asking->requests) {
      if (next >= reply.answers.size()) wrong = absl::InternalError("the pool answered too little");
      if (!wrong.ok()) break;
      absl::StatusOr<ReadAnswer> read = ReadReserveAnswer(*reply.answers[next++], spec_.name);
      if (!read.ok()) {
        wrong = read.status();
        break;
      }
      read->answer.at = ToMono(read->at_us);
      if (read->answer.kind == ReserveAnswer::Kind::kSendAt) {
        held_[request.id] = Held{request.job_id, request.model, read->at_us};
        ++stats_.reserved;
      }
      answers.push_back(std::move(read->answer));
    }
    if (wrong.ok()) {
      asking->answers = std::move(answers);
    } else {
      asking->answers = wrong;
    }
    asking->done.Set();
  }
  if (!pending.beats || next >= reply.answers.size()) return;
  absl::StatusOr<ReadSnapshot> read = ReadPoolSnapshot(*reply.answers[next++], reply.now_us);
  if (read.ok()) snapshot_ = std::move(read->snapshot);
  if (pending.samples && next < reply.answers.size()) {
    OnSampled(*reply.answers[next], pending.call.number);
  }
}

void RedisPool::OnSampled(const redis::Reply& reply, int64_t call_number) {
  absl::StatusOr<KneeAnswer> read = ReadKneeAnswer(reply);
  if (!read.ok()) {
    HR_LOG(kError) << "pool " << spec_.name << ": " << read.status();
    return;
  }
  if (!read->turn) {
    in_flight_why_ = std::move(read->why);
    return;
  }
  KneeTurn turn = *std::move(read->turn);
  turn.token = absl::StrCat(options_.worker, " ", call_number);
  int64_t most = KneeFinder::kMost;
  for (const DimensionSpec& dimension : spec_.dimensions) {
    if (dimension.mechanics == Mechanics::kGauge) most = dimension.limit;
  }
  std::optional<KneeFinder> finder = KneeFinder::Load(turn.state, most);
  if (!finder) finder.emplace(most);
  const std::string before = finder->why();
  finder->Step(turn.now_us, turn.sample, turn.workers);
  in_flight_why_ = finder->why();
  if (in_flight_why_ != before) {
    HR_LOG(kInfo) << "pool " << spec_.name << ": " << finder->base()
                  << " calls in flight: " << in_flight_why_;
  }
  words_.Step(turn, *finder);
  TellBy(reactor_->Now());
}

// Redis is reached again. What was booked here is told, so nothing is taken back.
void RedisPool::Rejoin() {
  if (answered_) {
    HR_LOG(kInfo) << "pool " << spec_.name << ": Redis at " << server_->place()
                  << " is reached again";
    local_->EachOpen([&](ReservationId id, uint64_t job_id, uint32_t model, MonoTime at) {
      held_[id] = Held{job_id, model, ToServerUs(at)};
    });
  }
  local_.reset();
}

void RedisPool::FailPending(const absl::Status& status) {
  if (!pending_) return;
  Pending pending = *std::exchange(pending_, std::nullopt);
  for (Asking* asking : pending.asking) {
    asking->answers = status;
    asking->done.Set();
  }
}

}  // namespace headrace::quota
