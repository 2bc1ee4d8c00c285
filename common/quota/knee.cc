#include "common/quota/knee.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace::quota {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kMinuteUs = 60 * kSecondUs;

// The limit is what limits while so much of it is in flight, or half of it and attempts wait for a
// slot most of the time (where the store is far away, a slot is empty for a while between calls).
constexpr double kFull = 0.9;
constexpr double kFullWhileStarved = 0.5;
constexpr int64_t kUnboundUs = 5 * kSecondUs;  // gives up a probe; or two calls' time
constexpr int64_t kForgetUs = 2 * kMinuteUs;   // unbound for so long: what was measured is old

// After a change of the limit so many are in flight when it is full but not over, or when no more
// come although attempts wait; or after a while.
constexpr double kOver = 1.1;
constexpr double kSteady = 1.05;
constexpr int64_t kReachUs = 10 * kSecondUs;
// Then calls sent before it end for about their own time; and where they queue, the times of those
// behind them still grow, by as much as the number did.
constexpr double kSettleTimes = 1.25;
constexpr int64_t kLeastSettleUs = kSecondUs;
constexpr int64_t kMostSettleUs = 2 * kMinuteUs;
constexpr double kLatencyWeight = 0.3;  // of a step with many calls

// Windows end when the elasticity is known well enough, or is far from what decides; they last half
// a call's time at least, and a minute or eight calls' time at most. Elasticities are decided at:
// GROW: a half. Up: 0.4 (a tenth more in flight must give 4 % more calls). Down: where the base
// would be 15 % above the knee, see DownThreshold(). All chosen;
// tests/unit/common/quota/knee_test.cc tries them against queues.
// What disturbs all calls for a second, at the provider or here, is in no error: a window of HOLD
// is longer than that.
constexpr int64_t kLeastCalls = 20;
constexpr int64_t kLeastWindowUs = 4 * kSecondUs;
constexpr double kGrowThreshold = 0.5;
constexpr double kUpThreshold = 0.4;
constexpr double kGrowGoal = 0.3;
constexpr double kProbeGoal = 0.2;
constexpr double kSmallStep = 0.15;
constexpr double kSure = 3;  // standard errors
constexpr double kGrowth = 2;
constexpr double kProportional = 0.8;  // growth is measured from the last number up to which it was
constexpr double kRatios[] = {1.25, 1.4, 1.6, 2};
constexpr double kTooHigh = 1.15;

// Waits between probes that moved nothing, from kFirstWaitUs.
constexpr int64_t kLongestWaitUs = 2 * kMinuteUs;
constexpr int64_t kDownEvery =
    3;  // of long waits, one in so many is for a probe down: it costs calls
// Times at the base that differ by more than this, for sure, are another provider.
constexpr double kChange = 0.2;
constexpr double kSureOfChange = 4;

constexpr double kNearRefused = 1.06;  // what was refused is not approached further

std::string Percent(double logarithm, absl::string_view more, absl::string_view less) {
  const double percent = 100 * std::expm1(logarithm);
  return absl::StrFormat("%.0f %% %s", std::abs(percent), percent >= 0 ? more : less);
}

std::string Words(const KneeGain& gain) {
  return absl::StrCat(Percent(gain.calls, "more", "fewer"), " calls at ",
                      Percent(gain.latency, "more", "less"), " latency");
}

// Of a probe that goes down by `ratio`: below this elasticity the knee is more than kTooHigh below
// the base.
double DownThreshold(double ratio) {
  return std::clamp(1 - std::log(kTooHigh) / std::log(ratio), 0.25, 0.6);
}

}  // namespace

KneeFinder::KneeFinder(int64_t most) : most_(std::max<int64_t>(1, most)) {
  state_.limit = state_.base = Clamp(kStart);
  why_ = absl::StrCat("begins at ", state_.base, " and doubles while the calls per second follow");
}

void KneeFinder::set_most(int64_t most) {
  most_ = std::max<int64_t>(1, most);
  state_.limit = std::min(state_.limit, most_);
  state_.base = std::min(state_.base, most_);
}

int64_t KneeFinder::Clamp(double limit) const {
  return std::llround(std::clamp(limit, 1.0, static_cast<double>(most_)));
}

int64_t KneeFinder::SettleUs() const {
  const double times = std::max(kSettleTimes, state_.step);
  return static_cast<int64_t>(std::clamp(times * state_.latency_us,
                                         static_cast<double>(kLeastSettleUs),
                                         static_cast<double>(kMostSettleUs)));
}

int64_t KneeFinder::LongestUs() const {
  return std::max(kMinuteUs, static_cast<int64_t>(8 * state_.latency_us));
}

