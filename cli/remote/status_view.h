// What `headrace status` and `headrace jobs` print. Text that workers and jobs chose is shown on
// one line and without control characters.
#ifndef HEADRACE_CLI_REMOTE_STATUS_VIEW_H_
#define HEADRACE_CLI_REMOTE_STATUS_VIEW_H_

#include <string>

#include "absl/strings/string_view.h"
#include "headrace/v1/operator.pb.h"

namespace headrace {

// A line on the coordinator, the jobs, and the workers.
std::string RenderStatus(absl::string_view address, const v1::GetStatusResponse& status);
// The jobs alone.
std::string RenderJobs(const v1::GetStatusResponse& status);
// One line on one job: "gsm8k (job 3): running, 1200 of 3957 done (1180 ok, 20 failed), ...".
std::string RenderJobLine(const v1::JobStatus& job);

// Whether nothing more will happen to the job in this process of the coordinator.
bool HasEnded(const v1::JobStatus& job);

// The same as one JSON object on one line, for scripts. Unknown times are null.
std::string StatusJson(const v1::GetStatusResponse& status);
std::string JobsJson(const v1::GetStatusResponse& status);
std::string JobJson(const v1::JobStatus& job);
std::string SubmissionJson(const v1::SubmitJobResponse& submission);

}  // namespace headrace

#endif  // HEADRACE_CLI_REMOTE_STATUS_VIEW_H_
