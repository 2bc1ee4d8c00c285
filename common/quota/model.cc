#include "common/quota/model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/quota/costs.h"
#include "common/quota/knee.h"

namespace headrace::quota {
namespace {

// What grows back per minute, in 1/kFullShare of the whole. OpenAI asks for at most 50 % more
// traffic per 15 minutes, which is 2.7 % a minute.
constexpr int64_t kRateGrowth = 7;
constexpr int64_t kCapacityGrowth = kFullShare * 10 / 100;

constexpr int kMaxReaped = 16;  // expired reservations given up per question
// The dispatcher asks again when this part of the horizon has become free: often enough that what
// is given back meanwhile is less than a burst, seldom enough that nobody polls.
constexpr int64_t kAskParts = 8;
constexpr int64_t kLeastWaitUs = 1000;

// Of windows. A request that would wait longer than a cell for room lets others pass; after its
// patience nobody passes it. One that has to wait very long, as at the end of a day, claims
// nothing. Nobody is asked to wait longer than kMostWaitUs before asking again. Chosen;
// bench/quota_hour.cc compares values.
constexpr int64_t kStepAsideUs = 250'000;
constexpr int64_t kPatienceUs = 4'000'000;
constexpr int64_t kMostClaimUs = 120'000'000;
constexpr int64_t kMostWaitUs = 60'000'000;
constexpr int64_t kLeastClaimWindowUs = 1'000'000;

constexpr size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }
int64_t ToUs(MonoTime time) { return time.nanos() / 1000; }
MonoTime FromUs(int64_t us) { return MonoTime::FromNanos(us * 1000); }

void AddDayCosts(Costs* costs) {
  (*costs)[Index(Dimension::kRequestsPerDay)] = (*costs)[Index(Dimension::kRequests)];
  (*costs)[Index(Dimension::kTokensPerDay)] =
      std::max((*costs)[Index(Dimension::kTokens)], (*costs)[Index(Dimension::kInputTokens)] +
                                                        (*costs)[Index(Dimension::kOutputTokens)]);
}

// A request without a cost in requests would be free of the request limit.
Costs Normalised(const Costs& costs) {
  Costs normalised = costs;
  // The sum of two costs must not overflow, and no limit is near this.
  for (int64_t& cost : normalised) cost = std::clamp<int64_t>(cost, 0, int64_t{1} << 50);
  int64_t& requests = normalised[Index(Dimension::kRequests)];
  requests = std::max<int64_t>(1, requests);
  normalised[Index(Dimension::kInFlight)] = 1;
  AddDayCosts(&normalised);
  return normalised;
}

FlowKey FlowOf(const ReserveRequest& request) { return FlowKey{request.job_id, request.model}; }

bool SameLimits(const PoolSpec& a, const PoolSpec& b) {
  const auto same = [](const DimensionSpec& x, const DimensionSpec& y) {
    return x.dimension == y.dimension && x.mechanics == y.mechanics && x.limit == y.limit &&
           x.whole_limit == y.whole_limit && x.period == y.period && x.burst == y.burst &&
           x.window == y.window && x.guard == y.guard && x.ramp_start == y.ramp_start &&
           x.ramp_growth == y.ramp_growth;
  };
  return a.utilisation == b.utilisation && a.reservation_timeout == b.reservation_timeout &&
         a.auto_in_flight == b.auto_in_flight &&
         std::equal(a.dimensions.begin(), a.dimensions.end(), b.dimensions.begin(),
                    b.dimensions.end(), same);
}

}  // namespace

PoolModel::PoolModel(const PoolSpec& spec, MonoTime now)
    : name_(spec.name), now_us_(ToUs(now)), rate_(kRateGrowth), capacity_(kCapacityGrowth) {
  SetLimits(spec);
  for (RateLimit& limit : limits_) limit.Fill(now_us_);
}

