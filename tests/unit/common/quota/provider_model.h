// A provider that meters requests and tokens, for tests of what our pools make of it.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_PROVIDER_MODEL_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_PROVIDER_MODEL_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/time.h"

namespace headrace::quota {

// A continuous bucket in floating point, written independently of common/quota/bucket.h.
class LeakyBucket {
 public:
  // `capacity` is the credit that can be saved up, in time at the full rate.
  LeakyBucket(double per_minute, absl::Duration capacity, MonoTime now)
      : rate_(per_minute / 60),
        capacity_(rate_ * absl::ToDoubleSeconds(capacity)),
        level_(capacity_),
        last_(now) {}

  bool Has(MonoTime now, double cost) {
    level_ = std::min(capacity_, level_ + rate_ * absl::ToDoubleSeconds(now - last_));
    last_ = now;
    return level_ >= cost;
  }
  void Take(double cost) { level_ -= cost; }

 private:
  const double rate_;
  const double capacity_;
  double level_;
  MonoTime last_;
};

struct ProviderOptions {
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  absl::Duration capacity = absl::Minutes(1);
  bool keeps_estimate = false;  // charges what was announced and never gives back
  bool counts_failed = true;    // rejected requests are charged one request
};

class ProviderModel {
 public:
  ProviderModel(ProviderOptions options, MonoTime now)
      : options_(options),
        requests_(static_cast<double>(options.requests_per_minute), options.capacity, now),
        tokens_(static_cast<double>(options.tokens_per_minute), options.capacity, now) {}

  // A call that announces `announced` tokens and will use `actual`. False: 429.
  bool Call(MonoTime now, int64_t announced, int64_t actual) {
    const double tokens = static_cast<double>(options_.keeps_estimate ? announced : actual);
    const bool requests_fit = options_.requests_per_minute == 0 || requests_.Has(now, 1);
    const bool tokens_fit = options_.tokens_per_minute == 0 || tokens_.Has(now, tokens);
    if (!requests_fit || !tokens_fit) {
      ++rejected_;
      if (options_.counts_failed) requests_.Take(1);
      return false;
    }
    requests_.Take(1);
    tokens_.Take(tokens);
    ++accepted_;
    charged_ += static_cast<int64_t>(tokens);
    return true;
  }

  int64_t rejected() const { return rejected_; }
  int64_t accepted() const { return accepted_; }
  int64_t charged() const { return charged_; }  // tokens

 private:
  const ProviderOptions options_;
  LeakyBucket requests_;
  LeakyBucket tokens_;
  int64_t rejected_ = 0;
  int64_t accepted_ = 0;
  int64_t charged_ = 0;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_PROVIDER_MODEL_H_
