#include "coordinator/store/disk.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace {

absl::StatusOr<std::string> File::Read(int64_t offset, int64_t size) {
  std::string data(static_cast<size_t>(size), '\0');
  HR_ASSIGN_OR_RETURN(const int64_t got, ReadAt(offset, size, data.data()));
  data.resize(static_cast<size_t>(got));
  return data;
}

absl::Status Disk::WriteWhole(const std::string& path, absl::string_view content) {
  const std::string temp = absl::StrCat(path, kTempSuffix);
  // A rest of an earlier crash must not stay at the front.
  HR_RETURN_IF_ERROR(Remove(temp));
  HR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, OpenAppend(temp));
  absl::Status status = file->Append(content);
  if (status.ok()) status = file->DataSync();
  file.reset();
  if (status.ok()) status = Rename(temp, path);
  if (!status.ok()) {
    // A full disk needs its space. The error is the one to tell about.
    const absl::Status ignored = Remove(temp);
    return status;
  }
  return SyncDir(DirName(path));
}

absl::StatusOr<std::string> Disk::ReadWhole(const std::string& path) {
  HR_ASSIGN_OR_RETURN(std::unique_ptr<File> file, OpenRead(path));
  HR_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  return file->Read(0, size);
}

std::string DirName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace headrace
