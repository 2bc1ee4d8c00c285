#include "common/quota/admission.h"

#include <algorithm>
#include <coroutine>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/async/list.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/quota/costs.h"
#include "common/quota/model.h"
#include "common/quota/observations.h"
#include "common/quota/waiting_line.h"

namespace headrace::quota {
namespace {

// Wake-ups of booked sends are rounded up to this, so that a fast pool wakes the reactor once per
// step and not once per send. Chosen, not measured; far below any burst.
constexpr int64_t kWakeStepNanos = 1'000'000;
// An attempt that was late so often is sent late: a store or a reactor that is always slow must not
// keep it for ever.
constexpr int kMaxLate = 3;
constexpr int kMinBatch = 4;
constexpr int kMostDry = 3;  // doublings of an eighth of the horizon
// Questions to the store before everything else that is ready gets its turn.
constexpr int kMaxAsksInARow = 16;

MonoTime RoundUp(MonoTime time) {
  const int64_t nanos = time.nanos();
  return MonoTime::FromNanos((nanos + kWakeStepNanos - 1) / kWakeStepNanos * kWakeStepNanos);
}

}  // namespace

// States of an attempt that waits, and what moves it:
//
//   kQueued  --asked-->  kAsking  --kSendAt-->  kBooked  --its time-->  kAnswered
//      ^                    |  \--kNeverFits, kClosed, error-->  kAnswered
//      |                    |--kRetryAt--> kQueued (it never left its place in line)
//      `--gate set, or woken too late-- kBooked, kAnswered
//
// A stop leads from each of the first three to kAnswered; what was booked is given back.
class Admission::Impl : private PoolListener {
 public:
  Impl(Reactor* reactor, PoolStore* store, std::string pool, uint64_t id_seed,
       AdmissionOptions options)
      : reactor_(reactor),
        store_(store),
        pool_(std::move(pool)),
        next_id_(Random(id_seed)()),
        options_(options),
        random_(next_id_),
        meter_(reactor->Now()),
        wake_(reactor),
        scope_(reactor, StopToken()) {
    store_->Listen(pool_, this);
    epoch_ = store_->Hint(pool_).epoch;
  }
  ~Impl() override { reactor_->Cancel(&ask_timer_); }

  Task<Ticket> Admit(uint64_t job_id, uint32_t model, double weight, Costs costs, StopToken stop,
                     double job_weight, std::optional<StopToken> call);
  void Settle(const Ticket& ticket, Settlement settlement, const Costs& actual);
  void Penalize(const Penalty& penalty) { store_->Penalize(pool_, penalty); }
  void Observe(const Observation& observation) {
    const std::optional<Observation> told = observations_.Add(reactor_->Now(), observation);
    if (told) store_->Observe(pool_, *told);
  }
  Task<void> Shutdown();

  void BeginCall() { meter_.Begin(reactor_->Now(), starved()); }
  void EndCall(const FlightEnd& end) { meter_.End(reactor_->Now(), starved(), end); }
  FlightSample TakeSample() { return meter_.Take(reactor_->Now(), starved()); }

  int64_t waiting() const { return line_.size() + booked_count_; }
  int64_t rebooked() const { return rebooked_; }
  int64_t asked() const { return asked_; }
  PoolSnapshot Snapshot() const { return store_->Snapshot(pool_); }
  int64_t in_flight_limit() const { return store_->Hint(pool_).in_flight_limit; }

 private:
  class Suspension;

  // Where a rate is what attempts wait for, some are booked ahead.
  bool starved() const { return !line_.empty() && booked_count_ == 0; }

  ReservationId NextId() { return ReservationId(next_id_++); }
  int64_t PoolUs(const Costs& costs);

  // The answer without waiting, where the store has one.
  bool AnswerAtOnce(WaitingAttempt* attempt);
  void Served(const WaitingAttempt& attempt) {
    line_.Served(FlowKey{attempt.request.job_id, attempt.request.model},
                 PoolUs(attempt.request.costs));
  }
  void Queue(WaitingAttempt* attempt, bool again);
  void Book(WaitingAttempt* attempt, MonoTime at);
  void Answer(WaitingAttempt* attempt, Ticket::Kind kind, std::string text);
  void GiveBack(WaitingAttempt* attempt);
  // True if an answered attempt may be sent now; otherwise it stands in line again.
  bool StillGood(WaitingAttempt* attempt);
  // A stop of `stop`, whose reason may leave a booked attempt alone.
  void OnStop(WaitingAttempt* attempt);
  void End(WaitingAttempt* attempt);
  static void OnTime(void* attempt);

