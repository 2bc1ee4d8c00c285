#include "common/quota/flight_sample.h"

#include <algorithm>
#include <cmath>

namespace headrace::quota {
namespace {

constexpr double kThousandths = 1000;
// What one number of a sample from elsewhere may come to, so that sums do not overflow.
constexpr int64_t kMostNumber = int64_t{1} << 52;

int64_t Log(int64_t value) {
  return std::llround(std::log(static_cast<double>(std::max<int64_t>(1, value))) * kThousandths);
}

template <typename Sample, typename Visit>
void EachNumber(Sample* sample, Visit visit) {
  visit(&sample->span_us);
  visit(&sample->in_flight_us);
  visit(&sample->starved_us);
  visit(&sample->answered);
  visit(&sample->failed);
  visit(&sample->refused);
  visit(&sample->answered_us);
  visit(&sample->ended_us);
  for (auto& group : sample->groups) {
    visit(&group.calls);
    visit(&group.x);
    visit(&group.xx);
    visit(&group.y);
    visit(&group.yy);
    visit(&group.xy);
  }
}

}  // namespace

void FlightSample::AddAnswer(size_t group, absl::Duration in_flight, int64_t tokens) {
  const int64_t us = std::max<int64_t>(1, absl::ToInt64Microseconds(in_flight));
  ++answered;
  answered_us += us;
  ended_us += us;
  Group& of = groups[group % kGroups];
  const int64_t x = Log(us);
  const int64_t y = Log(std::max<int64_t>(0, tokens) + 1);
  ++of.calls;
  of.x += x;
  of.xx += x * x;
  of.y += y;
  of.yy += y * y;
  of.xy += x * y;
}

void FlightSample::AddFailure(absl::Duration in_flight, bool is_refused) {
  ++(is_refused ? refused : failed);
  ended_us += std::max<int64_t>(1, absl::ToInt64Microseconds(in_flight));
}

FlightSample& FlightSample::operator+=(const FlightSample& other) {
  std::array<int64_t, kNumbers> numbers;
  size_t i = 0;
  EachNumber(&other, [&](const int64_t* number) { numbers[i++] = *number; });
  i = 0;
  EachNumber(this, [&](int64_t* number) { *number += numbers[i++]; });
  return *this;
}

std::vector<int64_t> FlightSample::ToNumbers() const {
  std::vector<int64_t> numbers;
  numbers.reserve(kNumbers);
  EachNumber(this, [&](const int64_t* number) { numbers.push_back(*number); });
  while (!numbers.empty() && numbers.back() == 0) numbers.pop_back();
  return numbers;
}

FlightSample FlightSample::FromNumbers(absl::Span<const int64_t> numbers) {
  FlightSample sample;
  size_t i = 0;
  EachNumber(&sample, [&](int64_t* number) {
    if (i < numbers.size()) *number = std::clamp<int64_t>(numbers[i], 0, kMostNumber);
    ++i;
  });
  return sample;
}

}  // namespace headrace::quota
