#include "common/quota/knee_window.h"

#include <algorithm>
#include <cmath>

namespace headrace::quota {
namespace {

constexpr double kThousandths = 1000;
// Fewer calls of a model in a window say nothing. Chosen.
constexpr double kLeastCalls = 5;
// Logarithms of times below this spread are taken for this: nothing is known so exactly.
constexpr double kLeastNoise = 0.02;

// One group of a window, with its means and sums of squares about them.
struct Moments {
  explicit Moments(const FlightSample::Group& group) : calls(static_cast<double>(group.calls)) {
    if (group.calls == 0) return;
    x = static_cast<double>(group.x) / calls / kThousandths;
    y = static_cast<double>(group.y) / calls / kThousandths;
    const double square = kThousandths * kThousandths;
    sxx = std::max(0.0, static_cast<double>(group.xx) / square - calls * x * x);
    syy = std::max(0.0, static_cast<double>(group.yy) / square - calls * y * y);
    sxy = static_cast<double>(group.xy) / square - calls * x * y;
  }
  double calls;
  double x = 0;
  double y = 0;
  double sxx = 0;
  double syy = 0;
  double sxy = 0;
};

// The slope of the line through the calls, and the spread about it.
struct Line {
  double slope = 0;
  double variance = 0;
};

Line Fit(double sxx, double syy, double sxy, double freedom) {
  Line line;
  // Twice as many tokens take at most twice as long; a slope from answers of one length is none.
  if (syy > 1e-3 * freedom) line.slope = std::clamp(sxy / syy, 0.0, 1.0);
  const double rest = sxx - 2 * line.slope * sxy + line.slope * line.slope * syy;
  line.variance = std::max(kLeastNoise * kLeastNoise, rest / std::max(1.0, freedom));
  return line;
}

// The share of the calls in flight that end with an answer.
double Useful(const KneeWindow& window) {
  if (window.sum.ended_us <= 0 || window.sum.answered_us <= 0) return 1;
  return static_cast<double>(window.sum.answered_us) / static_cast<double>(window.sum.ended_us);
}

}  // namespace

void KneeWindow::Add(const FlightSample& sample, double in_flight, int64_t span_us) {
  sum += sample;
  in_flight_us += in_flight * static_cast<double>(span_us);
  elapsed_us += span_us;
}

KneeWindow& KneeWindow::operator+=(const KneeWindow& other) {
  sum += other.sum;
  in_flight_us += other.in_flight_us;
  elapsed_us += other.elapsed_us;
  return *this;
}

double KneeGain::elasticity_error() const { return error / std::abs(in_flight); }

bool Compare(const KneeWindow& before, const KneeWindow& after, KneeGain* gain) {
  if (before.in_flight() <= 0 || after.in_flight() <= 0) return false;
  double weighted = 0;
  double weights = 0;
  for (size_t i = 0; i < FlightSample::kGroups; ++i) {
    const Moments a(before.sum.groups[i]);
    const Moments b(after.sum.groups[i]);
    if (a.calls < kLeastCalls || b.calls < kLeastCalls) continue;
    const Line line = Fit(a.sxx + b.sxx, a.syy + b.syy, a.sxy + b.sxy, a.calls + b.calls - 3);
    const double weight = 1 / (line.variance * (1 / a.calls + 1 / b.calls));
    weighted += weight * ((b.x - a.x) - line.slope * (b.y - a.y));
    weights += weight;
  }
  if (weights <= 0) return false;
  gain->in_flight = std::log(after.in_flight() / before.in_flight());
  gain->latency = weighted / weights;
  gain->calls = gain->in_flight - gain->latency + std::log(Useful(after) / Useful(before));
  gain->error = std::sqrt(1 / weights);
  return true;
}

double KneeNoise(const KneeWindow& window) {
  double squares = 0;
  double calls = 0;
  for (const FlightSample::Group& group : window.sum.groups) {
    const Moments m(group);
    if (m.calls < kLeastCalls) continue;
    squares += Fit(m.sxx, m.syy, m.sxy, m.calls - 2).variance * m.calls;
    calls += m.calls;
  }
  return calls > 0 ? std::sqrt(squares / calls) : 1;
}

}  // namespace headrace::quota
