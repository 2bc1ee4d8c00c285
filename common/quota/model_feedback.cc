// What the provider says: 429s and overloads, stops, and limits read from its answers.
#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "common/quota/model.h"

namespace headrace::quota {
namespace {

// Cuts, in 1/kFullShare. A 429 that says when to come back is obeyed by the gate and only hints
// that the limit is a little lower than described; one that does not say is all there is to go by.
// quota.md 3.4 gives 0.7 to 0.85; chosen, not measured.
constexpr int64_t kHintedCut = kFullShare * 98 / 100;
constexpr int64_t kBlindCut = kFullShare * 80 / 100;
constexpr int64_t kCapacityCut = kFullShare * 70 / 100;

// A cut needs so many reports, and one for so many answered calls: 2 % of 429s, 5 % of overloads.
// Chosen, not measured.
constexpr int64_t kLeastReports = 3;
constexpr int64_t kAnswersPerRateReport = 50;
constexpr int64_t kAnswersPerOverload = 20;

constexpr int64_t kSnapshotWaitUs = 5'000'000;  // limited_by speaks of the last 5 s

// What is seen beyond our own use is noise below this part of the limit: Anthropic rounds to 1,000
// of limits that are mostly above 200,000, and requests overtake each other. Chosen.
constexpr int64_t kNoiseParts = 200;
// Resets are mostly in whole seconds; then the window may have begun a second earlier.
constexpr int64_t kSecondUs = 1'000'000;
// A log that slides says a whole window after every call; only a counter says less. Where it has
// just begun, there is little to see.
constexpr int64_t kLeastIntoWindowUs = 2 * kSecondUs;

constexpr size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }
int64_t ToUs(MonoTime time) { return time.nanos() / 1000; }
MonoTime FromUs(int64_t us) { return MonoTime::FromNanos(us * 1000); }

// In 1/kFullShare, rounded up, as no provider states a limit so finely.
int64_t ShareOf(int64_t part, int64_t whole) {
  const absl::int128 share = (absl::int128(std::min(part, whole)) * kFullShare + whole - 1) / whole;
  return static_cast<int64_t>(share);
}

}  // namespace

bool PoolModel::Penalize(MonoTime now, const Penalty& penalty) {
  const int64_t now_us = Advance(now);
  const int64_t sent_us = ToUs(penalty.sent_at);
  ++penalties_;
  // Where the number in flight is found by trying, who finds it hears of refusals by the samples.
  const bool too_many =
      penalty.kind == Penalty::Kind::kCapacity || penalty.dimension == Dimension::kInFlight;
  if (found_in_flight_ > 0 && too_many && penalty.kind != Penalty::Kind::kStop) return false;
  if (penalty.kind == Penalty::Kind::kCapacity) {
    capacity_pressure_.Report(now_us);
    if (capacity_pressure_.IsReal(kLeastReports, kAnswersPerOverload)) CutCapacity(now_us, sent_us);
    return false;
  }
  if (penalty.kind == Penalty::Kind::kStop) {
    if (!closed_) closed_text_ = penalty.text;
    closed_ = true;
    probe_at_us_ = now_us + absl::ToInt64Microseconds(kProbeEvery);
    VoidBooked(now_us);
    return true;
  }
  const bool hinted = penalty.retry_after && *penalty.retry_after > absl::ZeroDuration();
  const bool gentle = hinted && penalty.kind == Penalty::Kind::kRate;
  const bool rates = std::any_of(limits_.begin(), limits_.end(),
                                 [](const RateLimit& limit) { return limit.paced(); });
  rate_pressure_.Report(now_us);
  if (!rate_pressure_.IsReal(gentle ? 1 : kLeastReports, kAnswersPerRateReport)) {
    // Obeyed, not believed.
  } else if (!rates) {
    // There is no rate to cut.
    if (rate_pressure_.IsReal(kLeastReports, kAnswersPerRateReport)) CutCapacity(now_us, sent_us);
  } else {
    CutRate(now_us, sent_us, gentle ? kHintedCut : kBlindCut, penalty.kind == Penalty::Kind::kRamp);
  }
  if (!hinted) return false;
  const int64_t until =
      now_us + absl::ToInt64Microseconds(std::min(*penalty.retry_after, kMaxGate));
  if (until <= gate_until_us_) return false;
  gate_until_us_ = until;
  gate_dimension_ = penalty.dimension.value_or(limits_.empty() ? Dimension::kInFlight
                                                               : limits_.front().dimension());
  VoidBooked(now_us);
  return true;
}

