#include "common/quota/observations.h"

#include <algorithm>

namespace headrace::quota {
namespace {

int64_t Excess(const Observation& observation) { return *observation.used - observation.expected; }

}  // namespace

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
