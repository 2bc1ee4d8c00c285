#include "worker/probe/theories.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headrace::probe {
namespace {

using quota::Dimension;

// Of what a theory has to assume beyond the headers' own words.
constexpr double kOwnTop = 1;
constexpr double kUnusual = 0.5;
// Moments at which windows might begin that are tried at most.
constexpr size_t kMostPhases = 32;

struct Shape {
  Counting counting;
  double period_s;
};
constexpr Shape kShapes[] = {{Counting::kBucket, kMinuteS},  {Counting::kBucket, kDayS},
                             {Counting::kFixed, kMinuteS},   {Counting::kSliding, kMinuteS},
                             {Counting::kRolling, kMinuteS}, {Counting::kFixed, 1},
                             {Counting::kFixed, 10},         {Counting::kSliding, 10},
                             {Counting::kFixed, kDayS},      {Counting::kFixed, kHourS}};

double Turn(double value, double period) {
  const double turned = std::fmod(value, period);
  return turned < 0 ? turned + period : turned;
}

// Where the windows of `shape` may begin.
std::vector<double> Phases(const Series& series, const Shape& shape) {
  if (shape.counting == Counting::kRolling) {
    std::vector<double> ends = {-1};
    for (const Sample& s : series.samples) {
      if (!s.reset_s) continue;
      ends.push_back(s.head_s + *s.reset_s);
      break;
    }
    return ends;
  }
  if (shape.counting != Counting::kFixed) return {0};
  std::vector<double> phases;
  std::vector<double> told;
  for (const Sample& s : series.samples) {
    if (s.reset_s && *s.reset_s > 0)
      told.push_back(Turn(s.sent_s + 0.02 + *s.reset_s, shape.period_s));
  }
  if (!told.empty()) {
    for (size_t i : {size_t{0}, told.size() / 2, told.size() - 1}) phases.push_back(told[i]);
    // A reset in whole seconds is rounded one way or the other: half a second between.
    if (series.reset_grain_s > 0.5) phases.push_back(Turn(told[0] - 0.5, shape.period_s));
  }
  if (series.wall_s != 0) phases.push_back(Turn(-series.wall_s, shape.period_s));
  // No hour or day turns while we look, but by what the headers say.
  if (shape.period_s > kMinuteS) {
    if (!series.samples.empty())
      phases.push_back(Turn(series.samples[0].sent_s - 1, shape.period_s));
    return phases;
  }
  // Between two answers it does not matter when.
  for (size_t i = 0; i + 1 < series.samples.size() && phases.size() < kMostPhases; ++i) {
    const double middle = (series.samples[i].head_s + series.samples[i + 1].sent_s) / 2;
    const double phase = Turn(middle, shape.period_s);
    const bool known = std::any_of(phases.begin(), phases.end(), [&](double other) {
      return std::fabs(other - phase) < shape.period_s / kMostPhases / 4;
    });
    if (!known) phases.push_back(phase);
  }
  return phases;
}

struct Charge {
  AtSend at_send;
  AtEnd at_end;
};

// What a limit of this kind may charge. The usual ones first: they win where nothing decides.
std::vector<Charge> Charges(Dimension dimension, bool cached) {
  std::vector<Charge> charges;
  std::vector<AtSend> starts;
  switch (dimension) {
    case Dimension::kRequests:
      return {{AtSend::kOne, AtEnd::kKept}, {AtSend::kNothing, AtEnd::kKept}};
    case Dimension::kInputTokens:
      starts = {AtSend::kPrompt, AtSend::kNothing};
      break;
    case Dimension::kOutputTokens:
      starts = {AtSend::kNothing, AtSend::kMaxTokens};
      break;
    default:
      starts = {AtSend::kLarger, AtSend::kSum, AtSend::kPrompt, AtSend::kNothing,
                AtSend::kMaxTokens};
  }
  for (const AtSend start : starts) {
    if (start != AtSend::kNothing) charges.push_back({start, AtEnd::kKept});
    charges.push_back({start, AtEnd::kUsage});
    if (cached && dimension != Dimension::kOutputTokens) {
      charges.push_back({start, AtEnd::kUncached});
    }
  }
  charges.push_back({AtSend::kNothing, AtEnd::kKept});
  return charges;
}

double ChargeOf(const Sample& s, AtSend at_send) {
  switch (at_send) {
    case AtSend::kNothing:
      return 0;
    case AtSend::kOne:
      return 1;
    case AtSend::kPrompt:
      return s.prompt;
    case AtSend::kMaxTokens:
      return s.max_tokens;
    case AtSend::kLarger:
      return std::max(s.prompt, s.max_tokens);
    case AtSend::kSum:
      return s.prompt + s.max_tokens;
  }
  return 0;
}

struct Top {
  double top;
  double penalty;
};

// What may be left at most.
std::vector<Top> Tops(const Series& series, const Shape& shape, const Theory& charge) {
  std::vector<Top> tops;
  double own = 0;
  for (const Sample& s : series.samples) {
    if (!s.remaining || s.overlapped) continue;
    const double charged = charge.shown == Shown::kCharged ? ChargeOf(s, charge.at_send) : 0;
    own = std::max(own, *s.remaining + charged);
  }
  if (!series.limit) return {{own, 0}};
  if (shape.period_s < kMinuteS) {
    tops.push_back({*series.limit * shape.period_s / kMinuteS, 0});
  }
  tops.push_back({*series.limit, shape.period_s < kMinuteS ? kUnusual : 0});
  // What was left at most only tells of a ceiling when it is well below the limit.
  if (own < 0.9 * *series.limit && own > 0) tops.push_back({own, kOwnTop});
  return tops;
}

bool Any(const Series& series, Fate fate) {
  return std::any_of(series.samples.begin(), series.samples.end(),
                     [fate](const Sample& s) { return s.fate == fate; });
}

// With each answer to whether refused and throttled calls count, where that is a question: not for
// tokens, which are never charged for a refusal.
void EachFate(Theory theory, bool refused, bool throttled,
              absl::FunctionRef<void(const Theory&)> visit) {
  for (const bool refused_count : {true, false}) {
    for (const bool throttled_count : {true, false}) {
      if (!refused_count && !refused) continue;
      if (!throttled_count && !throttled) continue;
      theory.refused_count = refused_count;
      theory.throttled_count = throttled_count;
      visit(theory);
    }
  }
}

}  // namespace

