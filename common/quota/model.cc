#include "common/quota/model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/costs.h"

namespace headrace::quota {
namespace {

// Cuts, in 1/kFullShare. A 429 that says when to come back is obeyed by the gate and only hints
// that the limit is a little lower than described; one that does not say is all there is to go by.
// quota.md 3.4 gives 0.7 to 0.85; chosen, not measured.
constexpr int64_t kHintedCut = kFullShare * 98 / 100;
constexpr int64_t kBlindCut = kFullShare * 80 / 100;
constexpr int64_t kCapacityCut = kFullShare * 70 / 100;
// Per minute. OpenAI asks for at most 50 % more traffic per 15 minutes, which is 2.7 % a minute.
constexpr int64_t kRateGrowth = 7;
constexpr int64_t kCapacityGrowth = kFullShare * 10 / 100;

// A cut needs so many reports, and one for so many answered calls: 2 % of 429s, 5 % of overloads.
// Chosen, not measured.
constexpr int64_t kLeastReports = 3;
constexpr int64_t kAnswersPerRateReport = 50;
constexpr int64_t kAnswersPerOverload = 20;

constexpr int kMaxReaped = 16;  // expired reservations given up per question
// The dispatcher asks again when this part of the horizon has become free: often enough that what
// is given back meanwhile is less than a burst, seldom enough that nobody polls.
constexpr int64_t kAskParts = 8;
constexpr int64_t kSnapshotWaitUs = 5'000'000;  // limited_by speaks of the last 5 s

int64_t ToUs(MonoTime time) { return time.nanos() / 1000; }
MonoTime FromUs(int64_t us) { return MonoTime::FromNanos(us * 1000); }

// A request without a cost in requests would be free of the request limit.
Costs Normalised(const Costs& costs) {
  Costs normalised = costs;
  for (int64_t& cost : normalised) cost = std::max<int64_t>(0, cost);
  int64_t& requests = normalised[static_cast<size_t>(Dimension::kRequests)];
  requests = std::max<int64_t>(1, requests);
  normalised[static_cast<size_t>(Dimension::kInFlight)] = 1;
  return normalised;
}

FlowKey FlowOf(const ReserveRequest& request) { return FlowKey{request.job_id, request.model}; }

}  // namespace

PoolModel::PoolModel(const PoolSpec& spec)
    : name_(spec.name), rate_(kRateGrowth), capacity_(kCapacityGrowth) {
  SetLimits(spec);
}

void PoolModel::SetLimits(const PoolSpec& spec) {
  const absl::Status valid = ValidatePool(spec);
  HR_CHECK(valid.ok()) << valid;
  expire_us_ = absl::ToInt64Microseconds(spec.reservation_timeout);
  buckets_.clear();
  gauge_ = 0;
  for (const DimensionSpec& dimension : spec.dimensions) {
    switch (dimension.mechanics) {
      case Mechanics::kBucket:
        buckets_.emplace_back(dimension, spec.utilisation);
        break;
      case Mechanics::kGauge:
        gauge_ = dimension.limit;
        break;
    }
  }
}

void PoolModel::Reconfigure(MonoTime now, const PoolSpec& spec) {
  const int64_t now_us = Advance(now);
  VoidBooked(now_us);
  const std::vector<Bucket> old = buckets_;
  SetLimits(spec);
  for (Bucket& bucket : buckets_) {
    const auto before = std::find_if(old.begin(), old.end(), [&](const Bucket& candidate) {
      return candidate.dimension() == bucket.dimension();
    });
    bucket.TakeOver(now_us, gate_until_us_, before == old.end() ? nullptr : &*before);
  }
}

int64_t PoolModel::Advance(MonoTime now) {
  now_us_ = std::max(now_us_, ToUs(now));
  return now_us_;
}

ReserveAnswer PoolModel::Reserve(MonoTime now, const ReserveRequest& request,
                                 absl::Duration horizon) {
  const int64_t now_us = Advance(now);
  if (std::optional<ReserveAnswer> again = AnswerAgain(request)) return *std::move(again);
  if (closed_) return ReserveAnswer{.kind = ReserveAnswer::Kind::kClosed, .text = closed_text_};
  const Costs costs = Normalised(request.costs);
  if (std::optional<ReserveAnswer> never = NeverFits(costs)) return *std::move(never);

  Reap(now_us);
  rate_.Grow(now_us);
  capacity_.Grow(now_us);
  const int64_t horizon_us =
      std::clamp<int64_t>(absl::ToInt64Microseconds(horizon), 0, UsageRing::kMaxAheadUs);
  const int64_t window_us = 2 * horizon_us;
  flows_.Ask(FlowOf(request), request.weight, now_us, window_us);

  if (now_us < gate_until_us_) return Refuse(now_us, request, gate_until_us_, gate_dimension_);
  if (ledger_.open() >= std::min(Slots(), kMaxOpen)) {
    slot_refused_us_ = now_us;
    return Refuse(now_us, request, now_us + std::max<int64_t>(horizon_us, 1000),
                  Dimension::kInFlight);
  }
  int64_t at_us = LastBooked(now_us);
  Dimension binding = waited_for_;
  for (const Bucket& bucket : buckets_) {
    const int64_t earliest = bucket.Earliest(gate_until_us_);
    if (earliest <= at_us) continue;
    at_us = earliest;
    binding = bucket.dimension();
  }
  if (at_us > now_us + horizon_us) {
    return Refuse(now_us, request, at_us - horizon_us + horizon_us / kAskParts, binding);
  }
  // While nothing is short, who comes is served; fairness is between those who wait.
  const bool contended = at_us > now_us || slot_refused_us_ >= now_us - window_us;
  if (contended && flows_.MustYield(FlowOf(request), now_us, window_us)) {
    return Refuse(now_us, request, now_us + std::max<int64_t>(horizon_us / kAskParts, 1000),
                  binding);
  }
  if (at_us > now_us) NoteWait(now_us, binding);
  Book(request, costs, at_us, binding);
  return ReserveAnswer{
      .kind = ReserveAnswer::Kind::kSendAt, .at = FromUs(at_us), .binding = binding};
}

std::optional<ReserveAnswer> PoolModel::AnswerAgain(const ReserveRequest& request) {
  if (const Reservation* open = ledger_.Find(request.id)) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kSendAt,
                         .at = FromUs(open->send_at_us),
                         .binding = open->binding};
  }
  if (const std::optional<int64_t> closed = ledger_.FindClosed(request.id)) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kSendAt, .at = FromUs(*closed)};
  }
  return std::nullopt;
}

