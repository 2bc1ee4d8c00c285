// Turns by weight: stride scheduling over the models of a job, and over the jobs of a coordinator.
#ifndef HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_
#define HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace headrace {

// Each party has a virtual time that grows by items / weight when it is served; the one that is
// furthest behind is next. One that had nothing to do is lifted to the others, so it gets no burst
// for the time that it was away.
class WeightedTurns {
 public:
  WeightedTurns() = default;
  // Weights are positive.
  explicit WeightedTurns(std::vector<double> weights)
      : weights_(std::move(weights)), served_(weights_.size(), 0) {
    for (double weight : weights_) HR_CHECK(weight > 0);
  }

  // One more party, with the next index; it begins level with the others.
  size_t Add(double weight) {
    HR_CHECK(weight > 0);
    weights_.push_back(weight);
    served_.push_back(floor_);
    return weights_.size() - 1;
  }

  // The next party among those for which `can(index)` holds.
  template <typename Predicate>
  std::optional<size_t> Next(Predicate can) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (can(i) && (!best.has_value() || served_[i] < served_[*best])) best = i;
    }
    return best;
  }

  void Serve(size_t index, double items) {
    // What lags behind the one served last was away.
    if (served_[index] < floor_) served_[index] = floor_;
    floor_ = served_[index];
    served_[index] += items / weights_[index];
  }

 private:
  std::vector<double> weights_;
  std::vector<double> served_;
  double floor_ = 0;  // the virtual time at the last turn
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_
