// From estimates and usage to costs: what an attempt reserves, and what it is settled to. Providers
// differ in what they charge, see docs/quota.md.
#ifndef HEADRACE_COMMON_QUOTA_COSTS_H_
#define HEADRACE_COMMON_QUOTA_COSTS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "common/quota/estimator.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

// When the provider decides what a call costs in tokens.
enum class Charging : uint8_t {
  kActuals,   // estimated at the start, corrected to what was used (Anthropic, most servers)
  kLargerOf,  // at the start: the larger of max_tokens and an estimate; kept (OpenAI)
  kSum,       // at the start: the estimated prompt plus max_tokens; kept (Azure, Mistral, Bedrock)
};

// The rule of the dialect `provider` ("openai", "anthropic", ...) at the base URL `endpoint`; empty
// means the provider's own. A host that speaks the openai dialect is taken to charge as OpenAI does
// unless it is known not to: that is never less than what was used.
Charging DefaultCharging(absl::string_view provider, absl::string_view endpoint = {});

// What to reserve: one request, one slot, and tokens by the rule. `max_output` is the request's own
// cap on output tokens.
Costs EstimateCosts(const TokenEstimate& estimate, std::optional<int64_t> max_output,
                    Charging charging);

// What a finished call was charged, for Settlement::kCharged. Usage that the provider did not say
// is taken as reserved. Under the rules that charge at the start, what was reserved stays, or the
// usage when it was larger.
Costs ActualCosts(const Costs& reserved, std::optional<int64_t> input_tokens,
                  std::optional<int64_t> output_tokens, Charging charging);

// What of `reserved` and `actual` stays charged after `settlement`: the table behind Settle().
Costs SettledCosts(Settlement settlement, const Costs& reserved, const Costs& actual);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_COSTS_H_
