#include "worker/probe/theory.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace headrace::probe {
namespace {

// By how much the moment at which a provider counts a request may differ from one to the next, as
// seen from here. Chosen: more than a wide-area network varies, less than a request takes.
constexpr double kTimingSlackS = 0.06;
// Providers estimate prompts before they count them; ours are English words (quota.md 3.7: within a
// quarter there).
constexpr double kPromptSlack = 0.3;
constexpr double kPromptSlackTokens = 8;

struct Interval {
  double low = 0;
  double high = 0;
  Interval operator+(Interval o) const { return {low + o.low, high + o.high}; }
  Interval operator-(Interval o) const { return {low - o.high, high - o.low}; }
};

Interval PromptCharge(const Sample& s) {
  return {std::max(0.0, s.prompt * (1 - kPromptSlack) - kPromptSlackTokens),
          s.prompt * (1 + kPromptSlack) + kPromptSlackTokens};
}

// What the request is charged when it is let in.
Interval ChargeAtSend(const Sample& s, const Theory& theory) {
  switch (s.fate) {
    case Fate::kAnswered:
      break;
    case Fate::kRefused:
      // As a request if those count; its tokens perhaps (Azure).
      if (!theory.refused_count) return {};
      break;
    case Fate::kThrottled:
      // What is refused for its rate costs no tokens (headrace assumes so everywhere).
      if (!theory.throttled_count || theory.at_send != AtSend::kOne) return {};
      break;
    case Fate::kFailed:
      break;
  }
  const Interval prompt = PromptCharge(s);
  Interval charge;
  switch (theory.at_send) {
    case AtSend::kNothing:
      break;
    case AtSend::kOne:
      charge = {1, 1};
      break;
    case AtSend::kPrompt:
      charge = prompt;
      break;
    case AtSend::kMaxTokens:
      charge = {s.max_tokens, s.max_tokens};
      break;
    case AtSend::kLarger:
      charge = {std::max(prompt.low, s.max_tokens), std::max(prompt.high, s.max_tokens)};
      break;
    case AtSend::kSum:
      charge = {prompt.low + s.max_tokens, prompt.high + s.max_tokens};
      break;
  }
  const bool perhaps = s.fate == Fate::kRefused && theory.at_send != AtSend::kOne;
  if (s.fate == Fate::kFailed || perhaps) charge.low = 0;
  return charge;
}

// What it has cost in the end.
Interval ChargeAtEnd(const Sample& s, const Theory& theory, quota::Dimension dimension,
                     Interval at_send) {
  if (theory.at_end == AtEnd::kKept || s.fate == Fate::kThrottled) return at_send;
  if (s.fate == Fate::kRefused) return at_send;
  const double cached = theory.at_end == AtEnd::kUncached ? s.cached : 0;
  Interval input = {s.prompt, s.prompt};
  Interval output = {0, s.max_tokens};
  if (s.input) input = {*s.input - cached, *s.input - cached};
  if (s.output) output = {*s.output, *s.output};
  Interval end = dimension == quota::Dimension::kInputTokens    ? input
                 : dimension == quota::Dimension::kOutputTokens ? output
                                                                : input + output;
  if (s.fate == Fate::kFailed) end.low = 0;
  return end;
}

// When a request is counted: just after it was sent.
double CountedAt(const Sample& s) { return s.sent_s + std::min(0.02, (s.head_s - s.sent_s) / 2); }

// What is left, as an interval, while time passes.
class Level {
 public:
  explicit Level(const Theory& theory) : t_(theory) {
    if (t_.counting == Counting::kRolling) window_end_ = t_.phase_s;
  }

  bool known() const { return known_; }
  Interval left() const { return left_; }

  void Set(double at, Interval left) {
    left_ = left;
    known_ = true;
    at_ = at;
  }

  // Time passes until `to`; `slack` is how uncertain that is.
  void Advance(double to, double slack) {
    if (to < at_) to = at_;
    switch (t_.counting) {
      case Counting::kBucket:
        left_.low += t_.rate * std::max(0.0, to - at_ - slack);
        left_.high += t_.rate * (to - at_ + slack);
        break;
      case Counting::kFixed: {
        const double early = Window(to - slack) - Window(at_);
        const double late = Window(to + slack) - Window(at_);
        if (early >= 1) left_ = {t_.top, t_.top};
        if (early < 1 && late >= 1) left_.high = t_.top;
        break;
      }
      case Counting::kRolling:
        break;  // begins with a charge
      case Counting::kSliding:
        Expire(to, slack);
        break;
    }
    at_ = to;
    Clamp();
  }

