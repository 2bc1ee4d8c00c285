#include "worker/probe/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

constexpr double kDayS = 86'400;
constexpr double kMinuteS = 60;
// Two plain contradictions make an answer certain, most of one likely.
constexpr double kCertainBy = 2 * kMostLoss - 1;
constexpr double kLikelyBy = kMostLoss - 1;
// A theory that is this much worse than the best says nothing more.
constexpr double kGiveUpBy = 3 * kMostLoss;
// More contradictions than this share of the answers: no theory explains them.
constexpr double kOddShare = 0.06;
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
                             {Counting::kFixed, kDayS},      {Counting::kFixed, 3600}};

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

double MostLeft(const Series& series) {
  double most = 0;
  for (const Sample& s : series.samples) most = std::max(most, s.remaining.value_or(0));
  return most;
}

struct Search {
  Search(const Series& s, bool resets, Fit* f) : series(s), use_resets(resets), fit(f) {}

  const Series& series;
  const bool use_resets;
  Fit* const fit;
  double best = std::numeric_limits<double>::infinity();
  int64_t tried = 0;
  using Group = std::map<std::string, Alternative>;
  Group counting, window, charge, at_send, at_end, shown, refused, throttled;

  void Note(const std::string& name, const Theory& theory, double loss, Group* group) const {
    auto [it, is_new] = group->try_emplace(name, Alternative{name, loss, theory, tried});
    if (!is_new && loss < it->second.loss) it->second = {name, loss, theory, tried};
  }

  void Try(const Theory& theory, double penalty) {
    ++tried;
    const double give_up = best + kGiveUpBy;
    double loss = penalty;
    if (loss <= give_up) loss += Loss(series, theory, give_up - loss);
    if (loss <= give_up && use_resets) loss += ResetLoss(series, theory);
    Note(CountingName(theory), theory, loss, &counting);
    Note(std::string(WindowKey(theory)), theory, loss, &window);
    Note(std::string(ChargeKey(theory)), theory, loss, &charge);
    Note(std::string(AtSendName(theory.at_send)), theory, loss, &at_send);
    Note(std::string(AtEndName(theory.at_end)), theory, loss, &at_end);
    Note(theory.shown == Shown::kCharged  ? "after its own charge"
         : theory.shown == Shown::kBefore ? "before its own charge"
                                          : "at the end of the call",
         theory, loss, &shown);
    Note(theory.refused_count ? "count" : "are free", theory, loss, &refused);
    Note(theory.throttled_count ? "count" : "are free", theory, loss, &throttled);
    if (loss < best) {
      best = loss;
      fit->best = theory;
      fit->loss = loss;
    }
  }

  // With each answer to whether refused and throttled calls count, where that is a question.
  void TryFates(Theory theory, double penalty, bool refused_asked, bool throttled_asked) {
    for (const bool refused_count : {true, false}) {
      for (const bool throttled_count : {true, false}) {
        if (!refused_count && !refused_asked) continue;
        if (!throttled_count && !throttled_asked) continue;
        theory.refused_count = refused_count;
        theory.throttled_count = throttled_count;
        Try(theory, penalty);
      }
    }
  }

  // In the order of their losses; where nothing decides, the best theory's answer is first.
  static std::vector<Alternative> Sorted(const Group& group) {
    std::vector<Alternative> sorted;
    for (const auto& [name, alternative] : group) sorted.push_back(alternative);
    std::sort(sorted.begin(), sorted.end(), [](const Alternative& a, const Alternative& b) {
      return std::tie(a.loss, a.order) < std::tie(b.loss, b.order);
    });
    return sorted;
  }
};

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

}  // namespace

absl::string_view ConfidenceName(Confidence confidence) {
  switch (confidence) {
    case Confidence::kCertain:
      return "certain";
    case Confidence::kLikely:
      return "likely";
    case Confidence::kUnclear:
      return "unclear";
    case Confidence::kNotSeen:
      return "not observed";
  }
  return "";
}

std::string CountingName(const Theory& theory) {
  const std::string period = theory.period_s == kMinuteS ? "minute"
                             : theory.period_s == kDayS  ? "day"
                             : theory.period_s == 3600
                                 ? "hour"
                                 : absl::StrCat(static_cast<int64_t>(theory.period_s), "s");
  switch (theory.counting) {
    case Counting::kBucket:
      return theory.period_s == kMinuteS ? "continuous" : absl::StrCat("continuous, per ", period);
    case Counting::kFixed:
      return absl::StrCat("fixed ", period);
    case Counting::kRolling:
      return absl::StrCat("rolling ", period);
    case Counting::kSliding:
      return absl::StrCat("sliding ", period);
  }
  return "";
}

absl::string_view WindowKey(const Theory& theory) {
  if (theory.period_s == kDayS) return "day";
  if (theory.period_s == 3600) return "hour";
  if (theory.counting == Counting::kBucket) return "continuous";
  return theory.period_s == kMinuteS ? "minute" : theory.period_s == 10 ? "10s" : "1s";
}

