#include "cli/exit_code.h"

#include "gtest/gtest.h"

namespace headrace {
namespace {

// Scripts rely on these numbers.
TEST(ExitCode, TheTableIsWhatWasPromised) {
  EXPECT_EQ(ExitCodeTable(),
            "Exit codes:\n"
            "    0  ok\n"
            "    1  error\n"
            "    2  usage or configuration\n"
            "    3  finished with more failures than allowed\n"
            "    4  credentials\n"
            "    5  a threshold was not met\n"
            "    6  budget used up (run again to resume)\n"
            "    7  coordinator or Redis unreachable\n"
            "  130  interrupted (run again to resume)\n");
}

TEST(ExitCode, EveryStatusHasOne) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeFor(absl::UnauthenticatedError("")), ExitCode::kCredentials);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), ExitCode::kInterrupted);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), ExitCode::kError);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), ExitCode::kError);
}

}  // namespace
}  // namespace headrace
