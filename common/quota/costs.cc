#include "common/quota/costs.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace headrace::quota {
namespace {

int64_t& At(Costs& costs, Dimension dimension) { return costs[static_cast<size_t>(dimension)]; }
int64_t At(const Costs& costs, Dimension dimension) {
  return costs[static_cast<size_t>(dimension)];
}

}  // namespace

Charging DefaultCharging(absl::string_view provider, absl::string_view endpoint) {
  if (provider == "azure" || provider == "mistral" || provider == "bedrock") return Charging::kSum;
  if (provider != "openai") return Charging::kActuals;
  const bool sums = absl::StrContains(endpoint, ".openai.azure.com") ||
                    absl::StrContains(endpoint, "api.mistral.ai");
  return sums ? Charging::kSum : Charging::kLargerOf;
}

Costs EstimateCosts(const TokenEstimate& estimate, std::optional<int64_t> max_output,
                    Charging charging) {
  const int64_t input = std::max<int64_t>(0, estimate.input);
  int64_t output = std::max<int64_t>(0, estimate.output);
  if (max_output) output = std::min(output, std::max<int64_t>(0, *max_output));
  int64_t tokens = input + output;
  if (max_output && charging == Charging::kLargerOf) tokens = std::max(tokens, *max_output);
  if (max_output && charging == Charging::kSum) tokens = input + std::max<int64_t>(0, *max_output);
  Costs costs{};
  At(costs, Dimension::kRequests) = 1;
  At(costs, Dimension::kTokens) = tokens;
  At(costs, Dimension::kInputTokens) = input;
  At(costs, Dimension::kOutputTokens) = output;
  At(costs, Dimension::kInFlight) = 1;
  return costs;
}

Costs ActualCosts(const Costs& reserved, std::optional<int64_t> input_tokens,
                  std::optional<int64_t> output_tokens, Charging charging) {
  Costs actual = reserved;
  if (input_tokens) At(actual, Dimension::kInputTokens) = std::max<int64_t>(0, *input_tokens);
  if (output_tokens) At(actual, Dimension::kOutputTokens) = std::max<int64_t>(0, *output_tokens);
  if (!input_tokens || !output_tokens) return actual;
  const int64_t used = At(actual, Dimension::kInputTokens) + At(actual, Dimension::kOutputTokens);
  const int64_t kept = charging == Charging::kActuals ? 0 : At(reserved, Dimension::kTokens);
  At(actual, Dimension::kTokens) = std::max(used, kept);
  return actual;
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
