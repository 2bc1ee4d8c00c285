// Counts the calls of one worker in one pool into samples, see FlightSample.
#ifndef HEADRACE_COMMON_QUOTA_FLIGHT_METER_H_
#define HEADRACE_COMMON_QUOTA_FLIGHT_METER_H_

#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "common/base/time.h"
#include "common/quota/flight_sample.h"

namespace headrace::quota {

// How a call ended, for the sample.
struct FlightEnd {
  enum class Kind {
    kAnswered,
    kFailed,
    kRefused,    // for being one of too many: an overload, or a 429 that is not of a rate
    kCancelled,  // by ourselves: it says nothing
  };
  Kind kind = Kind::kFailed;
  size_t group = 0;  // of the model, see FlightSample
  absl::Duration in_flight;
  int64_t tokens = 0;  // of the answer, 0 when it does not say
};

class FlightMeter {
 public:
  explicit FlightMeter(MonoTime now) : now_(now) {}

  // `starved`, here and below: attempts wait, and only for a slot.
  void Begin(MonoTime now, bool starved) {
    Pass(now, starved);
    ++in_flight_;
  }
  void End(MonoTime now, bool starved, const FlightEnd& end) {
    Pass(now, starved);
    --in_flight_;
    switch (end.kind) {
      case FlightEnd::Kind::kAnswered:
        sample_.AddAnswer(end.group, end.in_flight, end.tokens);
        break;
      case FlightEnd::Kind::kFailed:
      case FlightEnd::Kind::kRefused:
        sample_.AddFailure(end.in_flight, end.kind == FlightEnd::Kind::kRefused);
        break;
      case FlightEnd::Kind::kCancelled:
        break;
    }
  }
  // Since the last time.
  FlightSample Take(MonoTime now, bool starved) {
    Pass(now, starved);
    return std::exchange(sample_, FlightSample());
  }

 private:
  // The state at the end of a stretch is taken for that of the whole: calls begin and end often.
  void Pass(MonoTime now, bool starved) {
    const int64_t us = absl::ToInt64Microseconds(now - now_);
    if (us <= 0) return;
    now_ = now_ + absl::Microseconds(us);
    sample_.span_us += us;
    sample_.in_flight_us += us * in_flight_;
    if (starved) sample_.starved_us += us;
  }

  MonoTime now_;
  int64_t in_flight_ = 0;
  FlightSample sample_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_FLIGHT_METER_H_
