// The exit codes of headrace, which scripts rely on: extended, never changed.
#ifndef HEADRACE_COMMON_OUTCOME_EXIT_CODE_H_
#define HEADRACE_COMMON_OUTCOME_EXIT_CODE_H_

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

}  // namespace headrace

#endif  // HEADRACE_COMMON_OUTCOME_EXIT_CODE_H_