void EachTheory(const Series& series,
                absl::FunctionRef<void(const Theory& theory, double penalty)> visit) {
  const bool below = AlwaysBelowLimit(series);
  const bool cached = std::any_of(series.samples.begin(), series.samples.end(),
                                  [](const Sample& s) { return s.cached > 0; });
  const bool requests = series.dimension == Dimension::kRequests;
  const bool refused = requests && Any(series, Fate::kRefused);
  const bool throttled = requests && Any(series, Fate::kThrottled);
  std::vector<Shown> shown = {Shown::kCharged, Shown::kEnd};
  // Headers that leave out their own call show the whole limit at first.
  if (!below) shown.push_back(Shown::kBefore);
  for (const Shape& shape : kShapes) {
    for (const double phase : Phases(series, shape)) {
      for (const Charge& charge : Charges(series.dimension, cached)) {
        for (const Shown moment : shown) {
          Theory theory;
          theory.counting = shape.counting;
          theory.period_s = shape.period_s;
          theory.phase_s = phase;
          theory.at_send = charge.at_send;
          theory.at_end = charge.at_end;
          theory.shown = moment;
          const bool nothing = charge.at_send == AtSend::kNothing && charge.at_end == AtEnd::kKept;
          const double unlikely =
              (moment == Shown::kBefore ? kUnusual : 0) + (nothing && below ? 2 * kMostLoss : 0);
          for (const Top& top : Tops(series, shape, theory)) {
            theory.top = top.top;
            theory.rate = series.limit.value_or(top.top) / shape.period_s;
            EachFate(theory, refused, throttled,
                     [&](const Theory& whole) { visit(whole, top.penalty + unlikely); });
          }
        }
      }
    }
  }
}

}  // namespace headrace::probe
