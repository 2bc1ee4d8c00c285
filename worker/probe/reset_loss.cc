// What the headers say about resets, as a theory explains it.
#include <algorithm>
#include <cmath>
#include <deque>

#include "worker/probe/theory.h"

namespace headrace::probe {
namespace {

double Beyond(double off, double slack) { return std::max(0.0, off - slack); }

// A loss of 1 for a reset that is off by a tenth beyond its slack or more.
double ResetMiss(double seen, double expected, double slack) {
  const double off = Beyond(std::fabs(seen - expected), slack);
  return std::min(off / (0.1 * slack + 1e-6), 3.0);
}

}  // namespace

double ResetLoss(const Series& series, const Theory& theory) {
  constexpr double kUnrelated = 1.5;
  double first = 0;   // of the rule that providers of this kind state
  double second = 0;  // of another one
  double count = 0;
  double oldest = -1e18;
  double rolling_end = theory.phase_s;
  std::deque<double> sent;
  for (const Sample& s : series.samples) {
    const double counted = CountedAt(s);
    sent.push_back(counted);
    if (theory.counting == Counting::kRolling && counted >= rolling_end) {
      rolling_end = counted + theory.period_s;
    }
    if (!s.reset_s || !s.remaining || s.overlapped) continue;
    const double at = theory.shown == Shown::kEnd ? s.head_s : counted;
    const double slack = series.reset_grain_s + kTimingSlackS;
    ++count;
    switch (theory.counting) {
      case Counting::kBucket: {
        const double unit = theory.rate > 0 ? 1 / theory.rate : 0;
        const double until_full = std::max(0.0, theory.top - *s.remaining) * unit;
        const double rounding = std::max(series.quantum, 1.0) * unit;
        first += ResetMiss(*s.reset_s, until_full, slack + rounding);
        second += ResetMiss(*s.reset_s, unit, slack);
        break;
      }
      case Counting::kFixed: {
        const double into = std::fmod(at - theory.phase_s, theory.period_s);
        const double left = theory.period_s - (into < 0 ? into + theory.period_s : into);
        // Around the turn both ends are right.
        const double miss = ResetMiss(*s.reset_s, left, slack);
        first += std::min(miss, ResetMiss(std::fabs(*s.reset_s - left), theory.period_s, slack));
        second += kUnrelated;
        break;
      }
      case Counting::kRolling:
        first += ResetMiss(*s.reset_s, rolling_end - at, slack);
        second += kUnrelated;
        break;
      case Counting::kSliding:
        while (!sent.empty() && sent.front() + theory.period_s <= at) sent.pop_front();
        oldest = sent.empty() ? at : sent.front();
        first += ResetMiss(*s.reset_s, theory.period_s, slack);
        second += ResetMiss(*s.reset_s, oldest + theory.period_s - at, slack);
        break;
    }
  }
  return std::min({first, second, kUnrelated * count});
}

}  // namespace headrace::probe