absl::string_view ChargeKey(const Theory& theory) {
  if (theory.at_end != AtEnd::kKept) return "actuals";
  switch (theory.at_send) {
    case AtSend::kNothing:
      return "nothing";
    case AtSend::kOne:
      return "one";
    case AtSend::kPrompt:
      return "prompt";
    case AtSend::kMaxTokens:
    case AtSend::kLarger:
      return "larger";
    case AtSend::kSum:
      return "sum";
  }
  return "";
}

absl::string_view AtSendName(AtSend at_send) {
  switch (at_send) {
    case AtSend::kNothing:
      return "nothing";
    case AtSend::kOne:
      return "one";
    case AtSend::kPrompt:
      return "the prompt";
    case AtSend::kMaxTokens:
      return "max_tokens";
    case AtSend::kLarger:
      return "the larger of prompt and max_tokens";
    case AtSend::kSum:
      return "prompt plus max_tokens";
  }
  return "";
}

absl::string_view AtEndName(AtEnd at_end) {
  switch (at_end) {
    case AtEnd::kKept:
      return "kept";
    case AtEnd::kUsage:
      return "corrected to the usage";
    case AtEnd::kUncached:
      return "corrected to the usage without cached tokens";
  }
  return "";
}

Fit FitSeries(const Series& series, bool use_resets) {
  Fit fit;
  int seen = 0;
  double least = std::numeric_limits<double>::infinity();
  bool refused = false;
  bool throttled = false;
  bool cached = false;
  for (const Sample& s : series.samples) {
    if (s.remaining) {
      ++seen;
      least = std::min(least, *s.remaining);
    }
    refused = refused || s.fate == Fate::kRefused;
    throttled = throttled || s.fate == Fate::kThrottled;
    cached = cached || s.cached > 0;
  }
  fit.seen = seen >= 2;
  if (!fit.seen) return fit;
  const double rounding = series.quantum > 1 ? series.quantum : 0;
  const double most = MostLeft(series);
  // Always the same, but below the limit: each call is charged, and it comes back before the next.
  const bool below = series.limit && *series.limit - most > rounding;
  fit.moved = below || most - least > rounding;
  // Tokens of refused calls are none's question here.
  const bool requests = series.dimension == Dimension::kRequests;
  std::vector<Shown> shown = {Shown::kCharged, Shown::kEnd};
  // Headers that leave out their own call show the whole limit at first.
  if (!below) shown.push_back(Shown::kBefore);
  Search search(series, use_resets, &fit);
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
            search.TryFates(theory, top.penalty + unlikely, requests && refused,
                            requests && throttled);
          }
        }
      }
    }
  }
  fit.counting = Search::Sorted(search.counting);
  fit.window = Search::Sorted(search.window);
  fit.charge = Search::Sorted(search.charge);
  fit.at_send = Search::Sorted(search.at_send);
  fit.at_end = Search::Sorted(search.at_end);
  fit.shown = Search::Sorted(search.shown);
  fit.refused = Search::Sorted(search.refused);
  fit.throttled = Search::Sorted(search.throttled);
  Loss(series, fit.best, std::numeric_limits<double>::infinity(), &fit.steps);
  for (const Step& step : fit.steps) {
    ++fit.compared;
    if (step.loss >= kMostLoss - 1 && step.seen < step.expected) ++fit.less_than_due;
  }
  fit.explained = fit.loss <= kMostLoss + kOddShare * kMostLoss * fit.compared;
  if (fit.explained) return fit;
  // Which of several wrong theories is least wrong says nothing.
  for (std::vector<Alternative>* group : {&fit.counting, &fit.window, &fit.charge, &fit.at_send,
                                          &fit.at_end, &fit.shown, &fit.refused, &fit.throttled}) {
    for (Alternative& alternative : *group) alternative.loss = fit.loss;
  }
  return fit;
}

namespace {

// By how much `other` is worse than `best`. Where even the best leaves much unexplained, somebody
// else is at work, and a difference says less.
double WorseBy(const Alternative& best, const Alternative& other) {
  return (other.loss - best.loss) / (1 + best.loss / (2 * kMostLoss));
}

}  // namespace

Confidence ConfidenceOf(const std::vector<Alternative>& alternatives) {
  if (alternatives.empty()) return Confidence::kNotSeen;
  if (alternatives.size() == 1) return Confidence::kNotSeen;
  const double by = WorseBy(alternatives[0], alternatives[1]);
  return by >= kCertainBy  ? Confidence::kCertain
         : by >= kLikelyBy ? Confidence::kLikely
                           : Confidence::kUnclear;
}

std::vector<std::string> AsGood(const std::vector<Alternative>& alternatives) {
  std::vector<std::string> names;
  for (const Alternative& a : alternatives) {
    if (names.empty() || WorseBy(alternatives[0], a) < kLikelyBy) names.push_back(a.name);
  }
  return names;
}

}  // namespace headrace::probe
