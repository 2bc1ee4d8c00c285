// The rules that the values of a job must keep, apart from how they were written.
#ifndef HEADRACE_COORDINATOR_JOB_CHECK_JOB_H_
#define HEADRACE_COORDINATOR_JOB_CHECK_JOB_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/job/job.h"

namespace headrace {

// Limits of a job (chosen, not measured).
inline constexpr size_t kMaxModels = 1000;
inline constexpr size_t kMaxPools = 1000;
inline constexpr size_t kMaxNameBytes = 200;
inline constexpr int64_t kMaxBatchSize = 100'000;
inline constexpr int64_t kMaxInFlight = 100'000;  // of a pool or a worker
inline constexpr int kMaxAttempts = 100;
inline constexpr int kMaxPasses = 100;

struct FieldError {
  std::string field;  // "models[0].endpoint"
  std::string what;   // never with a key in it
};

// The first value that is wrong by itself; fields that are still empty or zero are not looked at.
std::optional<FieldError> FindBadValue(const JobConfig& job);

// The first thing that a finished job lacks, or two fields that contradict each other.
std::optional<FieldError> FindGap(const JobConfig& job);

// What is wrong with an endpoint; empty when it is an http or https URL without user, password and
// fragment.
std::string EndpointProblem(absl::string_view endpoint);
// The same for a dataset's URL, which may have a query, but none with a key or a signature: it is
// written into the run directory. Neither is repeated.
std::string DatasetUrlProblem(absl::string_view url);
// True for what begins with http:// or https://.
bool IsUrl(absl::string_view path);
// A path as it is; a URL without its query and without a user.
std::string ShownUrl(absl::string_view path);
// True for 127.0.0.0/8, ::1 and localhost. `endpoint` must be without problems.
bool IsLoopbackEndpoint(absl::string_view endpoint);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_CHECK_JOB_H_
