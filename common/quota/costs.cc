#include "common/quota/costs.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "common/quota/profiles.h"

namespace headrace::quota {
namespace {

int64_t& At(Costs& costs, Dimension dimension) { return costs[static_cast<size_t>(dimension)]; }
int64_t At(const Costs& costs, Dimension dimension) {
  return costs[static_cast<size_t>(dimension)];
}

// What an output token of a model on Bedrock counts (AWS quota pages as quoted in public code,
// 2026-11): 15 for Claude Opus 4.8, 10 for Sonnet 5, 5 for the Claudes before, else 1.
int64_t BurndownOf(absl::string_view model) {
  if (!absl::StrContains(model, "claude")) return 1;
  if (absl::StrContains(model, "opus-4-8")) return 15;
  if (absl::StrContains(model, "sonnet-5")) return 10;
  return 5;
}

}  // namespace

std::optional<Charging> ParseCharging(absl::string_view name) {
  if (name == "actuals") return Charging::kActuals;
  if (name == "larger") return Charging::kLargerOf;
  if (name == "sum") return Charging::kSum;
  return std::nullopt;
}

ChargeRules ChargeRulesOf(absl::string_view profile, absl::string_view provider,
                          absl::string_view endpoint, absl::string_view model) {
  const Profile* found = profile.empty() || profile == "auto" ? nullptr : FindProfile(profile);
  if (found == nullptr) found = ProfileOfEndpoint(provider, endpoint);
  ChargeRules rules = found->charge;
  if (found->name == "generic" && provider == "openai") rules.charging = Charging::kLargerOf;
  if (found->name == "generic" && provider == "anthropic") rules.cached_input_is_free = true;
  // Anthropic counts cache reads for Haiku 3.5 (rate-limits page, 2026-11).
  if (absl::StrContains(model, "3-5-haiku")) rules.cached_input_is_free = false;
  if (rules.output_counts_by_model) rules.output_factor = BurndownOf(model);
  return rules;
}

Costs EstimateCosts(const TokenEstimate& estimate, std::optional<int64_t> max_output,
                    const ChargeRules& rules) {
  const int64_t input = std::max<int64_t>(0, estimate.input);
  int64_t output = std::max<int64_t>(0, estimate.output);
  if (max_output) output = std::min(output, std::max<int64_t>(0, *max_output));
  const int64_t cap = max_output ? std::max<int64_t>(0, *max_output) : rules.unset_max_output;
  if (rules.reserves_max_output && max_output) output = cap;
  int64_t tokens = input + output;
  if (max_output && rules.charging == Charging::kLargerOf) tokens = std::max(tokens, cap);
  if (cap > 0 && rules.charging == Charging::kSum) tokens = input + cap;
  Costs costs{};
  At(costs, Dimension::kRequests) = 1;
  At(costs, Dimension::kTokens) = tokens;
  At(costs, Dimension::kInputTokens) = input;
  At(costs, Dimension::kOutputTokens) = output;
  At(costs, Dimension::kInFlight) = 1;
  return costs;
}

Costs ActualCosts(const Costs& reserved, std::optional<int64_t> input_tokens,
                  std::optional<int64_t> output_tokens, const ChargeRules& rules,
                  std::optional<int64_t> cached) {
  Costs actual = reserved;
  if (input_tokens) {
    const int64_t free = rules.cached_input_is_free ? std::max<int64_t>(0, cached.value_or(0)) : 0;
    At(actual, Dimension::kInputTokens) = std::max<int64_t>(0, *input_tokens - free);
  }
  if (output_tokens) {
    const int64_t output = std::clamp<int64_t>(*output_tokens, 0, int64_t{1} << 50);
    At(actual, Dimension::kOutputTokens) = output * rules.output_factor;
  }
  if (!input_tokens || !output_tokens) return actual;
  const int64_t used = At(actual, Dimension::kInputTokens) + At(actual, Dimension::kOutputTokens);
  const int64_t kept = rules.charging == Charging::kActuals ? 0 : At(reserved, Dimension::kTokens);
  At(actual, Dimension::kTokens) = std::max(used, kept);
  return actual;
}

Settlement SettlementBy(const ChargeRules& rules, Settlement settlement, bool throttled) {
  if (settlement != Settlement::kRejected) return settlement;
  if (throttled) return rules.rejected_calls_count ? settlement : Settlement::kNotSent;
  return rules.bad_requests_cost ? Settlement::kUnknown : settlement;
}

Costs SettledCosts(Settlement settlement, const Costs& reserved, const Costs& actual) {
  Costs settled{};
  switch (settlement) {
    case Settlement::kUnknown:
      settled = reserved;
      break;
    case Settlement::kNotSent:
      break;
    case Settlement::kRejected:
      At(settled, Dimension::kRequests) = At(reserved, Dimension::kRequests);
      break;
    case Settlement::kCharged:
      for (size_t i = 0; i < kDimensionCount; ++i) settled[i] = std::max<int64_t>(0, actual[i]);
      // A call that was made is a request, whoever forgets to say so.
      At(settled, Dimension::kRequests) =
          std::max(At(settled, Dimension::kRequests), At(reserved, Dimension::kRequests));
      break;
  }
  return settled;
}

}  // namespace headrace::quota
