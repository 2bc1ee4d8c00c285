// From statuses to exit codes, and the codes' meanings for people.
#ifndef HEADRACE_CLI_EXIT_CODE_H_
#define HEADRACE_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "common/outcome/exit_code.h"

namespace headrace {

// The code of a command that ended with `status`: usage for InvalidArgument, NotFound,
// FailedPrecondition and OutOfRange, credentials for Unauthenticated, unreachable for Unavailable,
// interrupted for Cancelled, error for anything else that is not OK.
ExitCode ExitCodeFor(const absl::Status& status);

// The table of all codes, for --help.
std::string ExitCodeTable();

}  // namespace headrace

#endif  // HEADRACE_CLI_EXIT_CODE_H_
