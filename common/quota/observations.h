// Gathers what the answers of one worker say about the limits, so that the store hears of it
// seldom.
#ifndef HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_
#define HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/time.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

// What response headers say of one limit.
struct LimitWords {
  Dimension dimension = Dimension::kRequests;
  std::optional<int64_t> limit{};
  std::optional<int64_t> remaining{};
  std::optional<absl::Duration> reset{};
};

// What an answer to a call that reserved `reserved`, and with which `expected` should be used,
// shows of a limit. `taken`: the provider took the call, so its figures have it in. Absent where
// the words say nothing. Words about a day (OpenAI and Groq say the day's requests where those are
// shorter) become an observation of the day.
std::optional<Observation> Observe(const LimitWords& words, const Costs& reserved,
                                   const Costs& expected, MonoTime sent_at, bool taken);

// "Limit 50000, Used 47949, Requested 3006" of a 429: exact, and what the provider takes a call
// for.
struct ThrottleFigures {
  int64_t limit = 0;
  int64_t used = 0;
  int64_t requested = 0;
};
// Absent unless all three are there.
std::optional<ThrottleFigures> ReadThrottleFigures(absl::string_view message);
Observation Observe(const ThrottleFigures& figures, Dimension dimension, const Costs& reserved,
                    const Costs& expected, MonoTime sent_at);

class Observations {
 public:
  // The one to tell the store now, if any: the median of the last second by what is in excess, once
  // there are enough of them, so that one answer out of order says nothing; a limit that changed
  // and a 429's own figures at once.
  std::optional<Observation> Add(MonoTime now, const Observation& observation);

 private:
  // quota.md 3.5 asks for the median of 8 in a second. A pool with fewer answers than that needs
  // fewer: it also moves more slowly.
  static constexpr size_t kEnough = 8;
  static constexpr absl::Duration kEvery = absl::Seconds(1);
  static constexpr absl::Duration kAtMost = absl::Seconds(2);  // with less than enough

  struct Gathered {
    std::vector<Observation> samples;  // at most kMost
    MonoTime since;                    // of the first
    std::optional<int64_t> limit;      // as last told to the store
  };
  static constexpr size_t kMost = 64;  // a second's median needs no more

  std::array<Gathered, kDimensionCount> gathered_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_OBSERVATIONS_H_
