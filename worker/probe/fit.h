// Finds the theory that explains a limit best, and how much worse every other answer to each single
// question would be. Pure; some milliseconds.
#ifndef HEADRACE_WORKER_PROBE_FIT_H_
#define HEADRACE_WORKER_PROBE_FIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/probe/theory.h"

namespace headrace::probe {

// How sure an answer is: by how much worse the next best one explains what was seen.
enum class Confidence : uint8_t { kCertain, kLikely, kUnclear, kNotSeen };
absl::string_view ConfidenceName(Confidence confidence);

// The least loss of any theory that answers a question in this way.
struct Alternative {
  std::string name;
  double loss = 0;
  Theory theory;
  int64_t order = 0;  // in which theories were tried: the usual ones first
};

struct Fit {
  bool seen = false;   // there were at least two answers with what is left
  bool moved = false;  // and it was not always the same
  // Some theory explains nearly all answers. If not, nothing is told apart: somebody else uses the
  // quota, or it is counted in a way that is none of these.
  bool explained = false;
  Theory best;
  double loss = 0;
  int compared = 0;         // answers
  int less_than_due = 0;    // of these, with less left than the best theory allows
  std::vector<Step> steps;  // of the best theory

  // Each in the order of their losses; the first is the best theory's.
  std::vector<Alternative> counting;  // "continuous", "minute", ... with the kind of window
  std::vector<Alternative> window;    // the same as a job file says it
  std::vector<Alternative> charge;    // "larger", "sum", "actuals", "prompt", "nothing"
  std::vector<Alternative> at_send;
  std::vector<Alternative> at_end;
  std::vector<Alternative> shown;
  std::vector<Alternative> refused;  // "count", "are free"
  std::vector<Alternative> throttled;
};

// With `use_resets`, what the headers say about resets counts, too; without, only how the quota
// behaved.
Fit FitSeries(const Series& series, bool use_resets = true);

// Of the first of `alternatives`. Losses are in units where kMostLoss is one plain contradiction.
Confidence ConfidenceOf(const std::vector<Alternative>& alternatives);
// Those that explain it nearly as well as the first, which is among them.
std::vector<std::string> AsGood(const std::vector<Alternative>& alternatives);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_FIT_H_
