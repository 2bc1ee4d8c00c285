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
  kSum,       // at the start: the estimated prompt plus max_tokens; kept (Azure, Mistral)
};

std::optional<Charging> ParseCharging(absl::string_view name);  // "actuals", "larger", "sum"

// What a provider charges; profiles.cc has each provider's.
struct ChargeRules {
  Charging charging = Charging::kActuals;
  int64_t unset_max_output = 0;  // what kSum counts where a call sets no max_tokens; 0: estimate
  bool reserves_max_output = false;     // kActuals, but max_tokens is held until the end (Bedrock)
  bool cached_input_is_free = false;    // what was read from a prompt cache counts towards no limit
  bool output_counts_by_model = false;  // `output_factor` depends on the model (Bedrock)
  int64_t output_factor = 1;            // what an output token counts
  bool rejected_calls_count = true;     // a call that got a 429 is a request
  bool bad_requests_cost = false;       // one that was refused as wrong has cost its tokens (Azure)
};

// The rules of the pool's profile for one model; "auto" or empty: by the dialect `provider`
// ("openai", "anthropic", ...) and the base URL `endpoint`, which may be empty for the provider's
// own. An unknown host that speaks the openai dialect is taken to charge as OpenAI does: that is
// never less than what was used.
ChargeRules ChargeRulesOf(absl::string_view profile, absl::string_view provider,
                          absl::string_view endpoint, absl::string_view model);
inline ChargeRules DefaultCharging(absl::string_view provider, absl::string_view endpoint = {}) {
  return ChargeRulesOf("auto", provider, endpoint, {});
}

// What to reserve: one request, one slot, and tokens by the rule. `max_output` is the request's own
// cap on output tokens.
Costs EstimateCosts(const TokenEstimate& estimate, std::optional<int64_t> max_output,
                    const ChargeRules& rules);

// What a finished call was charged, for Settlement::kCharged. Usage that the provider did not say
// is taken as reserved. Under the rules that charge at the start, what was reserved stays, or the
// usage when it was larger. `cached` is the part of the input that a prompt cache gave.
Costs ActualCosts(const Costs& reserved, std::optional<int64_t> input_tokens,
                  std::optional<int64_t> output_tokens, const ChargeRules& rules,
                  std::optional<int64_t> cached = std::nullopt);

// `settlement` as this provider counts it; `throttled`: the call was refused for its rate.
Settlement SettlementBy(const ChargeRules& rules, Settlement settlement, bool throttled);

// What of `reserved` and `actual` stays charged after `settlement`: the table behind Settle().
Costs SettledCosts(Settlement settlement, const Costs& reserved, const Costs& actual);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_COSTS_H_
