#include "cli/exit_code.h"

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace headrace {
namespace {

struct Row {
  ExitCode code;
  absl::string_view meaning;
};

constexpr Row kTable[] = {
    {ExitCode::kOk, "ok"},
    {ExitCode::kError, "error"},
    {ExitCode::kUsage, "usage or configuration"},
    {ExitCode::kTooManyFailures, "finished with more failures than allowed"},
    {ExitCode::kCredentials, "credentials"},
    {ExitCode::kThreshold, "a threshold was not met"},
    {ExitCode::kBudget, "budget used up (run again to resume)"},
    {ExitCode::kUnreachable, "coordinator or Redis unreachable"},
    {ExitCode::kInterrupted, "interrupted (run again to resume)"},
};

}  // namespace

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kCredentials;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnreachable;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kError;
  }
}

std::string ExitCodeTable() {
  std::string out = "Exit codes:\n";
  for (const Row& row : kTable) {
    absl::StrAppendFormat(&out, "  %3d  %s\n", static_cast<int>(row.code), row.meaning);
  }
  return out;
}

}  // namespace headrace
