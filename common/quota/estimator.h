// Estimates, before a call, what the provider will charge for it, and learns from what it charged.
#ifndef HEADRACE_COMMON_QUOTA_ESTIMATOR_H_
#define HEADRACE_COMMON_QUOTA_ESTIMATOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"

namespace headrace::quota {

// Countable properties of a prompt that token counts depend on.
struct PromptFeatures {
  int64_t letters = 0;  // ASCII letters and spaces
  int64_t symbols = 0;  // ASCII digits, punctuation, control
  int64_t latin = 0;    // other characters below U+0250
  int64_t cjk = 0;      // Han, kana, hangul
  int64_t other = 0;    // every other code point
  int64_t messages = 0;
  int64_t images = 0;
};

// Adds the characters of `text` (UTF-8, invalid bytes count as other) to *features. Linear, about
// 1 ns per byte.
void CountFeatures(absl::string_view text, PromptFeatures* features);

struct TokenEstimate {
  int64_t input = 0;
  int64_t output = 0;
};

// One per (model, job). Starts from priors; tens of calls suffice for a constant template.
class TokenEstimator {
 public:
  // `max_output` caps output estimates (max_tokens of the request), when set.
  explicit TokenEstimator(std::optional<int64_t> max_output);
  ~TokenEstimator();

  TokenEstimate Estimate(const PromptFeatures& features) const;
  // Absent: the provider did not say.
  void Learn(const PromptFeatures& features, std::optional<int64_t> input,
             std::optional<int64_t> output);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_ESTIMATOR_H_
