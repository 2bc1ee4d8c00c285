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
    case Dimension::kRequestsPerDay:
      return "requests/day";
    case Dimension::kTokensPerDay:
      return "tokens/day";
  }
  return "unknown";
}

namespace {

constexpr int64_t kMaxLimit = 1'000'000'000'000;
constexpr absl::Duration kMaxPeriod = absl::Hours(24 * 31);

bool IsDaily(Dimension dimension) {
  return dimension == Dimension::kRequestsPerDay || dimension == Dimension::kTokensPerDay;
}

absl::Status ValidateWindow(const DimensionSpec& spec) {
  if (spec.window < absl::Seconds(1) || spec.window > absl::Hours(1) || spec.window > spec.period) {
    return absl::InvalidArgumentError("the window must be in [1 s, 1 h] and within the period");
  }
  if (spec.guard < absl::ZeroDuration() || spec.guard > spec.window) {
    return absl::InvalidArgumentError("the guard must be in [0, window]");
  }
  return absl::OkStatus();
}

absl::Status ValidateDimension(const DimensionSpec& spec) {
  if (static_cast<size_t>(spec.dimension) >= kDimensionCount) {
    return absl::InvalidArgumentError("unknown dimension");
  }
  if (spec.limit < 1 || spec.limit > kMaxLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("the limit must be in [1, ", kMaxLimit, "], not ", spec.limit));
  }
  if ((spec.mechanics == Mechanics::kDay) != IsDaily(spec.dimension)) {
    return absl::InvalidArgumentError("a limit per day, and only that, is metered by the day");
  }
  if (spec.mechanics == Mechanics::kGauge || spec.mechanics == Mechanics::kDay) {
    return absl::OkStatus();
  }
  if (spec.dimension == Dimension::kInFlight) {
    return absl::InvalidArgumentError("slots in flight are metered by a gauge");
  }
  if (spec.period < absl::Seconds(1) || spec.period > kMaxPeriod) {
    return absl::InvalidArgumentError("the period must be in [1 s, 31 days]");
  }
  if (spec.burst < absl::ZeroDuration() || spec.burst > spec.period) {
    return absl::InvalidArgumentError("the burst must be in [0, period]");
  }
  if (spec.ramp_start < 0 || spec.ramp_start > kMaxLimit ||
      !(spec.ramp_growth >= 0.001 && spec.ramp_growth <= 1)) {
    return absl::InvalidArgumentError(
        "the ramp must start at 0 (none) or more and grow by 0.1 % to 100 % a minute");
  }
  return spec.mechanics == Mechanics::kWindow ? ValidateWindow(spec) : absl::OkStatus();
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