  void OnPoolChanged() override;
  void RecallBooked();
  void AskAt(MonoTime when);
  Task<void> Dispatch();
  Task<void> AskOnce();
  absl::Duration ExtraWait();
  std::vector<ReserveRequest> MakeQuestion();
  bool HasFreeSlots() const;
  void HandleAnswer(WaitingAttempt* attempt, const ReserveAnswer& answer, MonoTime* retry_at);

  Reactor* const reactor_;
  PoolStore* const store_;
  const std::string pool_;
  uint64_t next_id_;
  const AdmissionOptions options_;
  Random random_;  // of waits between workers; seeded by where the ids begin

  WaitingLine line_;
  // Of the question in flight: nullptr, where an attempt was stopped meanwhile, and the ids.
  std::vector<WaitingAttempt*> asking_;
  std::vector<ReservationId> asking_ids_;
  List<WaitingAttempt> booked_;
  int64_t booked_count_ = 0;
  uint64_t epoch_ = 0;
  std::optional<Costs> limits_;
  Observations observations_;
  FlightMeter meter_;

  int dry_ = 0;                     // questions in a row that booked nothing
  int batch_ = options_.max_batch;  // follows how many are booked at a time

  int64_t rebooked_ = 0;
  int64_t asked_ = 0;

  // The dispatcher, started by the first attempt that must wait.
  bool dispatching_ = false;
  MonoTime ask_at_;
  Timer ask_timer_;
  Event wake_;
  TaskScope scope_;
};

// co_await: suspends until the attempt is answered.
class Admission::Impl::Suspension {
 public:
  explicit Suspension(WaitingAttempt* attempt) : attempt_(attempt) {}
  bool await_ready() const { return attempt_->state == WaitingAttempt::State::kAnswered; }
  void await_suspend(std::coroutine_handle<> handle) { attempt_->handle = handle; }
  void await_resume() const {}

