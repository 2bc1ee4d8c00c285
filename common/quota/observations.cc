#include "common/quota/observations.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace headrace::quota {
namespace {

int64_t Excess(const Observation& observation) { return *observation.used - observation.expected; }

// A level that takes longer than this to drain in full is a day's (quota.md 1.4: 30 of 14,400 used
// and a reset of 179.56 s). A short reset may also be the end of a minute that has just begun; then
// the limit is taken as a minute's, which is at most another one than ours, and larger.
constexpr double kLongestMinute = 600;

bool IsOfADay(const LimitWords& words) {
  if (!words.reset) return false;
  if (*words.reset > absl::Minutes(10)) return true;
  if (!words.limit || !words.remaining || *words.remaining >= *words.limit) return false;
  // Of a counter that starts anew, the reset says nothing of the level; it is at most its window.
  const double used = static_cast<double>(*words.limit - *words.remaining);
  const double drains =
      absl::ToDoubleSeconds(*words.reset) / used * static_cast<double>(*words.limit);
  return drains > kLongestMinute && *words.reset > absl::Seconds(61);
}

Dimension OfTheDay(Dimension dimension) {
  return dimension == Dimension::kRequests ? Dimension::kRequestsPerDay : Dimension::kTokensPerDay;
}

std::optional<int64_t> NumberAfter(absl::string_view text, absl::string_view word) {
  const size_t at = text.find(word);
  if (at == absl::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  while (!text.empty() && (text.front() == ' ' || text.front() == ':')) text.remove_prefix(1);
  int64_t value = 0;
  size_t digits = 0;
  for (; digits < text.size() && digits < 15; ++digits) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) break;
    value = value * 10 + (text[digits] - '0');
  }
  if (digits == 0 || digits == 15) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Observation> Observe(const LimitWords& words, const Costs& reserved,
                                   const Costs& expected, MonoTime sent_at, bool taken) {
  if (!words.limit) return std::nullopt;
  const bool of_a_day = IsOfADay(words);
  Observation observation;
  observation.dimension = of_a_day ? OfTheDay(words.dimension) : words.dimension;
  observation.limit = words.limit;
  if (words.remaining) observation.used = std::max<int64_t>(0, *words.limit - *words.remaining);
  observation.reset = words.reset;
  observation.sent_at = sent_at;
  const size_t i = static_cast<size_t>(words.dimension);
  observation.expected = expected[static_cast<size_t>(observation.dimension)];
  if (!taken) observation.expected -= reserved[i];
  return observation;
}

std::optional<ThrottleFigures> ReadThrottleFigures(absl::string_view message) {
  const std::optional<int64_t> limit = NumberAfter(message, "Limit");
  const std::optional<int64_t> used = NumberAfter(message, "Used");
  const std::optional<int64_t> requested = NumberAfter(message, "Requested");
  if (!limit || !used || !requested) return std::nullopt;
  return ThrottleFigures{*limit, *used, *requested};
}

Observation Observe(const ThrottleFigures& figures, Dimension dimension, const Costs& reserved,
                    const Costs& expected, MonoTime sent_at) {
  const size_t i = static_cast<size_t>(dimension);
  Observation observation;
  observation.dimension = dimension;
  observation.limit = figures.limit;
  observation.used = figures.used;
  observation.expected = expected[i] - reserved[i];
  observation.sent_at = sent_at;
  observation.exact = true;
  return observation;
}

std::optional<Observation> Observations::Add(MonoTime now, const Observation& observation) {
  Gathered& gathered = gathered_[static_cast<size_t>(observation.dimension)];
  const bool new_limit = observation.limit && observation.limit != gathered.limit;
  if (new_limit) gathered.limit = observation.limit;
  if (!observation.used) return new_limit ? std::optional(observation) : std::nullopt;
  if (observation.exact) {
    gathered.samples.clear();
    return observation;
  }
  if (gathered.samples.empty()) gathered.since = now;
  if (gathered.samples.size() < kMost) {
    gathered.samples.push_back(observation);
  } else {
    // The newest say most about now.
    std::rotate(gathered.samples.begin(), gathered.samples.begin() + 1, gathered.samples.end());
    gathered.samples.back() = observation;
  }
  const absl::Duration waited = now - gathered.since;
  const bool enough = gathered.samples.size() >= kEnough ? waited >= kEvery : waited >= kAtMost;
  if (!enough && !new_limit) return std::nullopt;
  std::vector<Observation> samples = std::move(gathered.samples);
  gathered.samples.clear();
  if (!enough) {
    // Only the limit is told; a few samples may be anything.
    Observation limit = observation;
    limit.used.reset();
    gathered.samples = std::move(samples);
    return limit;
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(
      samples.begin(), middle, samples.end(),
      [](const Observation& a, const Observation& b) { return Excess(a) < Excess(b); });
  return *middle;
}

}  // namespace headrace::quota
