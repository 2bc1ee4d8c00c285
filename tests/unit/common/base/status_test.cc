#include "common/base/status.h"

#include <cerrno>
#include <memory>

#include "gtest/gtest.h"

namespace headrace {
namespace {

using absl::StatusCode;

absl::Status RunAfter(absl::Status first, int* reached) {
  HR_RETURN_IF_ERROR(first);
  ++*reached;
  return absl::OkStatus();
}

absl::StatusOr<int> Twice(absl::StatusOr<std::unique_ptr<int>> input) {
  HR_ASSIGN_OR_RETURN(const std::unique_ptr<int> value, std::move(input));
  return 2 * *value;
}

TEST(Annotate, AddsContextBeforeTheMessageAndKeepsTheCode) {
  EXPECT_EQ(Annotate(absl::NotFoundError("no such file"), "job.yaml:3"),
            absl::NotFoundError("job.yaml:3: no such file"));
}

TEST(Annotate, LeavesOkAlone) { EXPECT_EQ(Annotate(absl::OkStatus(), "x"), absl::OkStatus()); }

TEST(ErrnoStatus, GivesEachErrorItsCode) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "open a"),
            absl::NotFoundError("open a: No such file or directory"));
  EXPECT_EQ(ErrnoStatus(ENOTDIR, "").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrnoStatus(EISDIR, "").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrnoStatus(EEXIST, "").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(EACCES, "").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EPERM, "").code(), StatusCode::kPermissionDenied);
  for (int error : {ENOSPC, EDQUOT, EMFILE, ENFILE}) {
    EXPECT_EQ(ErrnoStatus(error, "").code(), StatusCode::kResourceExhausted) << error;
  }
  EXPECT_EQ(ErrnoStatus(EAGAIN, "").code(), StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(EIO, "").code(), StatusCode::kInternal);
}

TEST(ReturnIfError, EndsTheFunctionOnlyOnAnError) {
  int reached = 0;
  EXPECT_EQ(RunAfter(absl::InternalError("x"), &reached), absl::InternalError("x"));
  EXPECT_EQ(reached, 0);
  EXPECT_EQ(RunAfter(absl::OkStatus(), &reached), absl::OkStatus());
  EXPECT_EQ(reached, 1);
}

TEST(AssignOrReturn, MovesTheValueOutOrPassesTheErrorOn) {
  EXPECT_EQ(Twice(absl::DataLossError("cut")).status(), absl::DataLossError("cut"));
  EXPECT_EQ(Twice(std::make_unique<int>(21)).value(), 42);
}

}  // namespace
}  // namespace headrace
