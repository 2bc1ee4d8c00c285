// The file operations of the run directory, behind an interface so that tests can fail each of them.
#ifndef HEADRACE_COORDINATOR_STORE_DISK_H_
#define HEADRACE_COORDINATOR_STORE_DISK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace {

// An open file. All calls block. Errors are ErrnoStatus() with the path.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `data` at the end; a short write is an error.
  virtual absl::Status Append(absl::string_view data) = 0;
  virtual absl::Status DataSync() = 0;
  virtual absl::Status Truncate(int64_t size) = 0;
  // Up to `size` bytes from `offset`; shorter only at the end of the file.
  virtual absl::StatusOr<std::string> Read(int64_t offset, int64_t size) = 0;
  virtual absl::StatusOr<int64_t> Size() = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;
  static Disk* Real();  // lives for ever

  // Opens for reading and appending, creating when missing.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenRead(const std::string& path) = 0;
  virtual absl::Status MakeDirs(const std::string& path) = 0;
  // Makes creations and renames in `path` durable.
  virtual absl::Status SyncDir(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& dir) = 0;
  // An exclusive lock, held until the returned file is destroyed. FailedPrecondition when another
  // process (or this one) holds it.
  virtual absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) = 0;

  // A whole small file, durably: temporary file, sync, rename, sync of the directory.
  absl::Status WriteWhole(const std::string& path, absl::string_view content);
  absl::StatusOr<std::string> ReadWhole(const std::string& path);
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_DISK_H_
