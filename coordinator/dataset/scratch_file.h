// Files without a name, for what does not fit into memory: they vanish with the process.
#ifndef HEADRACE_COORDINATOR_DATASET_SCRATCH_FILE_H_
#define HEADRACE_COORDINATOR_DATASET_SCRATCH_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace {

// The descriptor of a new file in `dir`; empty: in $TMPDIR or /tmp. Errors as the disk gives them,
// with the directory.
absl::StatusOr<int> OpenScratchFile(const std::string& dir);

// Writes all of `data` at the file's position. `what` is for the message of a failure.
absl::Status WriteAll(int fd, absl::string_view data, absl::string_view what);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_SCRATCH_FILE_H_
