// Turns by weight: stride scheduling over the models of a job.
#ifndef HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_
#define HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace headrace {

// Each model has a virtual time that grows by items / weight when it is served; the one that is
// furthest behind is next. A model that had nothing to do is lifted to the others, so it gets no
// burst for the time that it was away.
class WeightedTurns {
 public:
  // Weights are positive.
  explicit WeightedTurns(std::vector<double> weights)
      : weights_(std::move(weights)), served_(weights_.size(), 0) {
    for (double weight : weights_) HR_CHECK(weight > 0);
  }

  // The next model among those for which `can(index)` holds.
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
  const std::vector<double> weights_;
  std::vector<double> served_;
  double floor_ = 0;  // the virtual time at the last turn
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_WEIGHTS_H_
