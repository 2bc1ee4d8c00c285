#include "worker/probe/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "worker/probe/fit.h"

namespace headrace::probe {
namespace {

using quota::Dimension;

constexpr int64_t kSmallMax = 16;  // the least that every provider takes
// Between two requests of which nothing more is wanted.
constexpr absl::Duration kPace = absl::Milliseconds(150);
// When the watch asks, after its large charge: dense at first, for buckets, and beyond a minute,
// for windows.
constexpr double kWatchAtS[] = {0.4, 1.2, 2.5, 4.5, 8, 13, 20, 28, 37, 46, 54, 62, 68};
// Fewer when requests are kept for what comes after.
constexpr double kShortWatchAtS[] = {0.4, 2.5, 8, 20, 37, 62};
constexpr int kWrongCopies = 3;
// Requests at once: the first burst, and the largest; each is twice the one before.
constexpr int kBurst = 8;
constexpr int kLargestBurst = 64;
constexpr int kReopenTries = 4;
}  // namespace

std::optional<Ask> Plan::Next() {
  if (end_ != PlanEnd::kNotYet) return std::nullopt;
  if (requests_ >= options_.max_requests) {
    Stop(PlanEnd::kRequests, absl::StrCat("all ", options_.max_requests, " requests are used"));
    return std::nullopt;
  }
  std::optional<Ask> ask = Propose();
  if (!ask) {
    if (end_ == PlanEnd::kNotYet) Stop(PlanEnd::kDone, "");
    return std::nullopt;
  }
  if (pause_) ask->wait = std::max(ask->wait, *std::exchange(pause_, std::nullopt));
  ask = Guarded(*ask);
  if (!ask || !Fits(&*ask)) return std::nullopt;
  requests_ += ask->copies;
  return ask;
}

bool Plan::Fits(Ask* ask) {
  ask->copies = std::min(ask->copies, options_.max_requests - requests_);
  const int64_t each = TokensAtMost(*ask);
  while (ask->copies > 1 && tokens_ + each * ask->copies > options_.max_tokens) --ask->copies;
  if (tokens_ + each * ask->copies <= options_.max_tokens) return true;
  Stop(PlanEnd::kTokens,
       absl::StrCat("the next request might go beyond ", options_.max_tokens, " tokens"));
  return false;
}

std::optional<Ask> Plan::Guarded(Ask ask) {
  if (options_.exhaust || answers_.empty()) return ask;
  const Answer& last = answers_.back();
  for (const Dimension dimension : kToldDimensions) {
    const provider::RateHeaders::Limit& words = LimitOf(last, dimension);
    if (!words.remaining) continue;
    const int64_t need = dimension == Dimension::kRequests
                             ? ask.copies + 2
                             : (TokensAtMost(ask) * ask.copies) * 3 / 2;
    if (*words.remaining >= need) continue;
    if (recovered_) {
      Stop(PlanEnd::kQuotaLow,
           absl::StrCat("only ", *words.remaining, " of ", quota::DimensionName(dimension),
                        " are left, and it was not to be used up"));
      return std::nullopt;
    }
    recovered_ = true;
    const absl::Duration wait = words.reset.value_or(kLongestPause) + absl::Milliseconds(500);
    ask.wait = std::clamp(wait, ask.wait, std::max(ask.wait, kLongestPause));
    return ask;
  }
  recovered_ = false;
  return ask;
}

std::optional<Ask> Plan::Propose() {
  while (true) {
    std::optional<Ask> ask;
    switch (stage_) {
      case Stage::kHello:
        ask = Hello();
        break;
      case Stage::kCharge:
        ask = Charge();
        break;
      case Stage::kRefused:
        ask = Refused();
        break;
      case Stage::kWatch:
        ask = Watch();
        break;
      case Stage::kExhaust:
        ask = Exhaust();
        break;
      case Stage::kReopen:
        ask = Reopen();
        break;
      case Stage::kOver:
        return std::nullopt;
    }
    if (ask) return ask;
    stage_ = static_cast<Stage>(static_cast<int>(stage_) + 1);
    step_ = 0;
    repeat_ = false;
    if (stage_ == Stage::kExhaust && !options_.exhaust) stage_ = Stage::kOver;
  }
}

std::optional<Ask> Plan::Hello() {
  if (std::exchange(repeat_, false)) --step_;
  if (step_++ >= 2) return std::nullopt;
  return Ask{.purpose = Purpose::kHello, .prompt_words = short_words_, .wait = kPace};
}

std::optional<Ask> Plan::Charge() {
  if (!sized_) ChooseSizes();
  if (std::exchange(repeat_, false)) --step_;
  // Each follows another, so that what the one before gave back is seen at the next.
  static constexpr struct {
    bool is_long;
    bool is_large;
    bool long_answer;
  } kOrder[] = {{false, true, false},  {true, false, false}, {false, true, true},
                {false, false, false}, {true, true, false},  {false, true, false},
                {true, false, false},  {false, true, true},  {false, false, false}};
  const bool blind = !HasRemaining();
  if (step_ >= (blind ? 2 : static_cast<int>(std::size(kOrder)))) return std::nullopt;
  const auto& kind = kOrder[step_++];
  // At once: what is charged at the end has to be seen before it has come back.
  Ask ask{.purpose = Purpose::kCharge};
  ask.prompt_words = kind.is_long && !blind ? long_words_ : short_words_;
  ask.max_tokens = kind.is_large ? large_max_ : kSmallMax;
  ask.long_answer = kind.long_answer;
  return ask;
}

std::optional<Ask> Plan::Refused() {
  if (!HasRemaining()) return std::nullopt;
  switch (step_++) {
    case 0:
      return Ask{.purpose = Purpose::kRefused,
                 .prompt_words = short_words_,
                 .wrong = true,
                 .copies = kWrongCopies,
                 .wait = kPace};
    case 1:
      return Ask{.purpose = Purpose::kRefused, .prompt_words = short_words_};
    default:
      return std::nullopt;
  }
}

std::optional<Ask> Plan::Watch() {
  if (!HasRemaining()) return std::nullopt;
  if (step_ == 0) {
    ++step_;
    return Ask{.purpose = Purpose::kWatch,
               .prompt_words = short_words_,
               .max_tokens = large_max_,
               .wait = kPace};
  }
  if (step_ == 1) watch_from_s_ = Now();
  const size_t index = static_cast<size_t>(step_ - 1);
  const absl::Span<const double> at =
      options_.exhaust ? absl::MakeConstSpan(kShortWatchAtS) : absl::MakeConstSpan(kWatchAtS);
  if (index >= at.size()) return std::nullopt;
  if (index >= 3 && Decided()) return std::nullopt;
  ++step_;
  const double wait = std::max(watch_from_s_ + at[index] - Now(), 0.05);
  return Ask{.purpose = Purpose::kWatch, .prompt_words = short_words_, .wait = absl::Seconds(wait)};
}

// Whether it is clear how every limit comes back, by how it behaved and not by what resets say.
bool Plan::Decided() const {
  for (const Dimension dimension : kToldDimensions) {
    const Fit fit = FitSeries(MakeSeries(answers_, dimension), /*use_resets=*/false);
    if (!fit.seen || !fit.moved) continue;
    const Confidence sure = ConfidenceOf(fit.counting);
    // What comes back continuously has shown it by now; windows are worth the wait.
    const bool bucket = fit.best.counting == Counting::kBucket && sure == Confidence::kLikely;
    if (sure != Confidence::kCertain && !bucket) return false;
  }
  return true;
}

std::optional<Ask> Plan::Exhaust() {
  const auto refused = std::find_if(answers_.begin(), answers_.end(), [](const Answer& a) {
    return a.ask.purpose == Purpose::kExhaust && a.fate == Fate::kThrottled;
  });
  if (refused != answers_.end()) {
    refused_at_s_ = refused->head_s;
    return std::nullopt;
  }
  // Some requests are left for afterwards.
  if (options_.max_requests - requests_ <= kReopenTries + 2) return std::nullopt;
  Ask ask{.purpose = Purpose::kExhaust,
          .prompt_words = short_words_,
          .max_tokens = large_max_,
          .copies = std::min(std::min(kBurst << std::min(step_++, 8), kLargestBurst),
                             options_.max_requests - requests_ - kReopenTries - 2)};
  // Most of what is risked comes back with the answers' usage.
  const int64_t room = (options_.max_tokens - tokens_) / 2;
  if (TokensAtMost(ask) > room) ask.max_tokens = kSmallMax;
  const int64_t fits = std::max<int64_t>(room / TokensAtMost(ask), 1);
  ask.copies = static_cast<int>(std::min<int64_t>(ask.copies, fits));
  return ask;
}

std::optional<Ask> Plan::Reopen() {
  if (refused_at_s_ == 0) return std::nullopt;
  const Answer& last = answers_.back();
  Ask ask{.purpose = Purpose::kReopen, .prompt_words = short_words_, .max_tokens = large_max_};
  if (step_ == 0) {
    // Another at once: does a refused one count?
    ++step_;
    return ask;
  }
  if (last.fate == Fate::kThrottled && reopen_tries_ < kReopenTries) {
    const absl::Duration doubled = absl::Seconds(2 << reopen_tries_++);
    ask.wait = std::min(last.retry_after.value_or(doubled), kLongestPause) + absl::Milliseconds(50);
    step_ = 1;
    return ask;
  }
  if (last.fate != Fate::kAnswered || step_ >= 2) return std::nullopt;
  ++step_;
  ask.copies = kBurst / 2;
  return ask;
}

void Plan::ChooseSizes() {
  sized_ = true;
  bool thousands = false;
  int64_t tokens = INT64_MAX;  // of the least limit
  int64_t output = INT64_MAX;
  for (const Answer& answer : answers_) {
    for (const Dimension dimension :
         {Dimension::kTokens, Dimension::kInputTokens, Dimension::kOutputTokens}) {
      const provider::RateHeaders::Limit& words = LimitOf(answer, dimension);
      if (!words.remaining && !words.limit) continue;
      if (words.remaining) thousands = *words.remaining % 1000 == 0 && *words.remaining > 0;
      const int64_t limit =
          std::min(words.limit.value_or(INT64_MAX), words.remaining.value_or(INT64_MAX));
      if (dimension != Dimension::kOutputTokens) tokens = std::min(tokens, limit);
      if (dimension != Dimension::kInputTokens) output = std::min(output, limit);
    }
  }
  // Where what is left is told in thousands, less than some thousands cannot be seen.
  if (thousands) long_words_ = 3500;
  if (tokens != INT64_MAX) long_words_ = std::min(long_words_, std::max<int64_t>(tokens / 16, 40));
  if (output != INT64_MAX) large_max_ = std::min(large_max_, std::max<int64_t>(output / 8, 32));
  // The whole plan has to fit.
  const int64_t room = options_.max_tokens / 12;
  long_words_ = std::min(long_words_, std::max<int64_t>(room, 40));
  large_max_ = std::min(large_max_, std::max<int64_t>(room, 32));
}

void Plan::Stop(PlanEnd end, std::string why) {
  end_ = end;
  why_ = std::move(why);
}

bool Plan::HasRemaining() const {
  return std::any_of(answers_.begin(), answers_.end(), [](const Answer& answer) {
    return std::any_of(std::begin(kToldDimensions), std::end(kToldDimensions),
                       [&](Dimension d) { return LimitOf(answer, d).remaining.has_value(); });
  });
}

// When the last answer ended.
double Plan::Now() const {
  double now = 0;
  for (const Answer& answer : answers_) now = std::max(now, answer.end_s);
  return now;
}

}  // namespace headrace::probe
