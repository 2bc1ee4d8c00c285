#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "coordinator/store/disk.h"

namespace headrace {
namespace {

// Read by the run's owner and group; results can be confidential.
constexpr mode_t kFileMode = 0640;
constexpr mode_t kDirMode = 0750;
// What a lock file says about its holder is never longer.
constexpr int64_t kMaxHolderBytes = 512;

int CloseOnExec(int flags) { return flags | O_CLOEXEC; }

// open(2) again after EINTR; -1 with errno.
int OpenFd(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), CloseOnExec(flags), kFileMode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class RealFile final : public File {
 public:
  RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RealFile() override { close(fd_); }
  RealFile(const RealFile&) = delete;
  RealFile& operator=(const RealFile&) = delete;

  absl::Status Append(absl::string_view data) override {
    while (!data.empty()) {
      const ssize_t written = write(fd_, data.data(), data.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return WriteError();
      // A short write is not an error by itself: the next one says why.
      data.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status DataSync() override {
    // EINTR too is not tried again: what the kernel did with the pages is unknown then.
    if (fdatasync(fd_) != 0) return ErrnoStatus(errno, absl::StrCat("cannot sync ", path_));
    return absl::OkStatus();
  }

  absl::Status Overwrite(int64_t offset, absl::string_view data) override {
    // With O_APPEND, Linux appends whatever pwrite(2) is told.
    const int flags = fcntl(fd_, F_GETFL);
    if (flags < 0 || fcntl(fd_, F_SETFL, flags & ~O_APPEND) != 0) return WriteError();
    absl::Status status;
    while (!data.empty() && status.ok()) {
      const ssize_t written = pwrite(fd_, data.data(), data.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        status = WriteError();
        break;
      }
      data.remove_prefix(static_cast<size_t>(written));
      offset += written;
    }
    if (fcntl(fd_, F_SETFL, flags) != 0 && status.ok()) status = WriteError();
    return status;
  }

  absl::Status Truncate(int64_t size) override {
    if (ftruncate(fd_, size) != 0) return ErrnoStatus(errno, absl::StrCat("cannot cut ", path_));
    return absl::OkStatus();
  }

  absl::Status Reserve(int64_t bytes) override {
    HR_ASSIGN_OR_RETURN(const int64_t size, Size());
    if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, size, bytes) == 0) return absl::OkStatus();
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO) {
      return ErrnoStatus(errno, absl::StrCat("cannot reserve space for ", path_));
    }
    return absl::OkStatus();  // EOPNOTSUPP, ENOSYS, EINTR: a help that is missing
  }

  absl::StatusOr<int64_t> ReadAt(int64_t offset, int64_t size, char* buffer) override {
    int64_t done = 0;
    while (done < size) {
      const ssize_t got =
          pread(fd_, buffer + done, static_cast<size_t>(size - done), offset + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read ", path_));
      if (got == 0) break;
      done += got;
    }
    return done;
  }

  absl::StatusOr<int64_t> Size() override {
    struct stat info;
    if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot stat ", path_));
    return info.st_size;
  }

 private:
  absl::Status WriteError() const {
    return ErrnoStatus(errno, absl::StrCat("cannot write ", path_));
  }

  const int fd_;
  const std::string path_;
};

std::string HostName() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return host;
}

std::string DescribeThisProcess() {
  return absl::StrCat("pid ", getpid(), " on host ", HostName(), " since ",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
}

// Whether process `pid` of this host is stopped by a signal: such a holder looks dead and is not.
bool IsStopped(absl::string_view pid) {
  const int fd = OpenFd(absl::StrCat("/proc/", pid, "/stat"), O_RDONLY);
  if (fd < 0) return false;
  char text[256];
  const ssize_t got = read(fd, text, sizeof(text));
  close(fd);
  // "pid (name) state ...": the name may hold anything (proc(5)).
  const absl::string_view stat(text, got > 0 ? static_cast<size_t>(got) : 0);
  const size_t name_end = stat.rfind(')');
  return name_end != absl::string_view::npos && name_end + 2 < stat.size() &&
         stat[name_end + 2] == 'T';
}

// What the holder of a lock wrote about itself, and what can be done.
std::string DescribeHolder(absl::string_view holder) {
  absl::ConsumeSuffix(&holder, "\n");
  if (holder.empty()) return "another process";
  const std::vector<absl::string_view> words = absl::StrSplit(holder, ' ');
  const bool is_here =
      words.size() > 4 && words[0] == "pid" && words[3] == "host" && words[4] == HostName();
  return absl::StrCat(holder, is_here && IsStopped(words[1])
                                  ? ". It is stopped, but not dead: kill -CONT lets it go on"
                                  : "");
}

class RealDisk final : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<File>> OpenAppend(const std::string& path) override {
    return Open(path, O_RDWR | O_APPEND | O_CREAT);
  }

  absl::StatusOr<std::unique_ptr<File>> OpenRead(const std::string& path) override {
    return Open(path, O_RDONLY);
  }

  absl::Status MakeDirs(const std::string& path) override {
    if (path.empty() || path == "/" || path == ".") return absl::OkStatus();
    struct stat info;
    if (stat(path.c_str(), &info) == 0) {
      return S_ISDIR(info.st_mode) ? absl::OkStatus() : ErrnoStatus(ENOTDIR, path);
    }
    const std::string parent = DirName(path);
    HR_RETURN_IF_ERROR(MakeDirs(parent));
    if (mkdir(path.c_str(), kDirMode) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("cannot make directory ", path));
    }
    return SyncDir(parent);
  }

  absl::Status SyncDir(const std::string& path) override {
    const int fd = OpenFd(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open directory ", path));
    const int result = fsync(fd);
    const int error = errno;
    close(fd);
    // Some network file systems have no sync of directories (EINVAL); nothing can be done then.
    if (result != 0 && error != EINVAL) {
      return ErrnoStatus(error, absl::StrCat("cannot sync directory ", path));
    }
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot rename ", from, " to ", to));
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& dir) override {
    DIR* const handle = opendir(dir.c_str());
    if (handle == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot list ", dir));
    std::vector<std::string> names;
    while (const dirent* entry = readdir(handle)) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(handle);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<std::unique_ptr<File>> Lock(const std::string& path) override {
    const int fd = OpenFd(path, O_RDWR | O_CREAT);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    auto file = std::make_unique<RealFile>(fd, path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, absl::StrCat("cannot lock ", path));
      const absl::StatusOr<std::string> holder = file->Read(0, kMaxHolderBytes);
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is locked by ", DescribeHolder(holder.ok() ? *holder : "")));
    }
    HR_RETURN_IF_ERROR(file->Truncate(0));
    HR_RETURN_IF_ERROR(file->Append(absl::StrCat(DescribeThisProcess(), "\n")));
    return file;
  }

 private:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, int flags) {
    const int fd = OpenFd(path, flags);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
    return std::make_unique<RealFile>(fd, path);
  }
};

}  // namespace

Disk* Disk::Real() {
  static RealDisk* const disk = new RealDisk();
  return disk;
}

}  // namespace headrace