void KneeFinder::SetLimit(int64_t now_us, int64_t limit) {
  now_ = KneeWindow();
  state_.unbound_us = 0;
  if (limit == state_.limit) return;
  state_.raised = limit > state_.limit ? 1 : 0;
  state_.step = static_cast<double>(limit) / static_cast<double>(state_.limit);
  state_.reached = 0;
  state_.limit = limit;
  state_.changed_us = now_us;
}

// To another base, where everything begins anew.
void KneeFinder::Move(int64_t now_us, int64_t base, std::string why) {
  state_.mode = Mode::kHold;
  state_.turn = Turn::kBase;
  state_.base = base;
  state_.probe_at_us = now_us;
  state_.idle_probes = 0;
  base_ = probe_ = known_ = KneeWindow();
  SetLimit(now_us, base);
  why_ = std::move(why);
}

bool KneeFinder::Step(int64_t now_us, const FlightSample& sample, int64_t workers) {
  const int64_t before = state_.limit;
  workers = std::max<int64_t>(1, workers);
  // The time that the sample covers. It is not that since the last step: beats are not in step.
  const int64_t span_us = std::clamp<int64_t>(sample.span_us / workers, 0, kMinuteUs);
  if (span_us == 0) return false;
  if (sample.answered > 0) {
    const double mean =
        static_cast<double>(sample.answered_us) / static_cast<double>(sample.answered);
    const double weight =
        kLatencyWeight * std::min<double>(1, static_cast<double>(sample.answered) / 10);
    state_.latency_us =
        state_.latency_us == 0 ? mean : state_.latency_us + weight * (mean - state_.latency_us);
  }
  if (OnRefusals(now_us, sample, span_us)) return state_.limit != before;

  const double spans = static_cast<double>(sample.span_us);
  const double in_flight =
      static_cast<double>(sample.in_flight_us) / spans * static_cast<double>(workers);
  const double full = in_flight / static_cast<double>(state_.limit);
  const bool starved = static_cast<double>(sample.starved_us) >= 0.5 * spans;
  const bool bound = full >= kFull || (starved && full >= kFullWhileStarved);
  if (state_.changed_us == 0) state_.changed_us = now_us;
  const double last = std::exchange(state_.in_flight, in_flight);
  if (state_.reached == 0) {
    // Workers hear of a new number one after the other, and what was in flight before has to end.
    const bool below = full <= kOver || in_flight <= static_cast<double>(state_.limit + 1);
    const bool up = state_.raised == 0 || full >= kFull || (bound && in_flight <= kSteady * last);
    const auto patience = std::max(kReachUs, static_cast<int64_t>(4 * state_.latency_us));
    if ((below && up) || (bound && now_us - state_.changed_us > patience)) {
      state_.reached = 1;
      state_.settled_us = now_us - span_us + SettleUs();
    } else if (bound || !below) {
      return false;
    }
  }
  if (state_.reached == 1 && now_us - span_us < state_.settled_us) return false;
  if (!bound) {
    OnUnbound(now_us, span_us);
    return state_.limit != before;
  }
  state_.unbound_us = 0;
  now_.Add(sample, in_flight, span_us);
  Measure(now_us);
  return state_.limit != before;
}

// Something else limits: a quota, the data, a worker's own gate.
void KneeFinder::OnUnbound(int64_t now_us, int64_t span_us) {
  state_.unbound_us += span_us;
  const auto patience = std::max(kUnboundUs, static_cast<int64_t>(2 * state_.latency_us));
  if (state_.unbound_us < patience) return;
  const int64_t unbound_us = state_.unbound_us;
  if (state_.mode == Mode::kHold && state_.turn != Turn::kBase) {
    state_.turn = Turn::kBase;
    state_.probe_at_us = now_us + kFirstWaitUs;
    base_ = probe_ = KneeWindow();
    SetLimit(now_us, state_.base);
  }
  now_ = KneeWindow();
  if (unbound_us > kForgetUs) base_ = known_ = KneeWindow();
  state_.unbound_us = unbound_us;
}

void KneeFinder::Measure(int64_t now_us) {
  const int64_t least_us = state_.mode == Mode::kHold ? kLeastWindowUs : 0;
  if (now_.answered() < kLeastCalls || now_.elapsed_us < least_us ||
      static_cast<double>(now_.elapsed_us) < 0.5 * state_.latency_us) {
    return;
  }
  if (state_.mode == Mode::kGrow) {
    MeasureGrowth(now_us);
  } else if (state_.turn == Turn::kBase) {
    MeasureBase(now_us);
  } else if (state_.turn == Turn::kProbe) {
    MeasureProbe(now_us);
  } else {
    MeasureReturn(now_us);
  }
}

