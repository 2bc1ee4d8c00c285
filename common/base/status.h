// Helpers for absl::Status. Context is added once per layer, with ids, never with secrets or
// prompts.
#ifndef HEADRACE_COMMON_BASE_STATUS_H_
#define HEADRACE_COMMON_BASE_STATUS_H_

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace headrace {

// `status` with "context: " before its message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

// The status of a failed system call: `what` and the text of `error` (an errno value). ENOENT is
// NotFound, EEXIST AlreadyExists, EACCES and EPERM PermissionDenied, ENOSPC, EDQUOT, EMFILE and
// ENFILE ResourceExhausted, EWOULDBLOCK Unavailable, anything else Internal.
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace headrace

// Inside a function that returns Status or StatusOr, not a coroutine.
#define HR_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    if (absl::Status hr_status = (expr); !hr_status.ok()) return hr_status; \
  } while (false)

#define HR_INTERNAL_CONCAT2(a, b) a##b
#define HR_INTERNAL_CONCAT(a, b) HR_INTERNAL_CONCAT2(a, b)

// HR_ASSIGN_OR_RETURN(auto value, MakeValue()); in a plain function.
#define HR_ASSIGN_OR_RETURN(lhs, expr) \
  HR_INTERNAL_ASSIGN_OR_RETURN(HR_INTERNAL_CONCAT(hr_statusor_, __LINE__), lhs, expr)
#define HR_INTERNAL_ASSIGN_OR_RETURN(var, lhs, expr) \
  auto var = (expr);                                 \
  if (!var.ok()) return std::move(var).status();     \
  lhs = *std::move(var)

// The same inside a coroutine.
#define HR_CO_RETURN_IF_ERROR(expr)                                            \
  do {                                                                         \
    if (absl::Status hr_status = (expr); !hr_status.ok()) co_return hr_status; \
  } while (false)

#endif  // HEADRACE_COMMON_BASE_STATUS_H_
