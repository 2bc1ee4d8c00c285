// What calls of one pool have shown of the provider since the last sample: how many were in flight,
// how many ended, how long they took. Sums only, so that the samples of several workers add up.
#ifndef HEADRACE_COMMON_QUOTA_FLIGHT_SAMPLE_H_
#define HEADRACE_COMMON_QUOTA_FLIGHT_SAMPLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace headrace::quota {

struct FlightSample {
  // Models are kept apart, as they take their own times: a change of the mix is no change of the
  // provider. Beyond so many they share. Chosen: jobs have a few.
  static constexpr size_t kGroups = 16;
  static constexpr size_t kGroupNumbers = 6;
  static constexpr size_t kHeadNumbers = 8;
  static constexpr size_t kNumbers = kHeadNumbers + kGroups * kGroupNumbers;

  // Answered calls of one model. x is the logarithm of the time in flight in microseconds, y that
  // of the tokens of the answer plus one, both in thousandths. Logarithms, as both spread over
  // decades, and a few calls that last for minutes would outweigh all others in a mean.
  struct Group {
    int64_t calls = 0;
    int64_t x = 0;
    int64_t xx = 0;
    int64_t y = 0;
    int64_t yy = 0;
    int64_t xy = 0;
  };

  int64_t span_us = 0;       // covered by the sample, added up over the workers
  int64_t in_flight_us = 0;  // time in flight of all calls within it
  int64_t starved_us = 0;    // within it, attempts waited for nothing but a slot
  int64_t answered = 0;
  int64_t failed = 0;       // ended otherwise, but for the refused and the cancelled ones
  int64_t refused = 0;      // for being too many: overload, or a 429 that is not of a rate
  int64_t answered_us = 0;  // time in flight of the answered, the whole of it
  int64_t ended_us = 0;     // the same of all that ended
  std::array<Group, kGroups> groups{};

  // A call of group `group` was answered.
  void AddAnswer(size_t group, absl::Duration in_flight, int64_t tokens);
  void AddFailure(absl::Duration in_flight, bool is_refused);

  FlightSample& operator+=(const FlightSample& other);

  // In the order of the fields, without the zeros at the end; and back. Numbers that are missing
  // are zero, further ones are dropped, negative ones count as zero.
  std::vector<int64_t> ToNumbers() const;
  static FlightSample FromNumbers(absl::Span<const int64_t> numbers);
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_FLIGHT_SAMPLE_H_