bool KneeFinder::Enough(const KneeGain& gain, double threshold, double goal) const {
  const double error = gain.elasticity_error();
  // Short of what was refused, steps are too small to be measured well.
  if (std::abs(gain.in_flight) < kSmallStep) goal *= 2;
  return error <= goal || std::abs(gain.elasticity() - threshold) >= kSure * error ||
         now_.elapsed_us >= LongestUs();
}

void KneeFinder::MeasureGrowth(int64_t now_us) {
  KneeGain gain;
  if (!base_.empty()) {
    if (!Compare(base_, now_, &gain) || gain.in_flight < 0.1) {
      if (now_.elapsed_us < LongestUs()) return;
    } else if (!Enough(gain, kGrowThreshold, kGrowGoal)) {
      return;
    } else if (gain.elasticity() < kGrowThreshold) {
      const double share = std::clamp(gain.elasticity(), 0.0, 1.0);
      const int64_t from = state_.base;
      const int64_t tried = state_.limit;
      const int64_t knee = Clamp(static_cast<double>(from) * std::exp(gain.in_flight * share));
      state_.direction = share < 0.2 ? -1 : 1;
      state_.ratio = share < 0.2 ? kGrowth : 0;
      Move(now_us, knee,
           absl::StrCat("throughput stopped growing at ", knee, ": ", tried, " gave ", Words(gain),
                        " than ", from));
      return;
    }
  }
  const bool refused = state_.refused_at > 0;
  const double most =
      refused ? static_cast<double>(state_.refused_at) / kNearRefused : static_cast<double>(most_);
  const int64_t next = Clamp(std::min(most, kGrowth * static_cast<double>(state_.limit)));
  if (next <= state_.limit) {
    state_.direction = -1;
    Move(now_us, state_.limit,
         refused ? absl::StrCat("calls are refused at ", state_.refused_at)
                 : absl::StrCat("throughput still grew at ", state_.limit, ", which is the most"));
    return;
  }
  why_ = base_.empty() ? absl::StrCat("grows to ", next, " while the calls per second follow")
                       : absl::StrCat("grows to ", next, ": ", state_.limit, " gave ", Words(gain),
                                      " than ", state_.base);
  if (base_.empty() || gain.elasticity() >= kProportional) {
    base_ = now_;
    state_.base = state_.limit;
  }
  SetLimit(now_us, next);
}

// The smallest ratio that is decided within a minute, or eight calls' time.
double KneeFinder::SmallestRatio() const {
  const double noise = KneeNoise(now_);
  const double calls = now_.calls_per_us() * static_cast<double>(LongestUs());
  for (const double ratio : kRatios) {
    const double error = kProbeGoal * std::log(ratio);
    if (1.5 * noise * noise / (error * error) <= calls) return ratio;
  }
  return kRatios[std::size(kRatios) - 1];
}

bool KneeFinder::HasChanged(KneeGain* gain) const {
  if (known_.empty() || static_cast<double>(now_.elapsed_us) < 2 * state_.latency_us ||
      !Compare(known_, now_, gain)) {
    return false;
  }
  return std::abs(gain->latency) > std::max(kChange, kSureOfChange * gain->error);
}

void KneeFinder::MeasureBase(int64_t now_us) {
  KneeGain gain;
  if (HasChanged(&gain)) {
    // Slower: perhaps there are fewer slots now, in this proportion. Faster: perhaps there are
    // more.
    state_.direction = gain.latency > 0 ? -1 : 1;
    state_.ratio = std::clamp(std::exp(std::abs(gain.latency)), kRatios[0], kGrowth);
    state_.idle_probes = 0;
    state_.probe_at_us = now_us;
    // What was measured before it changed is of no use to the probe.
    known_ = now_;
    now_ = KneeWindow();
    return;
  }
  const double ratio = std::max(state_.ratio, SmallestRatio());
  const double error = kProbeGoal * std::log(ratio);
  const double noise = KneeNoise(now_);
  const bool enough =
      static_cast<double>(now_.answered()) >= 1.5 * noise * noise / (error * error) ||
      now_.elapsed_us >= LongestUs();
  if (!enough) return;
  if (known_.empty()) known_ = now_;
  if (now_us < state_.probe_at_us) {
    // The base that a probe is compared with is not long before it.
    if (now_.elapsed_us > 2 * LongestUs()) now_ = KneeWindow();
    return;
  }
  state_.ratio = ratio;
  StartProbe(now_us);
}

