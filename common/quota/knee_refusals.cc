// What a KneeFinder does when calls are refused, and when it leaves it.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/quota/knee.h"

namespace headrace::quota {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kMinuteUs = 60 * kSecondUs;

// Refusals: at least five of the last calls, a tenth of them, and three times the share of the last
// minutes: a provider that fails one call in twenty at any speed is not helped by fewer.
constexpr double kLeastRefused = 5;
constexpr double kRefusedShare = 0.1;
constexpr double kOverUsual = 3;
constexpr double kRefusedHalfUs = 5.0 * kSecondUs;
constexpr double kUsualHalfUs = 1.0 * kMinuteUs;
constexpr double kCut = 0.7;
constexpr int64_t kRefusedForUs = 5 * kMinuteUs;
// After a cut, refusals that are this part of what they were are no matter of the number; but where
// most calls are refused, the provider is out of order.
constexpr double kVainShare = 0.5;
constexpr double kEnoughUsual = 50;  // calls
constexpr int64_t kMostVainCuts = 5;
constexpr double kOutageShare = 0.5;
constexpr double kOutageParts = 4;  // of the calls are made while the provider is out of order
// After a change, calls are still refused for the old number.
constexpr int64_t kRefusalUs = 2 * kSecondUs;

}  // namespace

// True when it has done something about them: then nothing else is measured.
bool KneeFinder::OnRefusals(int64_t now_us, const FlightSample& sample, int64_t span_us) {
  if (now_us >= state_.refused_until_us) state_.refused_at = 0;
  // Those of calls that were sent before the last change say nothing new.
  if (now_us - span_us < state_.changed_us + kRefusalUs) {
    state_.refused = state_.ended = 0;
    return false;
  }
  const auto refused = static_cast<double>(sample.refused);
  const auto ended = static_cast<double>(sample.refused + sample.answered + sample.failed);
  const double keep = std::exp2(-static_cast<double>(span_us) / kRefusedHalfUs);
  state_.refused = keep * state_.refused + refused;
  state_.ended = keep * state_.ended + ended;
  const double share = state_.ended > 0 ? state_.refused / state_.ended : 0;
  if (state_.outage != 0) return WaitForEndOfOutage(now_us, share);
  const double usual = state_.usual_ended > 0 ? state_.usual_refused / state_.usual_ended : 0;
  if (state_.refused >= kLeastRefused && share >= std::max(kRefusedShare, kOverUsual * usual)) {
    Cut(now_us, share);
    return true;
  }
  const double keep_usual = std::exp2(-static_cast<double>(span_us) / kUsualHalfUs);
  state_.usual_refused = keep_usual * state_.usual_refused + refused;
  state_.usual_ended = keep_usual * state_.usual_ended + ended;
  const bool vain = state_.cut_from > 0 && state_.usual_ended >= kEnoughUsual &&
                    usual >= kVainShare * state_.cut_share;
  if (vain && usual < kOutageShare) {
    const int64_t back = std::min(most_, state_.cut_from);
    state_.cut_from = state_.refused_at = 0;
    Move(now_us, back,
         absl::StrFormat("%.0f %% of the calls are refused, however few are in flight",
                         100 * usual));
    return true;
  }
  if (state_.refused_at == 0) state_.cut_from = 0;
  return false;
}

// Nothing, or little, is answered: that says nothing about the number.
void KneeFinder::BeginOutage(int64_t now_us, double share) {
  const int64_t few = Clamp(static_cast<double>(state_.base) / kOutageParts);
  Move(now_us, std::min(few, state_.limit),
       absl::StrFormat("%.0f %% of the calls are refused: asks less until they are answered",
                       100 * share));
  state_.outage = 1;
  state_.cut_from = state_.refused_at = 0;
}

bool KneeFinder::WaitForEndOfOutage(int64_t now_us, double share) {
  if (share >= kOutageShare || state_.ended - state_.refused < kLeastRefused) return true;
  const int64_t from = state_.base;
  Move(now_us, from, absl::StrCat("calls are answered again: grows from ", from));
  state_.mode = Mode::kGrow;
  state_.outage = 0;
  state_.refused = state_.ended = 0;
  return true;
}

void KneeFinder::Cut(int64_t now_us, double share) {
  const bool answered = state_.ended - state_.refused >= 1;
  state_.refused = state_.ended = 0;
  const bool as_before = state_.cut_from > 0 && share >= kVainShare * state_.cut_share;
  state_.cuts = as_before ? state_.cuts + 1 : 1;
  if (!answered || (state_.cuts > kMostVainCuts && share >= kOutageShare)) {
    BeginOutage(now_us, share);
    return;
  }
  state_.refused_at = state_.limit;
  state_.refused_until_us = now_us + kRefusedForUs;
  if (state_.mode == Mode::kHold && state_.limit > state_.base) {
    Move(now_us, state_.base,
         absl::StrCat("calls are refused at ", state_.refused_at, ", and not at ", state_.base));
    state_.probe_at_us = now_us + kFirstWaitUs;
    return;
  }
  if (state_.cut_from == 0) state_.cut_from = state_.limit;
  if (!as_before) state_.cut_share = share;
  if (state_.cuts > kMostVainCuts) {
    // What is usual is known now, and the next steps find that it was in vain.
    state_.usual_refused = share * kEnoughUsual;
    state_.usual_ended = kEnoughUsual;
    return;
  }
  const int64_t cut = Clamp(std::floor(kCut * static_cast<double>(state_.limit)));
  // While it grows, the base is the last number that was good.
  const bool grew = state_.mode == Mode::kGrow && state_.base < state_.limit;
  Move(now_us, grew ? std::max(state_.base, cut) : cut,
       absl::StrFormat("%.0f %% of the calls were refused at %d", 100 * share, state_.refused_at));
  state_.direction = 1;
}

}  // namespace headrace::quota