  void Charge(Interval charge, bool counts) {
    if (t_.counting == Counting::kRolling && counts) {
      if (at_ >= window_end_ + kTimingSlackS) {
        left_ = {t_.top, t_.top};
        window_end_ = at_ + t_.period_s;
      } else if (at_ >= window_end_ - kTimingSlackS && window_end_ > 0) {
        left_.high = t_.top;
      }
    }
    left_ = left_ - charge;
    if (t_.counting == Counting::kSliding) {
      entries_.push_back({at_, at_ + t_.period_s, charge});
    }
  }

  // `back` returns of a charge that was made at `charged_at`; negative: more is taken.
  void Settle(double charged_at, Interval back) {
    switch (t_.counting) {
      case Counting::kBucket:
        break;
      case Counting::kFixed:
        if (Window(charged_at) != Window(at_)) return;
        break;
      case Counting::kRolling:
        if (charged_at < window_end_ - t_.period_s) return;
        break;
      case Counting::kSliding:
        if (charged_at >= at_) {
          entries_.push_back({at_, at_ + t_.period_s, Interval{} - back});
          break;
        }
        for (Entry& entry : entries_) {
          if (entry.at != charged_at) continue;
          entry.charge = entry.charge - back;
          left_ = left_ + back;
          break;
        }
        Clamp();
        return;
    }
    left_ = left_ + back;
    Clamp();
  }

 private:
  struct Entry {
    double at;
    double leaves;
    Interval charge;
  };

  double Window(double at) const { return std::floor((at - t_.phase_s) / t_.period_s); }

  void Expire(double to, double slack) {
    while (!entries_.empty() && entries_.front().leaves <= to + slack) {
      Entry& entry = entries_.front();
      if (entry.leaves > to - slack) {
        // Perhaps gone already, perhaps not yet: settled by the next header.
        left_.high += entry.charge.high;
      } else {
        left_ = left_ + entry.charge;
      }
      entries_.pop_front();
    }
  }

  void Clamp() {
    left_.low = std::min(left_.low, t_.top);
    left_.high = std::min(left_.high, t_.top);
  }

  const Theory& t_;
  Interval left_;
  bool known_ = false;
  double at_ = 0;
  double window_end_ = -1;
  std::deque<Entry> entries_;
};

class Judge {
 public:
  Judge(const Series& series, const Theory& theory, std::vector<Step>* steps)
      : series_(series), theory_(theory), level_(theory), steps_(steps) {}

  double Run(double give_up) {
    for (size_t i = 0; i < series_.samples.size() && loss_ <= give_up; ++i) Take(i);
    return loss_;
  }

 private:
  struct Open {
    double end;
    double charged_at;
    Interval back;
  };

  void Take(size_t i) {
    const Sample& s = series_.samples[i];
    const double at = CountedAt(s);
    SettleUntil(at);
    level_.Advance(at, kTimingSlackS);
    const bool shows = s.remaining.has_value();
    const Interval before = level_.left();
    if (shows && theory_.shown == Shown::kBefore) Compare(i, at, before);
    const Interval charge = ChargeAtSend(s, theory_);
    level_.Charge(charge, charge.high > 0 || theory_.at_send == AtSend::kNothing);
    if (shows && theory_.shown == Shown::kCharged) Compare(i, at, before);
    const Interval end = ChargeAtEnd(s, theory_, series_.dimension, charge);
    const Interval back = theory_.at_end == AtEnd::kKept ? Interval{} : charge - end;
    if (back.low != 0 || back.high != 0) {
      // What is first charged at the end belongs to the end; a correction to where it was charged.
      const Open open{s.end_s, charge.high > 0 ? at : s.end_s, back};
      open_.insert(std::upper_bound(open_.begin(), open_.end(), open,
                                    [](const Open& a, const Open& b) { return a.end < b.end; }),
                   open);
    }
    if (shows && theory_.shown == Shown::kEnd) {
      SettleUntil(s.end_s);
      level_.Advance(s.head_s, kTimingSlackS);
      Compare(i, s.head_s, before);
    }
  }

  void SettleUntil(double at) {
    while (!open_.empty() && open_.front().end <= at) {
      level_.Advance(open_.front().end, 0);
      level_.Settle(open_.front().charged_at, open_.front().back);
      open_.pop_front();
    }
  }

