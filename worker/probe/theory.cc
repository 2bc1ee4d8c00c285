#include "worker/probe/theory.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace headrace::probe {
namespace {

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

}  // namespace

double Loss(const Series& series, const Theory& theory, double give_up, std::vector<Step>* steps) {
  return Judge(series, theory, steps).Run(give_up);
}

}  // namespace headrace::probe
