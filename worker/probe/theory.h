// One explanation of how a provider counts one limit, and how well it explains what was seen.
//
// A theory predicts from each answer what the next one says is left: the level that was shown, what
// comes back in between, what the request before gives back when it is settled, and what this one
// is charged. The distance between prediction and header is its loss. Predictions are intervals:
// what nobody can know exactly (when a request was counted, what the provider takes the prompt for)
// makes them wider, not wrong. Pure.
#ifndef HEADRACE_WORKER_PROBE_THEORY_H_
#define HEADRACE_WORKER_PROBE_THEORY_H_

#include <cstdint>
#include <vector>

#include "worker/probe/series.h"

namespace headrace::probe {

// How what was used comes back.
enum class Counting : uint8_t {
  kBucket,   // all the time, at limit / period
  kFixed,    // all at once, at fixed times, a period apart
  kRolling,  // all at once, a period after the first request that was counted
  kSliding,  // each request's part by itself, a period after it
};
enum class AtSend : uint8_t {
  kNothing,
  kOne,        // a request
  kPrompt,     // the prompt
  kMaxTokens,  // max_tokens, whatever the prompt
  kLarger,     // the larger of both
  kSum,        // both
};
enum class AtEnd : uint8_t {
  kKept,      // what was charged at the start stays
  kUsage,     // corrected to what was used
  kUncached,  // ... without what a prompt cache gave
};
// Which moment the headers of an answer show.
enum class Shown : uint8_t { kCharged, kBefore, kEnd };

inline constexpr double kMinuteS = 60;
inline constexpr double kHourS = 3600;
inline constexpr double kDayS = 86'400;

struct Theory {
  Counting counting = Counting::kBucket;
  double period_s = kMinuteS;
  double phase_s = 0;  // kFixed: windows begin here; kRolling: end of the one at the beginning, or
                       // below 0 when our first request began it
  double top = 0;      // what is left when nothing is used
  double rate = 0;     // kBucket: units that come back a second
  AtSend at_send = AtSend::kNothing;
  AtEnd at_end = AtEnd::kKept;
  Shown shown = Shown::kCharged;
  bool refused_count = true;
  bool throttled_count = true;
};

// One comparison of prediction and header.
struct Step {
  size_t sample = 0;
  double before = 0;  // what should have been left just before the charge
  double expected = 0;
  double seen = 0;
  double loss = 0;
};

// A contradiction is one that no slack explains; it costs this and not more, so that one odd answer
// does not decide. Chosen, as are the other weights.
inline constexpr double kMostLoss = 5;

// The loss of `theory` over the series, at least 0; more than `give_up` when it stopped there.
// *steps, unless null, gets the comparisons.
double Loss(const Series& series, const Theory& theory, double give_up,
            std::vector<Step>* steps = nullptr);

// How badly `theory` explains the series' resets, at most 1.5 for each: then they mean something
// else.
double ResetLoss(const Series& series, const Theory& theory);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_THEORY_H_