std::optional<ReserveAnswer> PoolModel::NeverFits(const Costs& costs) const {
  for (const Bucket& bucket : buckets_) {
    const int64_t cost = costs[static_cast<size_t>(bucket.dimension())];
    if (cost <= bucket.limit()) continue;
    return ReserveAnswer{
        .kind = ReserveAnswer::Kind::kNeverFits,
        .binding = bucket.dimension(),
        .text = absl::StrCat("needs ", cost, " ", DimensionName(bucket.dimension()),
                             ", but the limit of pool ", name_, " is ", bucket.limit())};
  }
  return std::nullopt;
}

ReserveAnswer PoolModel::Refuse(int64_t now_us, const ReserveRequest& request, int64_t at_us,
                                Dimension binding) {
  flows_.Refused(FlowOf(request), now_us);
  NoteWait(now_us, binding);
  return ReserveAnswer{
      .kind = ReserveAnswer::Kind::kRetryAt, .at = FromUs(at_us), .binding = binding};
}

void PoolModel::NoteWait(int64_t now_us, Dimension binding) {
  waited_us_ = now_us;
  waited_for_ = binding;
}

void PoolModel::Book(const ReserveRequest& request, const Costs& costs, int64_t at_us,
                     Dimension binding) {
  const int64_t share = rate_.value();
  for (Bucket& bucket : buckets_) {
    const int64_t cost = costs[static_cast<size_t>(bucket.dimension())];
    bucket.Take(at_us, gate_until_us_, bucket.Ticks(cost, share));
  }
  flows_.Served(FlowOf(request), PoolUs(costs, share));
  usage_.Add(at_us, costs);
  ledger_.Add(Reservation{.id = request.id,
                          .flow = FlowOf(request),
                          .reserved = costs,
                          .send_at_us = at_us,
                          .share = share,
                          .binding = binding});
}

