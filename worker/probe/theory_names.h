// What theories and their parts are called: in reports, and as values of a job file.
#ifndef HEADRACE_WORKER_PROBE_THEORY_NAMES_H_
#define HEADRACE_WORKER_PROBE_THEORY_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "worker/probe/theory.h"

namespace headrace::probe {

// "continuous", "fixed minute", "rolling minute", "sliding minute", "fixed 10s", "fixed day", ...
std::string CountingName(const Theory& theory);
// What a job file's `window` calls it: "continuous", "minute", "10s", "1s"; "day", "hour" else.
absl::string_view WindowKey(const Theory& theory);
// "larger", "sum", "actuals", as a job file's `charge`; "prompt": only that; "nothing".
absl::string_view ChargeKey(const Theory& theory);
absl::string_view AtSendName(AtSend at_send);
absl::string_view AtEndName(AtEnd at_end);
absl::string_view ShownName(Shown shown);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_THEORY_NAMES_H_
