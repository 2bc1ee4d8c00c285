// How an item ends in a worker: a value, exactly one per item.
#ifndef HEADRACE_WORKER_BATCH_OUTCOME_H_
#define HEADRACE_WORKER_BATCH_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/async/stop.h"
#include "common/outcome/error_class.h"
#include "common/outcome/result_line.h"

namespace headrace {

struct ItemOutcome {
  enum class Kind {
    kOk,          // `line` is the result line
    kFailed,      // `line` is the error line, `error_class` the reason
    kCancelled,   // stopped, with a call under way or made before: perhaps billed, no line
    kNotStarted,  // no call that counts was made: given back untouched
  };
  Kind kind = Kind::kNotStarted;
  ErrorClass error_class = ErrorClass::kNone;
  StopReason stop;      // of kCancelled and kNotStarted
  std::string line;     // without line end
  std::string message;  // of a failure, for people, bounded
  int http_status = 0;
  uint32_t attempts = 0;   // calls made, throttled ones included
  uint32_t throttled = 0;  // of these, answered with "later"
  uint32_t possibly_billed = 0;
  Usage usage;
  ItemTimes times;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_BATCH_OUTCOME_H_