void PoolModel::SetLimits(const PoolSpec& spec) {
  const absl::Status valid = ValidatePool(spec);
  HR_CHECK(valid.ok()) << valid;
  spec_ = spec;
  expire_us_ = absl::ToInt64Microseconds(spec.reservation_timeout);
  limits_.clear();
  gauge_ = 0;
  if (!spec.auto_in_flight) {
    found_in_flight_ = 0;
  } else if (found_in_flight_ == 0) {
    found_in_flight_ = KneeFinder::kStart;
  }
  for (const DimensionSpec& dimension : spec.dimensions) {
    if (dimension.mechanics == Mechanics::kGauge) {
      gauge_ = dimension.limit;
    } else {
      limits_.emplace_back(dimension, spec.utilisation);
    }
  }
}

bool PoolModel::Reconfigure(MonoTime now, const PoolSpec& spec) {
  if (SameLimits(spec, spec_)) return false;
  const int64_t now_us = Advance(now);
  VoidBooked(now_us);
  const std::vector<RateLimit> old = std::exchange(limits_, {});
  SetLimits(spec);
  for (RateLimit& limit : limits_) {
    const auto before = std::find_if(old.begin(), old.end(), [&](const RateLimit& candidate) {
      return candidate.dimension() == limit.dimension();
    });
    if (before == old.end()) {
      limit.Fill(now_us);
    } else {
      limit.TakeOver(now_us, gate_until_us_, *before);
    }
  }
  return true;
}

int64_t PoolModel::Advance(MonoTime now) {
  now_us_ = std::max(now_us_, ToUs(now));
  for (RateLimit& limit : limits_) limit.Advance(now_us_);
  rate_.Grow(now_us_);
  capacity_.Grow(now_us_);
  return now_us_;
}

ReserveAnswer PoolModel::Reserve(MonoTime now, const ReserveRequest& request,
                                 absl::Duration horizon) {
  const int64_t now_us = Advance(now);
  if (std::optional<ReserveAnswer> again = AnswerAgain(request)) return *std::move(again);
  if (closed_ && now_us < probe_at_us_) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kClosed, .text = closed_text_};
  }
  const Costs costs = Normalised(request.costs);
  if (std::optional<ReserveAnswer> never = NeverFits(costs)) return *std::move(never);

  Reap(now_us);
  const int64_t horizon_us =
      std::clamp<int64_t>(absl::ToInt64Microseconds(horizon), 0, UsageRing::kMaxAheadUs);
  flows_.Ask(FlowOf(request), request.job_weight, request.weight, now_us, 2 * horizon_us);
  if (now_us < gate_until_us_) return Refuse(now_us, request, gate_until_us_, gate_dimension_);
  if (ledger_.open() >= std::min(Slots(), kMaxOpen)) {
    slot_refused_us_ = now_us;
    return Refuse(now_us, request, now_us + std::max(horizon_us, kLeastWaitUs),
                  Dimension::kInFlight);
  }
  Fitting fitting{LastBooked(now_us), waited_for_};
  for (const RateLimit& limit : limits_) limit.Pace(gate_until_us_, &fitting);
  const int64_t paced_us = fitting.at_us;
  if (paced_us > now_us + horizon_us) {
    return Refuse(now_us, request, paced_us - horizon_us + horizon_us / kAskParts, fitting.binding);
  }
  for (const RateLimit& limit : limits_) {
    limit.FitWindow(costs[Index(limit.dimension())], &fitting);
  }
  if (std::optional<ReserveAnswer> wait =
          YieldOrWait(now_us, paced_us, horizon_us, request, fitting)) {
    return *std::move(wait);
  }
  if (fitting.at_us > now_us) NoteWait(now_us, fitting.binding);
  return Book(request, costs, fitting);
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
  for (const RateLimit& limit : limits_) {
    const int64_t cost = costs[Index(limit.dimension())];
    if (cost <= limit.largest()) continue;
    return ReserveAnswer{
        .kind = ReserveAnswer::Kind::kNeverFits,
        .binding = limit.dimension(),
        .text = absl::StrCat("needs ", cost, " ", DimensionName(limit.dimension()),
                             ", but the limit of pool ", name_, " is ", limit.largest())};
  }
  return std::nullopt;
}

