#include "common/quota/local_share.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/quota/costs.h"

namespace headrace::quota {
namespace {

constexpr double kSafe = 0.8;  // of each limit, all workers together: quota.md 3.6
constexpr absl::Duration kAskAgain = absl::Milliseconds(250);
// More than any window but that of a day, whose cells are those of the whole outage.
constexpr size_t kMaxSeconds = 4000;

int64_t ToUs(MonoTime time) { return time.nanos() / 1000; }
MonoTime FromUs(int64_t us) { return MonoTime::FromNanos(us * 1000); }
int64_t SecondOf(MonoTime time) { return time.nanos() / 1'000'000'000; }

}  // namespace

LocalShare::LocalShare(const PoolSpec& spec, int64_t workers, MonoTime now)
    : share_(kSafe / static_cast<double>(std::max<int64_t>(1, workers) + 1)),
      slots_(std::numeric_limits<int64_t>::max()),
      newest_(now) {
  for (const DimensionSpec& dimension : spec.dimensions) {
    if (dimension.mechanics == Mechanics::kGauge) {
      slots_ = static_cast<int64_t>(static_cast<double>(dimension.limit) * share_);
      continue;
    }
    DimensionSpec paced = dimension;
    // A day's budget is paced here, as nobody knows what is left of it.
    if (paced.mechanics == Mechanics::kDay) paced.period = absl::Hours(24);
    paced.mechanics = Mechanics::kBucket;
    paced.burst = absl::ZeroDuration();
    Bucket bucket(paced, spec.utilisation * share_);
    bucket.Fill(ToUs(now));
    buckets_.push_back(bucket);
  }
}

int64_t LocalShare::free_slots(int64_t held) const {
  if (slots_ == std::numeric_limits<int64_t>::max()) return slots_;
  return std::max<int64_t>(0, slots_ - open() - held);
}

ReserveAnswer LocalShare::Reserve(MonoTime now, const ReserveRequest& request,
                                  absl::Duration horizon, MonoTime gate_until, int64_t held) {
  if (const auto again = open_.find(request.id); again != open_.end()) {
    return ReserveAnswer{.kind = ReserveAnswer::Kind::kSendAt, .at = again->second.at};
  }
  const Costs costs = NormalisedCosts(request.costs);
  ReserveAnswer answer{.kind = ReserveAnswer::Kind::kRetryAt, .at = now + kAskAgain};
  for (const Bucket& bucket : buckets_) {
    const int64_t cost = costs[static_cast<size_t>(bucket.dimension())];
    if (cost <= bucket.limit()) continue;
    answer.kind = ReserveAnswer::Kind::kNeverFits;
    answer.binding = bucket.dimension();
    answer.text = absl::StrCat("needs ", cost, " ", DimensionName(bucket.dimension()),
                               ", but the limit of the pool is ", bucket.limit());
    return answer;
  }
  if (free_slots(held) <= 0) {
    answer.binding = Dimension::kInFlight;
    return answer;
  }
  MonoTime at = std::max({now, newest_, gate_until});
  for (const Bucket& bucket : buckets_) {
    const MonoTime earliest = FromUs(bucket.Earliest(0));
    if (earliest <= at) continue;
    at = earliest;
    answer.binding = bucket.dimension();
  }
  if (at > now + horizon) {
    answer.at = std::max(now + kAskAgain, at - horizon);
    return answer;
  }
  for (Bucket& bucket : buckets_) {
    const int64_t cost = costs[static_cast<size_t>(bucket.dimension())];
    bucket.Take(ToUs(at), 0, bucket.Ticks(cost, kFullShare));
  }
  newest_ = at;
  open_[request.id] = Open{request.job_id, request.model, costs, at};
  Note(at, costs, 1);
  answer.kind = ReserveAnswer::Kind::kSendAt;
  answer.at = at;
  return answer;
}

void LocalShare::Note(MonoTime at, const Costs& costs, int64_t sign) {
  const int64_t second = SecondOf(at);
  if (seconds_.empty() || seconds_.back().second < second) {
    if (sign < 0) return;
    seconds_.push_back(Second{second, {}});
    if (seconds_.size() > kMaxSeconds) seconds_.pop_front();
  }
  for (auto it = seconds_.rbegin(); it != seconds_.rend() && it->second >= second; ++it) {
    if (it->second != second) continue;
    for (size_t d = 0; d < kDimensionCount; ++d) it->costs[d] += sign * costs[d];
  }
}

bool LocalShare::Settle(ReservationId id, Settlement settlement, const Costs& actual) {
  const auto it = open_.find(id);
  if (it == open_.end()) return false;
  const Open open = it->second;
  open_.erase(it);
  const Costs after = settlement == Settlement::kNotSent
                          ? Costs{}
                          : NormalisedCosts(SettledCosts(settlement, open.reserved, actual));
  for (Bucket& bucket : buckets_) {
    const size_t d = static_cast<size_t>(bucket.dimension());
    bucket.Correct(bucket.Ticks(after[d], kFullShare) - bucket.Ticks(open.reserved[d], kFullShare));
  }
  Note(open.at, open.reserved, -1);
  Note(open.at, after, 1);
  return true;
}

Costs LocalShare::Debt(MonoTime now) const {
  Costs debt{};
  for (const Bucket& bucket : buckets_) {
    debt[static_cast<size_t>(bucket.dimension())] = bucket.Level(ToUs(now), kFullShare);
  }
  return debt;
}

std::vector<LocalCell> LocalShare::Cells(MonoTime now) const {
  std::vector<LocalCell> cells;
  for (const Second& second : seconds_) {
    cells.push_back(LocalCell{std::max<int64_t>(0, SecondOf(now) - second.second), second.costs});
  }
  return cells;
}

}  // namespace headrace::quota
