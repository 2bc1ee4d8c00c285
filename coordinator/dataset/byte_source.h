// Bytes of a dataset file in order: as they are on disk, or decompressed, and hashed on the way.
#ifndef HEADRACE_COORDINATOR_DATASET_BYTE_SOURCE_H_
#define HEADRACE_COORDINATOR_DATASET_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headrace {

// SHA-256, fed piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const char* data, size_t size);
  // Lower-case hex; once, at the end.
  std::string Finish();

 private:
  void* context_;  // EVP_MD_CTX
};

// An open regular file. One descriptor serves all readers, by pread; so the data stay the same when
// another file takes the name. Thread-safe.
class InputFile {
 public:
  // NotFound, PermissionDenied and others as the system says; InvalidArgument when it is no regular
  // file (it is read several times), or a URL.
  static absl::StatusOr<std::shared_ptr<InputFile>> Open(const std::string& path);
  // A regular file that is open already, and belongs to the InputFile from here on. `path` is for
  // messages.
  static absl::StatusOr<std::shared_ptr<InputFile>> Adopt(int fd, std::string path);
  ~InputFile();

  // At most `capacity` bytes from `offset`; 0 at the end.
  absl::StatusOr<size_t> ReadAt(int64_t offset, char* out, size_t capacity) const;
  // FailedPrecondition when the file was written to since Open.
  absl::Status CheckUnchanged() const;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  int64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// A stream of bytes. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At least one byte, at most `capacity`; 0 only at the end. InvalidArgument on damaged compressed
  // data.
  virtual absl::StatusOr<size_t> Read(char* out, size_t capacity) = 0;
};

enum class Compression { kNone, kGzip, kZstd };

// The file from `offset`; every byte goes to `hash` too, when it is not null.
std::unique_ptr<ByteSource> MakeFileSource(std::shared_ptr<InputFile> file, int64_t offset,
                                           Sha256* hash);
// Decompresses `raw`: all members of a gzip file, all frames of a zstd file. `raw` must outlive it.
// Memory: gzip 48 KiB and two buffers, zstd at most kMaxZstdWindowLog and two buffers.
inline constexpr int kMaxZstdWindowLog = 27;  // 128 MiB, the limit of the zstd tool without flags
std::unique_ptr<ByteSource> MakeDecoder(Compression compression, ByteSource* raw,
                                        const std::string& path);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_BYTE_SOURCE_H_
