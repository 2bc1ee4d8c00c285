// The last lines that a run tells a person.
#ifndef HEADRACE_CLI_RUN_RUN_REPORT_H_
#define HEADRACE_CLI_RUN_RUN_REPORT_H_

#include <string>

#include "coordinator/job/job.h"
#include "coordinator/store/summary.h"

namespace headrace {

// The last lines of `headrace run`.
std::string RenderRunEnd(const JobConfig& job, const RunSummary& summary);

}  // namespace headrace

#endif  // HEADRACE_CLI_RUN_RUN_REPORT_H_
