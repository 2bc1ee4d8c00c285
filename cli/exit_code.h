// The exit codes of headrace, which scripts rely on: extended, never changed.
#ifndef HEADRACE_CLI_EXIT_CODE_H_
#define HEADRACE_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace headrace {

enum class ExitCode : int {
  kOk = 0,
  kError = 1,
  kUsage = 2,
  kTooManyFailures = 3,
  kCredentials = 4,
  kThreshold = 5,
  kBudget = 6,
  kUnreachable = 7,
  kInterrupted = 130,
};

// The code of a command that ended with `status`: usage for InvalidArgument, NotFound,
// FailedPrecondition and OutOfRange, credentials for Unauthenticated, unreachable for Unavailable,
// interrupted for Cancelled, error for anything else that is not OK.
ExitCode ExitCodeFor(const absl::Status& status);

// The table of all codes, for --help.
std::string ExitCodeTable();

}  // namespace headrace

#endif  // HEADRACE_CLI_EXIT_CODE_H_