bool PoolModel::Settle(MonoTime now, ReservationId id, Settlement settlement, const Costs& actual) {
  const int64_t now_us = Advance(now);
  Reservation* reservation = ledger_.Find(id);
  if (reservation == nullptr) {
    // A cancellation can overtake the question that it cancels.
    if (settlement == Settlement::kNotSent) ledger_.RememberClosed(id, now_us);
    return false;
  }
  const Costs before = reservation->voided ? Costs{} : reservation->reserved;
  Costs after = SettledCosts(settlement, reservation->reserved, actual);
  after[static_cast<size_t>(Dimension::kInFlight)] =
      before[static_cast<size_t>(Dimension::kInFlight)];
  Charge(*reservation, before, after);
  if (settlement == Settlement::kCharged) {
    rate_pressure_.Answered(now_us);
    capacity_pressure_.Answered(now_us);
  }
  capacity_.Grow(now_us);
  const bool was_full = ledger_.open() >= Slots();
  ledger_.Close(id);
  return was_full && ledger_.open() < Slots();
}

// Moves the charge of a reservation from `before` to `after`, at the price of its booking.
void PoolModel::Charge(const Reservation& reservation, const Costs& before, const Costs& after) {
  Costs delta{};
  for (size_t i = 0; i < kDimensionCount; ++i) delta[i] = after[i] - before[i];
  for (Bucket& bucket : buckets_) {
    const size_t i = static_cast<size_t>(bucket.dimension());
    if (delta[i] == 0) continue;
    bucket.Correct(bucket.Ticks(after[i], reservation.share) -
                   bucket.Ticks(before[i], reservation.share));
  }
  flows_.Correct(reservation.flow,
                 PoolUs(after, reservation.share) - PoolUs(before, reservation.share));
  usage_.Add(reservation.send_at_us, delta);
}

// How much of the whole pool's time `costs` take: by the dimension that they take most of.
int64_t PoolModel::PoolUs(const Costs& costs, int64_t share) const {
  if (buckets_.empty()) {
    return costs[static_cast<size_t>(Dimension::kRequests)] > 0 ? kSlotUs : 0;
  }
  int64_t most = 0;
  for (const Bucket& bucket : buckets_) {
    const int64_t cost = costs[static_cast<size_t>(bucket.dimension())];
    most = std::max(most, bucket.TicksToMicros(bucket.Ticks(cost, share)));
  }
  return most;
}

int64_t PoolModel::LastBooked(int64_t now_us) {
  const Reservation* newest = ledger_.Newest();
  return newest == nullptr || newest->voided ? now_us : std::max(now_us, newest->send_at_us);
}

int64_t PoolModel::Slots() const {
  const int64_t gauge = gauge_ == 0 ? std::numeric_limits<int64_t>::max() : gauge_;
  if (capacity_.value() == kFullShare) return gauge;
  const int64_t cut = std::max<int64_t>(1, capacity_base_ * capacity_.value() / kFullShare);
  return std::min(gauge, cut);
}

void PoolModel::Reap(int64_t now_us) {
  for (int i = 0; i < kMaxReaped; ++i) {
    const Reservation* oldest = ledger_.Oldest();
    if (oldest == nullptr || oldest->send_at_us + expire_us_ > now_us) return;
    ledger_.Close(oldest->id);
    ++expired_;
  }
}

