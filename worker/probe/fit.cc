#include "worker/probe/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "worker/probe/theories.h"
#include "worker/probe/theory_names.h"

namespace headrace::probe {
namespace {

// Two plain contradictions make an answer certain, most of one likely.
constexpr double kCertainBy = 2 * kMostLoss - 1;
constexpr double kLikelyBy = kMostLoss - 1;
// A theory that is this much worse than the best says nothing more.
constexpr double kGiveUpBy = 3 * kMostLoss;
// More contradictions than this share of the answers: no theory explains them.
constexpr double kOddShare = 0.06;

// Tries theories, and remembers of each answer to each question the theory that explains most.
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
    Note(std::string(ShownName(theory.shown)), theory, loss, &shown);
    Note(theory.refused_count ? "count" : "are free", theory, loss, &refused);
    Note(theory.throttled_count ? "count" : "are free", theory, loss, &throttled);
    if (loss < best) {
      best = loss;
      fit->best = theory;
      fit->loss = loss;
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

Fit FitSeries(const Series& series, bool use_resets) {
  Fit fit;
  int seen = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const Sample& s : series.samples) {
    if (!s.remaining) continue;
    ++seen;
    least = std::min(least, *s.remaining);
    most = std::max(most, *s.remaining);
  }
  fit.seen = seen >= 2;
  if (!fit.seen) return fit;
  fit.moved = AlwaysBelowLimit(series) || most - least > Rounding(series);
  Search search(series, use_resets, &fit);
  EachTheory(series,
             [&search](const Theory& theory, double penalty) { search.Try(theory, penalty); });
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
