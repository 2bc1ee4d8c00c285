#include "common/quota/estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace headrace::quota {
namespace {

constexpr size_t kFeatures = 7;
using Vector = std::array<double, kFeatures>;

// Tokens per letter, symbol, latin, CJK and other character, message and image before anything was
// observed. Prose has about four letters to a token; the rest is chosen on the high side, as an
// estimate that is too low meets the quota and one that is too high only waits.
constexpr Vector kPrior = {0.25, 0.5, 0.5, 1.0, 0.8, 4.0, 800.0};
constexpr double kPriorDeviation = 0.5;  // of each coefficient, as a share of it
// A coefficient stays within this factor of its prior: bytes-as-tokens to words-as-tokens.
constexpr double kMaxFactor = 8;
// The expected error of one observation as a share of the estimate.
constexpr double kNoise = 0.1;
// Learning from one call: no further than this factor from the estimate at first, and than this
// many of the usual errors later, so one wrong pairing of prompt and usage cannot ruin what was
// learnt.
constexpr int64_t kFirstCalls = 8;
constexpr double kFirstFactor = 4;
constexpr double kLaterErrors = 4;
constexpr double kMinTrust = 0.25;
constexpr double kMaxTokens = 1e9;  // usage beyond it is nonsense

constexpr size_t kWindow = 256;   // observations behind a quantile
constexpr int64_t kRefresh = 16;  // observations between two looks at it
constexpr double kInputQuantile = 0.9;
constexpr double kOutputQuantile = 0.8;
constexpr double kPriorMargin = 0.1;
constexpr double kMaxMargin = 3;
constexpr int64_t kPriorOutput = 256;

Vector ToVector(const PromptFeatures& f) {
  return {static_cast<double>(f.letters), static_cast<double>(f.symbols),
          static_cast<double>(f.latin),   static_cast<double>(f.cjk),
          static_cast<double>(f.other),   static_cast<double>(f.messages),
          static_cast<double>(f.images)};
}

// A quantile of the last kWindow values, looked up anew every few values.
class WindowQuantile {
 public:
  WindowQuantile(double q, double prior) : q_(q), value_(prior) {}

  double value() const { return value_; }

  void Add(double value) {
    if (values_.size() < kWindow) {
      values_.push_back(value);
    } else {
      values_[static_cast<size_t>(count_) % kWindow] = value;
    }
    ++count_;
    if (count_ > kRefresh && count_ % kRefresh != 0) return;
    sorted_ = values_;
    const size_t rank =
        std::min(values_.size() - 1, static_cast<size_t>(q_ * static_cast<double>(values_.size())));
    std::nth_element(sorted_.begin(), sorted_.begin() + static_cast<ptrdiff_t>(rank),
                     sorted_.end());
    value_ = sorted_[rank];
  }

 private:
  const double q_;
  std::vector<double> values_;
  std::vector<double> sorted_;
  int64_t count_ = 0;
  double value_;
};

// Linear regression of tokens on features, by recursive least squares from a prior. An observation
// weighs less the larger the estimate, because errors grow with size.
class Regression {
 public:
  Regression() {
    for (size_t i = 0; i < kFeatures; ++i) {
      covariance_[i].fill(0);
      covariance_[i][i] = kPrior[i] * kPriorDeviation * kPrior[i] * kPriorDeviation;
    }
  }

  double Mean(const Vector& x) const {
    double mean = 0;
    for (size_t i = 0; i < kFeatures; ++i) mean += coefficients_[i] * x[i];
    return mean;
  }

  // Moves the estimate for `x` towards `tokens`.
  void Learn(const Vector& x, double tokens) {
    const double mean = Mean(x);
    const double noise = std::max(1.0, kNoise * mean);
    Vector px{};
    double variance = noise * noise;
    for (size_t i = 0; i < kFeatures; ++i) {
      for (size_t j = 0; j < kFeatures; ++j) px[i] += covariance_[i][j] * x[j];
      variance += x[i] * px[i];
    }
    const double error = tokens - mean;
    for (size_t i = 0; i < kFeatures; ++i) {
      coefficients_[i] = std::clamp(coefficients_[i] + px[i] / variance * error,
                                    kPrior[i] / kMaxFactor, kPrior[i] * kMaxFactor);
      for (size_t j = 0; j < kFeatures; ++j) covariance_[i][j] -= px[i] * px[j] / variance;
      // Rounding must not make a variance negative, and learning must not end for good.
      const double least = kPrior[i] * kPrior[i] * 1e-6;
      covariance_[i][i] = std::max(covariance_[i][i], least);
    }
  }

 private:
  Vector coefficients_ = kPrior;
  std::array<Vector, kFeatures> covariance_{};
};

}  // namespace

class TokenEstimator::Impl {
 public:
  explicit Impl(std::optional<int64_t> max_output)
      : max_output_(max_output),
        margin_(kInputQuantile, kPriorMargin),
        output_(kOutputQuantile, static_cast<double>(kPriorOutput)) {}

  TokenEstimate Estimate(const PromptFeatures& features) const {
    const double mean = regression_.Mean(ToVector(features));
    const double margin = std::clamp(margin_.value(), -0.5, kMaxMargin);
    TokenEstimate estimate;
    estimate.input = static_cast<int64_t>(std::ceil(std::min(mean * (1 + margin), kMaxTokens)));
    estimate.output = static_cast<int64_t>(std::llround(output_.value()));
    if (max_output_)
      estimate.output = std::min(estimate.output, std::max<int64_t>(0, *max_output_));
    return estimate;
  }

  void LearnInput(const PromptFeatures& features, int64_t input) {
    const Vector x = ToVector(features);
    const double mean = regression_.Mean(x);
    if (input <= 0 || static_cast<double>(input) > kMaxTokens || mean <= 0) return;
    const double tokens = static_cast<double>(input);
    double low = mean / kFirstFactor;
    double high = mean * kFirstFactor;
    if (learnt_ >= kFirstCalls) {
      const double trust = std::max(kMinTrust, kLaterErrors * usual_error_);
      low = std::max(low, mean * (1 - trust));
      high = std::min(high, mean * (1 + trust));
    }
    const double bounded = std::clamp(tokens, low, high);
    ++learnt_;
    margin_.Add(bounded / mean - 1);
    const double rate = std::max(0.05, 1.0 / static_cast<double>(learnt_));
    usual_error_ += rate * (std::abs(bounded / mean - 1) - usual_error_);
    regression_.Learn(x, bounded);
  }

  void LearnOutput(int64_t output) {
    if (output < 0 || static_cast<double>(output) > kMaxTokens) return;
    output_.Add(static_cast<double>(output));
  }

 private:
  const std::optional<int64_t> max_output_;
  Regression regression_;
  WindowQuantile margin_;  // of the input, relative to the mean
  WindowQuantile output_;
  int64_t learnt_ = 0;
  double usual_error_ = 0;  // mean |relative error|, recent calls weigh more
};

TokenEstimator::TokenEstimator(std::optional<int64_t> max_output)
    : impl_(std::make_unique<Impl>(max_output)) {}

TokenEstimator::~TokenEstimator() = default;

TokenEstimate TokenEstimator::Estimate(const PromptFeatures& features) const {
  return impl_->Estimate(features);
}

void TokenEstimator::Learn(const PromptFeatures& features, std::optional<int64_t> input,
                           std::optional<int64_t> output) {
  if (input) impl_->LearnInput(features, *input);
  if (output) impl_->LearnOutput(*output);
}

}  // namespace headrace::quota
