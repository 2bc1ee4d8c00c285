#include "worker/batch/retry_rule.h"

#include <algorithm>

namespace headrace {

RetryRule::RetryRule(const RetryOptions& options) : options_(options), uncounted_(options.backoff) {
  uncounted_.first_delay = std::max(uncounted_.first_delay, kMinUncountedDelay);
  uncounted_.max_delay = std::max(uncounted_.max_delay, kMinUncountedMaxDelay);
}

RetryRule::Decision RetryRule::Next(ErrorClass error_class, std::optional<absl::Duration> hint,
                                    Random* random, bool possibly_billed) {
  using Kind = Decision::Kind;
  const AttemptRule rule = GetErrorClassInfo(error_class).attempt;
  if (rule == AttemptRule::kThrottle) {
    if (hint.has_value() && *hint > options_.max_retry_after) return {Kind::kParked, *hint};
    const int earlier = throttled_++;
    if (possibly_billed && ++counted_ >= options_.attempts) return {Kind::kFinal, {}};
    return {Kind::kRetry, BackoffDelay(uncounted_, earlier, hint, random)};
  }
  ++counted_;
  if (rule == AttemptRule::kFinal || counted_ >= options_.attempts) return {Kind::kFinal, {}};
  if (rule == AttemptRule::kRetryOnce && ++once_ > 1) return {Kind::kFinal, {}};
  if (hint.has_value() && *hint > options_.max_retry_after) return {Kind::kFinal, {}};
  return {Kind::kRetry, BackoffDelay(options_.backoff, counted_ - 1, hint, random)};
}

RetryRule::Decision RetryRule::NextUnsent(Random* random) {
  return {Decision::Kind::kRetry, BackoffDelay(uncounted_, unsent_++, std::nullopt, random)};
}

}  // namespace headrace
