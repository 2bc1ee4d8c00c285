// The one place that decides whether an item's attempt is followed by another.
#ifndef HEADRACE_WORKER_BATCH_RETRY_RULE_H_
#define HEADRACE_WORKER_BATCH_RETRY_RULE_H_

#include <optional>

#include "absl/time/time.h"
#include "common/async/backoff.h"
#include "common/base/random.h"
#include "common/outcome/error_class.h"

namespace headrace {

struct RetryOptions {
  int attempts = 3;  // calls of one item that count, in one pass
  BackoffOptions backoff;
  absl::Duration max_retry_after = absl::Minutes(10);  // a longer hint is not waited for
};

// What an item's failed attempts came to so far. Pure.
class RetryRule {
 public:
  struct Decision {
    enum class Kind {
      kRetry,   // after `wait`
      kFinal,   // the item has failed
      kParked,  // the provider asks for a longer wait than max_retry_after
    };
    Kind kind = Kind::kFinal;
    absl::Duration wait;
  };

  // Attempts that cost no budget have no end: however short a job wants its waits, theirs double
  // from the first up to the second at least. Otherwise a provider that only says "later" would get
  // thousands of calls a second (case B3). Chosen, not measured.
  static constexpr absl::Duration kMinUncountedDelay = absl::Milliseconds(100);
  static constexpr absl::Duration kMinUncountedMaxDelay = absl::Seconds(1);

  explicit RetryRule(const RetryOptions& options);

  // After an attempt that failed with `error_class`; `hint` is the provider's Retry-After. An
  // attempt that may have been billed always counts: "later" in the middle of an answer costs
  // money.
  Decision Next(ErrorClass error_class, std::optional<absl::Duration> hint, Random* random,
                bool possibly_billed = false);
  // After an attempt that never left this machine, on the way to a provider that answers otherwise:
  // nothing is counted.
  Decision NextUnsent(Random* random);

  int counted() const { return counted_; }      // attempts taken from the budget
  int throttled() const { return throttled_; }  // attempts that were only told "later"

 private:
  const RetryOptions options_;
  BackoffOptions uncounted_;  // of attempts that cost no budget
  int counted_ = 0;
  int throttled_ = 0;
  int unsent_ = 0;
  int once_ = 0;  // failures of classes that are retried only once
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_BATCH_RETRY_RULE_H_