std::optional<ReserveAnswer> PoolModel::YieldOrWait(int64_t now_us, int64_t paced_us,
                                                    int64_t horizon_us,
                                                    const ReserveRequest& request,
                                                    const Fitting& fitting) {
  const int64_t window_us = 2 * horizon_us;
  const int64_t part_us = std::max(horizon_us / kAskParts, kLeastWaitUs);
  if (claim_.active && claim_.id != request.id &&
      claim_.seen_us < now_us - std::max(window_us, kLeastClaimWindowUs)) {
    claim_.active = false;
  }
  const bool out_of_patience = claim_.active && claim_.since_us <= now_us - kPatienceUs;
  const bool first = out_of_patience && claim_.id == request.id;
  // While nothing is short, who comes is served; fairness is between those who wait.
  const bool contended = fitting.at_us > now_us || slot_refused_us_ >= now_us - window_us;
  if (!first && contended && flows_.MustYield(FlowOf(request), now_us, window_us)) {
    return Refuse(now_us, request, now_us + part_us, fitting.binding);
  }
  if (!first && out_of_patience) {
    return Refuse(now_us, request, now_us + part_us, claim_.dimension);
  }
  const int64_t latest_us =
      first ? now_us + horizon_us : std::min(now_us + horizon_us, paced_us + kStepAsideUs);
  if (fitting.at_us <= latest_us) return std::nullopt;
  RenewClaim(now_us, window_us, request.id, fitting);
  const int64_t ask_us = fitting.at_us - (first ? horizon_us : std::min(horizon_us, kStepAsideUs));
  return Refuse(now_us, request, std::clamp(ask_us, now_us + kLeastWaitUs, now_us + kMostWaitUs),
                fitting.binding);
}

void PoolModel::RenewClaim(int64_t now_us, int64_t window_us, ReservationId id,
                           const Fitting& fitting) {
  if (claim_.active && claim_.id == id) {
    claim_.seen_us = now_us;
  } else if (!claim_.active && fitting.at_us <= now_us + kMostClaimUs) {
    claim_ = Claim{id, fitting.binding, now_us, now_us, true};
  }
}

ReserveAnswer PoolModel::Refuse(int64_t now_us, const ReserveRequest& request, int64_t at_us,
                                Dimension binding) {
  if (claim_.active && claim_.id == request.id) claim_.seen_us = now_us;
  flows_.Refused(FlowOf(request), now_us);
  NoteWait(now_us, binding);
  return ReserveAnswer{
      .kind = ReserveAnswer::Kind::kRetryAt, .at = FromUs(at_us), .binding = binding};
}

void PoolModel::NoteWait(int64_t now_us, Dimension binding) {
  waited_us_ = now_us;
  waited_for_ = binding;
}

ReserveAnswer PoolModel::Book(const ReserveRequest& request, const Costs& costs,
                              const Fitting& fitting) {
  ReserveAnswer answer{.kind = ReserveAnswer::Kind::kSendAt,
                       .at = FromUs(fitting.at_us),
                       .binding = fitting.binding};
  Reservation reservation{.id = request.id,
                          .flow = FlowOf(request),
                          .reserved = costs,
                          .send_at_us = fitting.at_us,
                          .binding = fitting.binding};
  for (RateLimit& limit : limits_) {
    const size_t i = Index(limit.dimension());
    const int64_t share = limit.Share(rate_.value());
    reservation.shares[i] = share;
    limit.Take(fitting.at_us, gate_until_us_, costs[i], share);
    answer.used[i] = limit.Used(fitting.at_us, share);
  }
  flows_.Served(reservation.flow, PoolUs(costs, reservation.shares));
  usage_.Add(fitting.at_us, costs);
  ledger_.Add(reservation);
  if (claim_.active && claim_.id == request.id) claim_.active = false;
  if (closed_) {
    probe_id_ = request.id;
    probe_at_us_ = now_us_ + absl::ToInt64Microseconds(kProbeEvery);
  }
  return answer;
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
  AddDayCosts(&after);
  after[Index(Dimension::kInFlight)] = before[Index(Dimension::kInFlight)];
  Charge(*reservation, before, after);
  if (settlement == Settlement::kCharged) {
    rate_pressure_.Answered(now_us);
    capacity_pressure_.Answered(now_us);
  }
  const bool was_full = ledger_.open() >= Slots();
  const bool reopened = closed_ && id == probe_id_ && settlement == Settlement::kCharged;
  if (reopened) closed_ = false;
  ledger_.Close(id);
  return reopened || (was_full && ledger_.open() < Slots());
}

