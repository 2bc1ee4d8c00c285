#include "coordinator/dataset/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace {

absl::StatusOr<int> OpenScratchFile(const std::string& dir) {
  std::string place = dir;
  if (place.empty()) {
    const char* const tmp = std::getenv("TMPDIR");
    place = tmp != nullptr && tmp[0] != '\0' ? tmp : "/tmp";
  }
  std::string path = absl::StrCat(place, "/headrace-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("temporary file in ", place));
  unlink(path.c_str());
  return fd;
}

absl::Status WriteAll(int fd, absl::string_view data, absl::string_view what) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, what);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace headrace