  void Compare(size_t i, double at, Interval before) {
    const Sample& s = series_.samples[i];
    if (s.overlapped) return;  // in which order they were counted is not known
    // What may be behind the number: a bucket is rounded down or to the nearest.
    const bool whole = theory_.counting != Counting::kBucket;
    const double quantum = std::max(series_.quantum, 1.0);
    const double below = quantum > 1 ? quantum : whole ? 0 : 0.5;
    const double above = quantum > 1 ? quantum : whole ? 0 : 1;
    const Interval seen = {*s.remaining - below, *s.remaining + above};
    Interval now = seen;
    if (level_.known() && *s.remaining > 0) {
      const Interval left = level_.left();
      const double off = std::max({0.0, left.low - seen.high, seen.low - left.high});
      const double scale = 0.5 * quantum + 0.15 * (left.high - left.low);
      const double loss = std::min(off * off / (scale * scale), kMostLoss);
      loss_ += loss;
      // Many small charges are seen together where each is lost in rounding.
      if (off == 0) now = {std::max(left.low, seen.low), std::min(left.high, seen.high)};
      if (steps_ != nullptr) {
        const double middle = (before.low + before.high) / 2;
        steps_->push_back({i, middle, (left.low + left.high) / 2, *s.remaining, loss});
      }
    }
    level_.Set(at, now);
  }

  const Series& series_;
  const Theory& theory_;
  Level level_;
  std::vector<Step>* const steps_;
  std::deque<Open> open_;
  double loss_ = 0;
};

double Beyond(double off, double slack) { return std::max(0.0, off - slack); }

// A loss of 1 for a reset that is off by a tenth beyond its slack or more.
double ResetMiss(double seen, double expected, double slack) {
  const double off = Beyond(std::fabs(seen - expected), slack);
  return std::min(off / (0.1 * slack + 1e-6), 3.0);
}

}  // namespace

double Loss(const Series& series, const Theory& theory, double give_up, std::vector<Step>* steps) {
  return Judge(series, theory, steps).Run(give_up);
}

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

Series MakeSeries(const std::vector<Answer>& answers, quota::Dimension dimension) {
  Series series;
  series.dimension = dimension;
  double whole_s = 0;
  double resets = 0;
  bool thousands = true;
  int remains = 0;
  for (const Answer& answer : answers) {
    const provider::RateHeaders::Limit& words =
        dimension == quota::Dimension::kRequests      ? answer.rate.requests
        : dimension == quota::Dimension::kTokens      ? answer.rate.tokens
        : dimension == quota::Dimension::kInputTokens ? answer.rate.input_tokens
                                                      : answer.rate.output_tokens;
    Sample s;
    s.sent_s = answer.sent_s;
    s.head_s = answer.head_s;
    s.end_s = answer.end_s;
    s.overlapped = answer.overlapped;
    s.fate = answer.fate;
    s.prompt = PromptTokens(answer);
    s.max_tokens = static_cast<double>(answer.ask.max_tokens);
    if (answer.usage.prompt_tokens) s.input = static_cast<double>(*answer.usage.prompt_tokens);
    if (answer.usage.completion_tokens) {
      s.output = static_cast<double>(*answer.usage.completion_tokens);
    }
    s.cached = static_cast<double>(answer.usage.cached_tokens.value_or(0));
    if (words.limit) series.limit = static_cast<double>(*words.limit);
    if (words.remaining) {
      s.remaining = static_cast<double>(*words.remaining);
      thousands = thousands && *words.remaining % 1000 == 0;
      ++remains;
    }
    if (words.reset) {
      s.reset_s = absl::ToDoubleSeconds(*words.reset);
      ++resets;
      whole_s += std::fabs(*s.reset_s - std::round(*s.reset_s)) < 1e-6 ? 1 : 0;
    }
    if (answer.server_time && series.wall_s == 0) {
      series.wall_s =
          absl::ToDoubleSeconds(*answer.server_time - absl::UnixEpoch()) + 0.5 - answer.head_s;
    }
    series.samples.push_back(s);
  }
  // Three in a row by chance: one in 10^9.
  if (remains >= 3 && thousands && dimension != quota::Dimension::kRequests) series.quantum = 1000;
  // Whole seconds, and perhaps from a Date header that is one of them, too.
  if (resets > 0 && whole_s == resets) series.reset_grain_s = 2.1;
  std::sort(series.samples.begin(), series.samples.end(),
            [](const Sample& a, const Sample& b) { return a.sent_s < b.sent_s; });
  return series;
}

}  // namespace headrace::probe
