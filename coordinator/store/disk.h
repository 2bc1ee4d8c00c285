// The file operations of the run directory, behind an interface so that tests can fail each of
// them.
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

// An open file. All calls block. Errors are ErrnoStatus() with the path: ResourceExhausted is a
// full disk or quota. One thread at a time.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `data` at the end. After an error any part of it may be in the file.
  virtual absl::Status Append(absl::string_view data) = 0;
  virtual absl::Status DataSync() = 0;
  // Writes `data` over what is there from `offset` on; the file must be that long already. A crash
  // leaves old and new bytes in its place.
  virtual absl::Status Overwrite(int64_t offset, absl::string_view data) = 0;
  // Cuts to `size` and gives back what Reserve() took beyond it.
  virtual absl::Status Truncate(int64_t size) = 0;
  // Takes disk space for `bytes` beyond the current end without changing the size, so that a full
  // disk is met before a write and not in the middle of it. OK where the file system cannot do
  // that.
  virtual absl::Status Reserve(int64_t bytes) = 0;
  // Reads up to `size` bytes from `offset` into `buffer`; fewer only at the end of the file.
  virtual absl::StatusOr<int64_t> ReadAt(int64_t offset, int64_t size, char* buffer) = 0;
  virtual absl::StatusOr<int64_t> Size() = 0;

  // Up to `size` bytes from `offset`; shorter only at the end of the file.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t size);
};

class Disk {
 public:
  virtual ~Disk() = default;
  static Disk* Real();  // lives for ever

  // Opens for reading and appending, creating when missing.
  virtual absl::StatusOr<std::unique_ptr<File>> OpenAppend(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenRead(const std::string& path) = 0;
  // Also its parents. Makes the entries of what it created durable.
  virtual absl::Status MakeDirs(const std::string& path) = 0;
  // Makes creations and renames in `path` durable.
  virtual absl::Status SyncDir(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK when there is no such file.
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names in `dir`, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& dir) = 0;
  // An exclusive lock, held until the returned file is destroyed. FailedPrecondition, with what the
  // holder wrote about itself, when another process (or this one) holds it.
  virtual absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) = 0;

  // A whole small file, durably: temporary file, sync, rename, sync of the directory. A crash
  // leaves the old content or the new, and perhaps a file that ends in kTempSuffix.
  absl::Status WriteWhole(const std::string& path, absl::string_view content);
  absl::StatusOr<std::string> ReadWhole(const std::string& path);

  static constexpr absl::string_view kTempSuffix = ".tmp";
};

// The directory part of `path`, "." without one.
std::string DirName(const std::string& path);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_DISK_H_
