#include "coordinator/dataset/byte_source.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/job/check_job.h"

namespace headrace {
namespace {

int64_t ModifiedNanos(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

class FileSource : public ByteSource {
 public:
  FileSource(std::shared_ptr<InputFile> file, int64_t offset, Sha256* hash)
      : file_(std::move(file)), offset_(offset), hash_(hash) {}

  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    HR_ASSIGN_OR_RETURN(const size_t size, file_->ReadAt(offset_, out, capacity));
    // After the read, so that no byte of a changed file is taken for one of the file that was
    // scanned: ids and results would belong to other rows.
    HR_RETURN_IF_ERROR(file_->CheckUnchanged());
    if (hash_ != nullptr) hash_->Add(out, size);
    offset_ += static_cast<int64_t>(size);
    return size;
  }

 private:
  const std::shared_ptr<InputFile> file_;
  int64_t offset_;
  Sha256* const hash_;
};

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  auto* context = static_cast<EVP_MD_CTX*>(context_);
  HR_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::Add(const char* data, size_t size) {
  HR_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, size) == 1);
}

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HR_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

absl::StatusOr<std::shared_ptr<InputFile>> InputFile::Open(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("dataset.path: is missing");
  // Whoever opens datasets makes a copy first: the coordinator itself speaks no HTTP.
  if (IsUrl(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset.path: ", ShownUrl(path),
                     " is a URL; download it first and give the path of the file"));
  }
  const std::string what = absl::StrCat("dataset ", path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const absl::Status status = ErrnoStatus(errno, what);
    if (!absl::IsNotFound(status) || absl::StartsWith(path, "/")) return status;
    return absl::NotFoundError(
        absl::StrCat(status.message(), " (a relative path is taken from the working directory)"));
  }
  HR_ASSIGN_OR_RETURN(std::shared_ptr<InputFile> file, Adopt(fd, path));
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return file;
}

absl::StatusOr<std::shared_ptr<InputFile>> InputFile::Adopt(int fd, std::string path) {
  std::shared_ptr<InputFile> file(new InputFile(std::move(path), fd));
  const std::string what = absl::StrCat("dataset ", file->path_);
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, what);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, S_ISDIR(info.st_mode) ? " is a directory" : " is no regular file",
                     "; a dataset is one file, since it is read more than once"));
  }
  file->size_ = info.st_size;
  file->modified_ns_ = ModifiedNanos(info);
  return file;
}

InputFile::~InputFile() { close(fd_); }

absl::StatusOr<size_t> InputFile::ReadAt(int64_t offset, char* out, size_t capacity) const {
  while (true) {
    const ssize_t size = pread(fd_, out, capacity, offset);
    if (size >= 0) return static_cast<size_t>(size);
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("reading dataset ", path_));
  }
}

absl::Status InputFile::CheckUnchanged() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, absl::StrCat("dataset ", path_));
  if (info.st_size != size_ || ModifiedNanos(info) != modified_ns_) {
    return absl::FailedPreconditionError(
        absl::StrCat("dataset ", path_, " was changed while it was in use"));
  }
  return absl::OkStatus();
}

std::unique_ptr<ByteSource> MakeFileSource(std::shared_ptr<InputFile> file, int64_t offset,
                                           Sha256* hash) {
  return std::make_unique<FileSource>(std::move(file), offset, hash);
}

}  // namespace headrace
