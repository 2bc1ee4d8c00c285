#include "common/quota/quota.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace::quota {

absl::string_view DimensionName(Dimension dimension) {
  switch (dimension) {
    case Dimension::kRequests:
      return "requests/min";
    case Dimension::kTokens:
      return "tokens/min";
    case Dimension::kInputTokens:
      return "input tokens/min";
    case Dimension::kOutputTokens:
      return "output tokens/min";
    case Dimension::kInFlight:
      return "in flight";
  }
  return "unknown";
}

namespace {

constexpr int64_t kMaxLimit = 1'000'000'000'000;
constexpr absl::Duration kMaxPeriod = absl::Hours(24 * 31);

absl::Status ValidateDimension(const DimensionSpec& spec) {
  if (static_cast<size_t>(spec.dimension) >= kDimensionCount) {
    return absl::InvalidArgumentError("unknown dimension");
  }
  if (spec.limit < 1 || spec.limit > kMaxLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("the limit must be in [1, ", kMaxLimit, "], not ", spec.limit));
  }
  if (spec.mechanics == Mechanics::kGauge) return absl::OkStatus();
  if (spec.dimension == Dimension::kInFlight) {
    return absl::InvalidArgumentError("slots in flight are metered by a gauge");
  }
  if (spec.period < absl::Seconds(1) || spec.period > kMaxPeriod) {
    return absl::InvalidArgumentError("the period must be in [1 s, 31 days]");
  }
  if (spec.burst < absl::ZeroDuration() || spec.burst > spec.period) {
    return absl::InvalidArgumentError("the burst must be in [0, period]");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePool(const PoolSpec& spec) {
  if (!(spec.utilisation >= 0.1 && spec.utilisation <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool ", spec.name, ": utilisation must be in [0.1, 1]"));
  }
  if (spec.reservation_timeout <= absl::ZeroDuration() || spec.reservation_timeout > kMaxPeriod) {
    return absl::InvalidArgumentError(
        absl::StrCat("pool ", spec.name, ": reservation timeout must be in (0, 31 days]"));
  }
  std::array<bool, kDimensionCount> seen{};
  for (const DimensionSpec& dimension : spec.dimensions) {
    absl::Status status = ValidateDimension(dimension);
    if (status.ok() && std::exchange(seen[static_cast<size_t>(dimension.dimension)], true)) {
      status = absl::InvalidArgumentError("limited twice");
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pool ", spec.name, ": ", DimensionName(dimension.dimension), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace headrace::quota
