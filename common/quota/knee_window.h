// A stretch of time at one number of calls in flight, and what two of them say about each other.
#ifndef HEADRACE_COMMON_QUOTA_KNEE_WINDOW_H_
#define HEADRACE_COMMON_QUOTA_KNEE_WINDOW_H_

#include <cstdint>

#include "common/quota/flight_sample.h"

namespace headrace::quota {

struct KneeWindow {
  FlightSample sum;
  double in_flight_us = 0;  // calls in flight times time
  int64_t elapsed_us = 0;

  bool empty() const { return elapsed_us == 0; }
  double in_flight() const {
    return elapsed_us > 0 ? in_flight_us / static_cast<double>(elapsed_us) : 0;
  }
  int64_t answered() const { return sum.answered; }
  double calls_per_us() const {
    return elapsed_us > 0 ? static_cast<double>(sum.answered) / static_cast<double>(elapsed_us) : 0;
  }
  void Add(const FlightSample& sample, double in_flight, int64_t span_us);
  KneeWindow& operator+=(const KneeWindow& other);
};

// How a window differs from another, as logarithms of ratios.
//
// Throughput is not counted but computed by Little's law, calls per second = in flight / time in
// flight, because the length of answers, which has nothing to do with the provider's state, can be
// taken out of the times: they are compared at the same number of tokens, along the line through
// the calls of both windows (regression of log time on log tokens, model by model), and what is
// left is what differs. That leaves a known error, so a decision knows how sure it is.
struct KneeGain {
  double in_flight = 0;
  double latency = 0;  // of calls of the same length
  double calls = 0;    // answered calls per second
  double error = 0;    // standard error of `latency` and `calls`

  // What the share of more calls is of the share of more in flight: 1 below the knee, where calls
  // do not touch each other, 0 where more only wait longer, below 0 where more is harmful.
  double elasticity() const { return calls / in_flight; }
  double elasticity_error() const;
};

// False when the windows have too little in common.
bool Compare(const KneeWindow& before, const KneeWindow& after, KneeGain* gain);

// The spread of the logarithm of the time in flight of calls of the same length.
double KneeNoise(const KneeWindow& window);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_KNEE_WINDOW_H_
