#include "worker/batch/retry_rule.h"

namespace headrace {

RetryRule::Decision RetryRule::Next(ErrorClass error_class, std::optional<absl::Duration> hint,
                                    Random* random) {
  using Kind = Decision::Kind;
  const AttemptRule rule = GetErrorClassInfo(error_class).attempt;
  if (rule == AttemptRule::kThrottle) {
    if (hint.has_value() && *hint > options_.max_retry_after) return {Kind::kParked, *hint};
    return {Kind::kRetry, BackoffDelay(options_.backoff, throttled_++, hint, random)};
  }
  ++counted_;
  if (rule == AttemptRule::kFinal || counted_ >= options_.attempts) return {Kind::kFinal, {}};
  if (rule == AttemptRule::kRetryOnce && ++once_ > 1) return {Kind::kFinal, {}};
  if (hint.has_value() && *hint > options_.max_retry_after) return {Kind::kFinal, {}};
  return {Kind::kRetry, BackoffDelay(options_.backoff, counted_ - 1, hint, random)};
}

}  // namespace headrace