bool PoolModel::Penalize(MonoTime now, const Penalty& penalty) {
  const int64_t now_us = Advance(now);
  const int64_t sent_us = ToUs(penalty.sent_at);
  ++penalties_;
  rate_.Grow(now_us);
  capacity_.Grow(now_us);
  if (penalty.kind == Penalty::Kind::kCapacity) {
    capacity_pressure_.Report(now_us);
    if (capacity_pressure_.IsReal(kLeastReports, kAnswersPerOverload)) CutCapacity(now_us, sent_us);
    return false;
  }
  if (penalty.kind == Penalty::Kind::kStop) {
    if (!closed_) closed_text_ = penalty.text;
    closed_ = true;
    VoidBooked(now_us);
    return true;
  }
  const bool hinted = penalty.retry_after && *penalty.retry_after > absl::ZeroDuration();
  const bool gentle = hinted && penalty.kind == Penalty::Kind::kRate;
  rate_pressure_.Report(now_us);
  if (!rate_pressure_.IsReal(gentle ? 1 : kLeastReports, kAnswersPerRateReport)) {
    // Obeyed, not believed.
  } else if (buckets_.empty()) {
    // There is no rate to cut.
    if (rate_pressure_.IsReal(kLeastReports, kAnswersPerRateReport)) CutCapacity(now_us, sent_us);
  } else {
    rate_.Cut(now_us, sent_us, gentle ? kHintedCut : kBlindCut);
  }
  if (!hinted) return false;
  const int64_t until =
      now_us + absl::ToInt64Microseconds(std::min(*penalty.retry_after, kMaxGate));
  if (until <= gate_until_us_) return false;
  gate_until_us_ = until;
  gate_dimension_ = penalty.dimension.value_or(buckets_.empty() ? Dimension::kInFlight
                                                                : buckets_.front().dimension());
  VoidBooked(now_us);
  return true;
}

void PoolModel::VoidBooked(int64_t now_us) {
  ++epoch_;
  Reservation* reservation = ledger_.Newest();
  while (reservation != nullptr && reservation->send_at_us > now_us) {
    if (!reservation->voided) {
      Costs none{};
      none[static_cast<size_t>(Dimension::kInFlight)] = 1;
      Charge(*reservation, reservation->reserved, none);
      reservation->voided = true;
    }
    reservation = ledger_.Before(reservation);
  }
}

void PoolModel::CutCapacity(int64_t now_us, int64_t sent_us) {
  const bool was_full = capacity_.value() == kFullShare;
  if (!capacity_.Cut(now_us, sent_us, kCapacityCut)) return;
  if (was_full) capacity_base_ = std::max<int64_t>(1, ledger_.open());
}

PoolSnapshot PoolModel::Snapshot(MonoTime now) const {
  const int64_t now_us = std::max(now_us_, ToUs(now));
  PoolSnapshot snapshot;
  snapshot.charged_last_minute = usage_.LastMinute(now_us);
  for (const Bucket& bucket : buckets_) {
    snapshot.limits[static_cast<size_t>(bucket.dimension())] = bucket.limit();
  }
  snapshot.limits[static_cast<size_t>(Dimension::kInFlight)] = gauge_;
  snapshot.in_flight = ledger_.open();
  if (waited_us_ > 0 && waited_us_ > now_us - kSnapshotWaitUs) snapshot.limited_by = waited_for_;
  snapshot.gate_until = FromUs(gate_until_us_);
  snapshot.penalties = penalties_;
  snapshot.closed = closed_;
  snapshot.closed_text = closed_text_;
  GrowingShare rate = rate_;
  GrowingShare capacity = capacity_;
  rate.Grow(now_us);
  capacity.Grow(now_us);
  snapshot.rate_share = static_cast<double>(rate.value()) / kFullShare;
  snapshot.capacity_share = static_cast<double>(capacity.value()) / kFullShare;
  snapshot.expired = expired_;
  return snapshot;
}

PoolHint PoolModel::Hint() const {
  return PoolHint{.epoch = epoch_,
                  .gate_until = FromUs(gate_until_us_),
                  .free_slots = std::max<int64_t>(0, Slots() - ledger_.open())};
}

}  // namespace headrace::quota
