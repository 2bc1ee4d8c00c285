// The keys of a pool in a job file (docs/job_file.md#pools) that follow from the findings. Pure.
#ifndef HEADRACE_WORKER_PROBE_POOL_KEYS_H_
#define HEADRACE_WORKER_PROBE_POOL_KEYS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/probe/findings.h"

namespace headrace::probe {

// The key of a limit for a `unit` of time: "minute", "day". Absent where a pool has none.
std::optional<std::string> LimitKey(quota::Dimension dimension, absl::string_view unit);

// Adds the limits that the headers tell, how they are counted, and what is charged.
void AddMeasuredKeys(Findings* findings);
// Puts a profile before them, for what has no key of its own.
void AddProfileKey(const Subject& subject, Findings* findings);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_POOL_KEYS_H_
