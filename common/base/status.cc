#include "common/base/status.h"

#include <cerrno>
#include <system_error>

namespace headrace {

absl::Status ErrnoStatus(int error, absl::string_view what) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (error) {
    case ENOENT:
      code = absl::StatusCode::kNotFound;
      break;
    case ENOTDIR:
    case EISDIR:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    case EEXIST:
      code = absl::StatusCode::kAlreadyExists;
      break;
    case EACCES:
    case EPERM:
      code = absl::StatusCode::kPermissionDenied;
      break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case EWOULDBLOCK:
      code = absl::StatusCode::kUnavailable;
      break;
    default:
      break;
  }
  return absl::Status(code, absl::StrCat(what, ": ", std::generic_category().message(error)));
}

}  // namespace headrace