// Moves the charge of a reservation from `before` to `after`, at the price of its booking.
void PoolModel::Charge(const Reservation& reservation, const Costs& before, const Costs& after) {
  for (RateLimit& limit : limits_) {
    const size_t i = Index(limit.dimension());
    // A limit that came with a change of the pool was not charged.
    if (reservation.shares[i] == 0) continue;
    limit.Correct(reservation.send_at_us, before[i], after[i], reservation.shares[i]);
  }
  flows_.Correct(reservation.flow,
                 PoolUs(after, reservation.shares) - PoolUs(before, reservation.shares));
  Costs delta{};
  for (size_t i = 0; i < kDimensionCount; ++i) delta[i] = after[i] - before[i];
  usage_.Add(reservation.send_at_us, delta);
}

// How much of the whole pool's time `costs` take: by the limit that they take most of.
int64_t PoolModel::PoolUs(const Costs& costs, const Costs& shares) const {
  int64_t most = 0;
  bool paced = false;
  for (const RateLimit& limit : limits_) {
    const size_t i = Index(limit.dimension());
    if (!limit.paced() || shares[i] == 0) continue;
    paced = true;
    most = std::max(most, limit.PoolUs(costs[i], shares[i]));
  }
  if (paced) return most;
  return costs[Index(Dimension::kRequests)] > 0 ? kSlotUs : 0;
}

int64_t PoolModel::LastBooked(int64_t now_us) {
  const Reservation* newest = ledger_.Newest();
  return newest == nullptr || newest->voided ? now_us : std::max(now_us, newest->send_at_us);
}

int64_t PoolModel::Slots() const {
  const int64_t gauge = gauge_ == 0 ? std::numeric_limits<int64_t>::max() : gauge_;
  if (found_in_flight_ > 0) return std::min(gauge, found_in_flight_);
  if (capacity_.value() == kFullShare) return gauge;
  const int64_t cut = std::max<int64_t>(1, capacity_base_ * capacity_.value() / kFullShare);
  return std::min(gauge, cut);
}

bool PoolModel::SetInFlight(MonoTime now, int64_t limit) {
  if (found_in_flight_ == 0) return false;
  Advance(now);
  const bool was_full = ledger_.open() >= Slots();
  found_in_flight_ = std::max<int64_t>(1, limit);
  return was_full && ledger_.open() < Slots();
}

void PoolModel::Reap(int64_t now_us) {
  for (int i = 0; i < kMaxReaped; ++i) {
    const Reservation* oldest = ledger_.Oldest();
    if (oldest == nullptr || oldest->send_at_us + expire_us_ > now_us) return;
    ledger_.Close(oldest->id);
    ++expired_;
  }
}

PoolHint PoolModel::Hint() const {
  const bool windowed = std::any_of(limits_.begin(), limits_.end(),
                                    [](const RateLimit& limit) { return limit.windowed(); });
  return PoolHint{.epoch = epoch_,
                  .gate_until = FromUs(gate_until_us_),
                  .free_slots = std::max<int64_t>(0, Slots() - ledger_.open()),
                  .look_ahead = windowed ? kLookAhead : 1,
                  .in_flight_limit = found_in_flight_ > 0 ? Slots() : 0};
}

}  // namespace headrace::quota