 private:
  WaitingAttempt* const attempt_;
};

Task<Ticket> Admission::Impl::Admit(uint64_t job_id, uint32_t model, double weight, Costs costs,
                                    StopToken stop, double job_weight,
                                    std::optional<StopToken> call) {
  Ticket ticket;
  ticket.job_id = job_id;
  ticket.model = model;
  if (stop.stopped()) co_return ticket;
  const MonoTime asked = reactor_->Now();
  WaitingAttempt attempt(this);
  attempt.stop = stop;
  attempt.outlasts_deadlines = call.has_value();
  attempt.request = ReserveRequest{NextId(), job_id, model, weight, job_weight, costs};
  if (!line_.empty() || !AnswerAtOnce(&attempt)) Queue(&attempt, /*again=*/false);
  if (attempt.state != WaitingAttempt::State::kAnswered) {
    attempt.on_stop.Arm(
        stop,
        [](void* context) {
          auto* stopped = static_cast<WaitingAttempt*>(context);
          static_cast<Impl*>(stopped->owner)->OnStop(stopped);
        },
        &attempt);
    if (call.has_value()) {
      attempt.on_call_stop.Arm(
          *call,
          [](void* context) {
            auto* stopped = static_cast<WaitingAttempt*>(context);
            static_cast<Impl*>(stopped->owner)->End(stopped);
          },
          &attempt);
    }
    do {
      co_await Suspension(&attempt);
    } while (!StillGood(&attempt));
    ticket.waited = reactor_->Now() - asked;
  }
  ticket.kind = attempt.kind;
  ticket.id = attempt.request.id;
  ticket.reserved = costs;
  ticket.expected = attempt.expected;
  ticket.text = std::move(attempt.text);
  co_return ticket;
}

bool Admission::Impl::AnswerAtOnce(WaitingAttempt* attempt) {
  std::optional<ReserveAnswer> answer =
      store_->ReserveNow(pool_, attempt->request, options_.horizon);
  if (!answer) return false;
  ++asked_;
  attempt->expected = answer->used;
  switch (answer->kind) {
    case ReserveAnswer::Kind::kSendAt:
      if (line_.fair()) Served(*attempt);
      if (answer->at <= reactor_->Now()) {
        attempt->kind = Ticket::Kind::kAdmitted;
        attempt->state = WaitingAttempt::State::kAnswered;
      } else {
        Book(attempt, answer->at);
      }
      return true;
    case ReserveAnswer::Kind::kRetryAt:
      AskAt(answer->at);
      return false;
    case ReserveAnswer::Kind::kNeverFits:
      Answer(attempt, Ticket::Kind::kNeverFits, std::move(answer->text));
      return true;
    case ReserveAnswer::Kind::kClosed:
      Answer(attempt, Ticket::Kind::kClosed, std::move(answer->text));
      return true;
  }
  return false;
}

// What was booked for `attempt`; if it is booked anew, then under another id.
void Admission::Impl::GiveBack(WaitingAttempt* attempt) {
  const ReserveRequest& request = attempt->request;
  line_.Correct(FlowKey{request.job_id, request.model}, -PoolUs(request.costs));
  const ReservationId id = std::exchange(attempt->request.id, NextId());
  store_->Settle(pool_, id, Settlement::kNotSent, Costs{});
}

// An attempt that is not booked: its question, or its answer, is still to come.
void Admission::Impl::Queue(WaitingAttempt* attempt, bool again) {
  if (line_.empty() && ask_at_ <= reactor_->Now()) AskAt(reactor_->Now());
  line_.Add(attempt, again);
  attempt->state = WaitingAttempt::State::kQueued;
  if (dispatching_) return;
  dispatching_ = scope_.Spawn(Dispatch());
  if (!dispatching_) {
    line_.Remove(attempt);
    Answer(attempt, Ticket::Kind::kStopped, "the admission has been shut down");
  }
}

void Admission::Impl::Book(WaitingAttempt* attempt, MonoTime at) {
  attempt->at = at;
  attempt->epoch = epoch_;
  attempt->state = WaitingAttempt::State::kBooked;
  booked_.PushBack(attempt);
  ++booked_count_;
  reactor_->Arm(&attempt->timer, at <= reactor_->Now() ? at : RoundUp(at), &Impl::OnTime, attempt);
}

void Admission::Impl::OnTime(void* context) {
  auto* attempt = static_cast<WaitingAttempt*>(context);
  auto* self = static_cast<Impl*>(attempt->owner);
  attempt->Unlink();
  --self->booked_count_;
  self->Answer(attempt, Ticket::Kind::kAdmitted, {});
}

// A stop that comes later in this turn finds the attempt answered: the first wins.
void Admission::Impl::Answer(WaitingAttempt* attempt, Ticket::Kind kind, std::string text) {
  attempt->kind = kind;
  attempt->text = std::move(text);
  attempt->state = WaitingAttempt::State::kAnswered;
  if (attempt->handle) reactor_->Schedule(std::exchange(attempt->handle, nullptr));
}

void Admission::Impl::OnStop(WaitingAttempt* attempt) {
  const bool goes = attempt->state == WaitingAttempt::State::kBooked &&
                    attempt->outlasts_deadlines &&
                    attempt->stop.reason().code == StopCode::kDeadline;
  if (!goes) End(attempt);
}

void Admission::Impl::End(WaitingAttempt* attempt) {
  switch (attempt->state) {
    case WaitingAttempt::State::kAnswered:
      return;
    case WaitingAttempt::State::kAsking:
      asking_[attempt->asking_index] = nullptr;
      line_.Remove(attempt);
      break;
    case WaitingAttempt::State::kQueued:
      line_.Remove(attempt);
      break;
    case WaitingAttempt::State::kBooked:
      reactor_->Cancel(&attempt->timer);
      attempt->Unlink();
      --booked_count_;
      GiveBack(attempt);
      break;
  }
  Answer(attempt, Ticket::Kind::kStopped, {});
  // The plan was made for those who have left; who comes next asks for itself.
  if (line_.empty()) ask_at_ = MonoTime();
}

bool Admission::Impl::StillGood(WaitingAttempt* attempt) {
  if (attempt->kind != Ticket::Kind::kAdmitted) return true;
  const bool late = attempt->late_count < kMaxLate && reactor_->Now() - attempt->at > options_.late;
  if (!late && attempt->epoch == epoch_) return true;
  if (late) ++attempt->late_count;
  GiveBack(attempt);
  ++rebooked_;
  Queue(attempt, /*again=*/true);
  // The callback has been there all along, but it left an answered attempt alone.
  if (attempt->stop.stopped()) End(attempt);
  return false;
}

void Admission::Impl::OnPoolChanged() {
  const PoolHint hint = store_->Hint(pool_);
  if (hint.epoch != epoch_) {
    epoch_ = hint.epoch;
    limits_.reset();  // they may be what has changed
    RecallBooked();
  }
  if (!line_.empty()) AskAt(std::max(hint.gate_until, reactor_->Now()));
}

void Admission::Impl::RecallBooked() {
  while (WaitingAttempt* attempt = booked_.PopFront()) {
    reactor_->Cancel(&attempt->timer);
    --booked_count_;
    ++rebooked_;
    GiveBack(attempt);
    Queue(attempt, /*again=*/true);
    // It was left alone only as long as it was booked.
    if (attempt->stop.stopped()) End(attempt);
  }
}

// Replaces an earlier plan to ask.
void Admission::Impl::AskAt(MonoTime when) {
  ask_at_ = when;
  if (when <= reactor_->Now()) {
    reactor_->Cancel(&ask_timer_);
    wake_.Set();
    return;
  }
  reactor_->Arm(&ask_timer_, when, [](void* event) { static_cast<Event*>(event)->Set(); }, &wake_);
}

Task<void> Admission::Impl::Dispatch() {
  StopToken stop = scope_.token();
  while (co_await wake_.Wait(stop)) {
    wake_.Reset();
    for (int asks = 1; !line_.empty() && ask_at_ <= reactor_->Now(); ++asks) {
      co_await AskOnce();
      if (stop.stopped()) break;
      if (asks % kMaxAsksInARow == 0) co_await Yield(reactor_);
    }
  }
  while (WaitingAttempt* attempt = line_.First()) {
    line_.Remove(attempt);
    Answer(attempt, Ticket::Kind::kStopped, "the admission has been shut down");
  }
  dispatching_ = false;
}

// One question with what stands first in line; plans when to ask next.
Task<void> Admission::Impl::AskOnce() {
  std::vector<ReserveRequest> requests = MakeQuestion();
  ask_at_ = MonoTime();
  const uint64_t epoch = epoch_;
  absl::StatusOr<std::vector<ReserveAnswer>> answers =
      co_await store_->Reserve(pool_, std::move(requests), options_.horizon);
  if (answers.ok() && answers->size() != asking_.size()) {
    answers = absl::InternalError("the pool store answered another question");
  }
  MonoTime retry_at = MonoTime::Max();
  int booked = 0;
  for (size_t i = 0; i < asking_.size(); ++i) {
    WaitingAttempt* attempt = asking_[i];
    if (attempt == nullptr) {
      store_->Settle(pool_, asking_ids_[i], Settlement::kNotSent, Costs{});
    } else if (answers.ok()) {
      HandleAnswer(attempt, (*answers)[i], &retry_at);
      booked += (*answers)[i].kind == ReserveAnswer::Kind::kSendAt ? 1 : 0;
    } else {
      line_.Remove(attempt);
      Answer(attempt, Ticket::Kind::kError, std::string(answers.status().message()));
    }
  }
  asking_.clear();
  const bool refused = retry_at != MonoTime::Max();
  const int least = static_cast<int>(
      std::clamp<int64_t>(store_->Hint(pool_).look_ahead, kMinBatch, options_.max_batch));
  batch_ = refused ? std::max(least, 2 * booked) : std::min(options_.max_batch, 2 * batch_);
  if (epoch != epoch_) {
    // A gate was set during the question, perhaps before what it booked.
    RecallBooked();
    OnPoolChanged();
  } else if (refused && ask_at_ == MonoTime() && !(booked > 0 && HasFreeSlots())) {
    dry_ = booked > 0 || store_->Hint(pool_).gate_until >= reactor_->Now() ? 0 : dry_ + 1;
    AskAt(retry_at + ExtraWait());
  }
}

// Where many workers ask, what becomes free goes to the first, and the others have asked for
// nothing: who got nothing asks less often, and not at the same time as the others. Everything is
// booked up to the horizon then, so nothing idles for it.
absl::Duration Admission::Impl::ExtraWait() {
  if (dry_ == 0) return absl::ZeroDuration();
  const absl::Duration most = options_.horizon / 8 * (1 << std::min(dry_, kMostDry));
  return random_.Between(most / 2, most);
}

// Of a gauge. Then a refusal was for the sake of another flow, which may fill them at once.
bool Admission::Impl::HasFreeSlots() const {
  const int64_t free_slots = store_->Hint(pool_).free_slots;
  return free_slots > 0 && free_slots < PoolModel::kMaxOpen / 2;
}

std::vector<ReserveRequest> Admission::Impl::MakeQuestion() {
  const int64_t free_slots = std::max<int64_t>(1, store_->Hint(pool_).free_slots);
  const int64_t count = std::min<int64_t>({free_slots, batch_, options_.max_batch});
  line_.PickBatch(static_cast<size_t>(count), &asking_,
                  [this](const Costs& costs) { return PoolUs(costs); });
  std::vector<ReserveRequest> requests;
  requests.reserve(asking_.size());
  asking_ids_.clear();
  for (size_t i = 0; i < asking_.size(); ++i) {
    asking_[i]->state = WaitingAttempt::State::kAsking;
    asking_[i]->asking_index = i;
    asking_ids_.push_back(asking_[i]->request.id);
    requests.push_back(asking_[i]->request);
  }
  asked_ += static_cast<int64_t>(requests.size());
  return requests;
}

void Admission::Impl::HandleAnswer(WaitingAttempt* attempt, const ReserveAnswer& answer,
                                   MonoTime* retry_at) {
  if (answer.kind == ReserveAnswer::Kind::kRetryAt) {
    attempt->state = WaitingAttempt::State::kQueued;
    *retry_at = std::min(*retry_at, answer.at);
    return;
  }
  line_.Remove(attempt);
  attempt->expected = answer.used;
  switch (answer.kind) {
    case ReserveAnswer::Kind::kSendAt:
      Served(*attempt);
      Book(attempt, answer.at);
      break;
    case ReserveAnswer::Kind::kNeverFits:
      Answer(attempt, Ticket::Kind::kNeverFits, answer.text);
      break;
    case ReserveAnswer::Kind::kClosed:
      Answer(attempt, Ticket::Kind::kClosed, answer.text);
      break;
    case ReserveAnswer::Kind::kRetryAt:
      break;
  }
}

// How much of the pool's time `costs` take, for fairness; by the dimension that they take most of.
int64_t Admission::Impl::PoolUs(const Costs& costs) {
  if (!limits_) limits_ = store_->Snapshot(pool_).limits;
  int64_t most = 0;
  for (size_t i = 0; i < kDimensionCount; ++i) {
    const int64_t limit = (*limits_)[i];
    if (limit == 0 || i >= static_cast<size_t>(Dimension::kInFlight)) continue;  // or by the day
    most = std::max(most, std::min(costs[i], limit * 16) * 60'000'000 / limit);
  }
  if (most == 0 && costs[static_cast<size_t>(Dimension::kRequests)] > 0) return kSlotUs;
  return most;
}

void Admission::Impl::Settle(const Ticket& ticket, Settlement settlement, const Costs& actual) {
  if (ticket.kind != Ticket::Kind::kAdmitted) return;
  if (line_.fair()) {
    const Costs settled = SettledCosts(settlement, ticket.reserved, actual);
    line_.Correct(FlowKey{ticket.job_id, ticket.model}, PoolUs(settled) - PoolUs(ticket.reserved));
  }
  store_->Settle(pool_, ticket.id, settlement, actual);
}

Task<void> Admission::Impl::Shutdown() {
  scope_.RequestStop(StopReason{StopCode::kOwnerDone, {}});
  reactor_->Cancel(&ask_timer_);
  co_await scope_.Join();
}

Admission::Admission(Reactor* reactor, PoolStore* store, std::string pool, uint64_t id_seed,
                     AdmissionOptions options)
    : impl_(std::make_unique<Impl>(reactor, store, std::move(pool), id_seed, options)) {}

Admission::~Admission() = default;

Task<Ticket> Admission::Admit(uint64_t job_id, uint32_t model, double weight, Costs costs,
                              StopToken stop, double job_weight, std::optional<StopToken> call) {
  return impl_->Admit(job_id, model, weight, costs, stop, job_weight, call);
}

void Admission::Settle(const Ticket& ticket, Settlement settlement, const Costs& actual) {
  impl_->Settle(ticket, settlement, actual);
}

void Admission::Penalize(const Penalty& penalty) { impl_->Penalize(penalty); }
void Admission::Observe(const Observation& observation) { impl_->Observe(observation); }
void Admission::BeginCall() { impl_->BeginCall(); }
void Admission::EndCall(const FlightEnd& end) { impl_->EndCall(end); }
FlightSample Admission::TakeSample() { return impl_->TakeSample(); }
int64_t Admission::waiting() const { return impl_->waiting(); }
int64_t Admission::rebooked() const { return impl_->rebooked(); }
int64_t Admission::asked() const { return impl_->asked(); }
PoolSnapshot Admission::Snapshot() const { return impl_->Snapshot(); }
int64_t Admission::in_flight_limit() const { return impl_->in_flight_limit(); }
Task<void> Admission::Shutdown() { return impl_->Shutdown(); }

}  // namespace headrace::quota