void KneeFinder::StartProbe(int64_t now_us) {
  const auto base = static_cast<double>(state_.base);
  int64_t to = 0;
  // Two tries: where one direction is closed, the other is open.
  for (int i = 0; i < 2; ++i) {
    if (state_.direction > 0) {
      double up = std::max(base + 1, base * state_.ratio);
      if (state_.refused_at > 0) {
        const auto refused = static_cast<double>(state_.refused_at);
        up = refused / base < kNearRefused ? base : std::min(up, std::sqrt(base * refused));
      }
      to = Clamp(up);
    } else {
      to = Clamp(std::min(base - 1, base / state_.ratio));
    }
    if (to != state_.base) break;
    state_.direction = -state_.direction;
  }
  if (to == state_.base) {
    state_.probe_at_us = now_us + kLongestWaitUs;
    return;
  }
  base_ = now_;
  state_.turn = Turn::kProbe;
  SetLimit(now_us, to);
}

void KneeFinder::MeasureProbe(int64_t now_us) {
  KneeGain gain;
  const bool known = Compare(base_, now_, &gain) && std::abs(gain.in_flight) > 0.02;
  if (!known && now_.elapsed_us < LongestUs()) return;
  const double threshold = state_.direction > 0 ? kUpThreshold : DownThreshold(state_.ratio);
  if (known && !Enough(gain, threshold, kProbeGoal)) return;
  // A long step that surely paid needs no second look.
  const bool paid =
      state_.direction > 0 ? gain.elasticity() > threshold : gain.elasticity() < threshold;
  if (known && paid && state_.ratio > 1.5 &&
      std::abs(gain.elasticity() - threshold) > kSure * gain.elasticity_error()) {
    EndProbe(now_us, gain);
    return;
  }
  probe_ = now_;
  state_.turn = Turn::kReturn;
  SetLimit(now_us, state_.base);
}

void KneeFinder::MeasureReturn(int64_t now_us) {
  const bool enough = 3 * now_.answered() >= 2 * probe_.answered() ||
                      now_.elapsed_us >= std::max(probe_.elapsed_us, LongestUs() / 2);
  if (!enough) return;
  KneeWindow base = base_;
  base += now_;
  KneeGain gain;
  if (Compare(base, probe_, &gain) && std::abs(gain.in_flight) > 0.02) {
    EndProbe(now_us, gain);
    return;
  }
  state_.turn = Turn::kBase;
  state_.probe_at_us = now_us + kFirstWaitUs;
}

void KneeFinder::EndProbe(int64_t now_us, const KneeGain& gain) {
  const bool up = state_.direction > 0;
  const double elasticity = gain.elasticity();
  const int64_t from = state_.base;
  const auto base = static_cast<double>(from);
  const double tried = base * std::exp(gain.in_flight);
  const double paid = std::clamp(elasticity, 0.0, 1.0);
  if (up ? elasticity >= kUpThreshold : elasticity < DownThreshold(state_.ratio)) {
    // To where a line of slope 1 from the lower number reaches the calls of the upper one.
    const double knee =
        up ? base * std::exp(gain.in_flight * paid) : tried * std::exp(-gain.in_flight * paid);
    const bool far = up ? elasticity > 0.8 : elasticity < 0.2;
    const double ratio = far ? std::min(kGrowth, state_.ratio * state_.ratio) : 0;
    int64_t to = Clamp(knee);
    if (to == from) to = Clamp(up ? base + 1 : base - 1);
    const int64_t direction = state_.direction;
    Move(now_us, to,
         absl::StrCat(up ? "raised from " : "lowered from ", from, " to ", to, ": ", Clamp(tried),
                      " gave ", Words(gain)));
    state_.direction = direction;
    state_.ratio = ratio;
    return;
  }
  if (up) {
    why_ = absl::StrCat("throughput stopped growing at ", from, ": ", Clamp(tried), " gave ",
                        Words(gain));
  }
  state_.turn = Turn::kBase;
  state_.ratio = 0;
  // Down follows up at once; then it is waited for the next one up, and longer each time.
  const bool turns = up && state_.idle_probes % kDownEvery == 0;
  if (up) ++state_.idle_probes;
  state_.direction = turns ? -1 : 1;
  const int64_t doublings = std::clamp<int64_t>(state_.idle_probes - 1, 0, 10);
  state_.probe_at_us =
      turns ? now_us : now_us + std::min(kLongestWaitUs, kFirstWaitUs << doublings);
  if (state_.limit != from) SetLimit(now_us, from);
}

}  // namespace headrace::quota