// A pool that knows how fast its traffic may grow starts that growth again from a lower point.
void PoolModel::CutRate(int64_t now_us, int64_t sent_us, int64_t factor, bool ramp) {
  bool ramped = false;
  for (RateLimit& limit : limits_) {
    if (!ramp || !limit.ramp().exists()) continue;
    limit.ramp().Cut(now_us, sent_us, factor);
    ramped = true;
  }
  if (!ramped) rate_.Cut(now_us, sent_us, factor);
}

void PoolModel::CutCapacity(int64_t now_us, int64_t sent_us) {
  const bool was_full = capacity_.value() == kFullShare;
  if (!capacity_.Cut(now_us, sent_us, kCapacityCut)) return;
  if (was_full) capacity_base_ = std::max<int64_t>(1, ledger_.open());
}

void PoolModel::VoidBooked(int64_t now_us) {
  ++epoch_;
  Reservation* reservation = ledger_.Newest();
  while (reservation != nullptr && reservation->send_at_us > now_us) {
    if (!reservation->voided) {
      Costs none{};
      none[Index(Dimension::kInFlight)] = 1;
      Charge(*reservation, reservation->reserved, none);
      reservation->voided = true;
    }
    reservation = ledger_.Before(reservation);
  }
}

void PoolModel::Observe(MonoTime now, const Observation& observation) {
  const int64_t now_us = Advance(now);
  const auto limit = std::find_if(limits_.begin(), limits_.end(), [&](const RateLimit& candidate) {
    return candidate.dimension() == observation.dimension;
  });
  if (limit == limits_.end()) return;
  const size_t i = Index(limit->dimension());
  if (observation.limit && *observation.limit > 0) {
    limit->cap().SetCeiling(now_us, ShareOf(*observation.limit, limit->largest()));
  }
  // What one worker's part of a limit should be used by, the provider does not say.
  if (limit->largest() > limit->limit()) return;
  // Samples of before the last correction, or of before a gate opened, speak of another level.
  const int64_t sent_us = std::min(ToUs(observation.sent_at), now_us);
  if (!observation.used || sent_us <= observed_us_[i] || sent_us < gate_until_us_) return;
  int64_t expected = std::max<int64_t>(0, observation.expected);
  if (limit->windowed() && !limit->daily()) {
    // The provider counts from the start of its window, which it has just told.
    if (!observation.reset) return;
    const int64_t width_us = limit->ring().width_us();
    const int64_t reset_us = absl::ToInt64Microseconds(*observation.reset);
    if (reset_us < 0 || reset_us > width_us - kLeastIntoWindowUs) return;
    const int64_t slack_us = reset_us % kSecondUs == 0 ? kSecondUs : 0;
    expected = limit->ring().Between(sent_us + reset_us - width_us - slack_us, sent_us);
  }
  const int64_t excess = std::min(*observation.used, limit->limit()) - expected;
  if (excess <= std::max<int64_t>(1, limit->limit() / kNoiseParts)) return;
  limit->ChargeOutside(now_us, excess, limit->Share(rate_.value()));
  outside_[i] += excess;
  observed_us_[i] = now_us;
}

PoolSnapshot PoolModel::Snapshot(MonoTime now) const {
  const int64_t now_us = std::max(now_us_, ToUs(now));
  PoolSnapshot snapshot;
  snapshot.charged_last_minute = usage_.LastMinute(now_us);
  for (const RateLimit& limit : limits_) {
    snapshot.limits[Index(limit.dimension())] = limit.limit();
  }
  snapshot.limits[Index(Dimension::kInFlight)] = gauge_;
  snapshot.in_flight = ledger_.open();
  snapshot.in_flight_limit = found_in_flight_ > 0 ? Slots() : 0;
  if (waited_us_ > 0 && waited_us_ > now_us - kSnapshotWaitUs) snapshot.limited_by = waited_for_;
  snapshot.gate_until = FromUs(gate_until_us_);
  snapshot.penalties = penalties_;
  snapshot.closed = closed_;
  snapshot.closed_text = closed_text_;
  GrowingShare rate = rate_;
  GrowingShare capacity = capacity_;
  rate.Grow(now_us);
  capacity.Grow(now_us);
  int64_t share = rate.value();
  for (const RateLimit& limit : limits_) share = limit.ShareAt(now_us, share);
  snapshot.rate_share = static_cast<double>(share) / kFullShare;
  snapshot.capacity_share = static_cast<double>(capacity.value()) / kFullShare;
  snapshot.expired = expired_;
  snapshot.outside = outside_;
  return snapshot;
}

}  // namespace headrace::quota
