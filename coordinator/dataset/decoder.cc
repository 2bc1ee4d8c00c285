#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/dataset/byte_source.h"

namespace headrace {
namespace {

constexpr size_t kInputBytes = 64 << 10;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("dataset ", path, ": ", what));
}

// RFC 1952. A file may be several members one after the other (section 2.2); zero bytes may follow.
class GzipSource : public ByteSource {
 public:
  GzipSource(ByteSource* raw, std::string path) : raw_(raw), path_(std::move(path)) {
    // 15: the largest window of RFC 1951; 16: gzip headers only.
    HR_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK);
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(capacity, 1 << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        HR_ASSIGN_OR_RETURN(const size_t size, raw_->Read(input_.data(), input_.size()));
        if (size == 0) {
          if (between_members_) return size_t{0};
          return Damaged(path_, "the gzip data end early; the file is incomplete");
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(size);
      }
      if (between_members_ && !StartMember()) continue;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Damaged(path_, absl::StrCat("the gzip data are damaged: ",
                                           stream_.msg != nullptr ? stream_.msg : "zlib error"));
      }
    }
    return size_t{room - stream_.avail_out};
  }

 private:
  // Skips zero bytes after a member; true when another member begins.
  bool StartMember() {
    if (!first_member_) {
      while (stream_.avail_in > 0 && *stream_.next_in == 0) {
        ++stream_.next_in;
        --stream_.avail_in;
      }
      if (stream_.avail_in == 0) return false;
      HR_CHECK(inflateReset(&stream_) == Z_OK);
    }
    first_member_ = false;
    between_members_ = false;
    return true;
  }

  ByteSource* const raw_;
  const std::string path_;
  z_stream stream_ = {};
  std::vector<char> input_ = std::vector<char>(kInputBytes);
  bool first_member_ = true;
  bool between_members_ = true;
};

// RFC 8878. Frames may follow each other, skippable ones too (section 3.1).
class ZstdSource : public ByteSource {
 public:
  ZstdSource(ByteSource* raw, std::string path)
      : raw_(raw), path_(std::move(path)), stream_(ZSTD_createDStream()) {
    HR_CHECK(stream_ != nullptr);
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxZstdWindowLog);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    ZSTD_outBuffer output = {out, capacity, 0};
    while (output.pos == 0) {
      // The decoder may hold output back for lack of room: it is asked again before more is read.
      if (input_buffer_.pos == input_buffer_.size && !may_hold_output_) {
        HR_ASSIGN_OR_RETURN(const size_t size, raw_->Read(input_.data(), input_.size()));
        if (size == 0) {
          if (between_frames_) return size_t{0};
          return Damaged(path_, "the zstd data end early; the file is incomplete");
        }
        input_buffer_ = {input_.data(), size, 0};
      }
      const size_t result = ZSTD_decompressStream(stream_, &output, &input_buffer_);
      if (ZSTD_isError(result)) {
        return Damaged(path_,
                       absl::StrCat("the zstd data are damaged: ", ZSTD_getErrorName(result)));
      }
      may_hold_output_ = output.pos == output.size;
      between_frames_ = result == 0;
    }
    return output.pos;
  }

 private:
  ByteSource* const raw_;
  const std::string path_;
  ZSTD_DStream* const stream_;
  std::vector<char> input_ = std::vector<char>(kInputBytes);
  ZSTD_inBuffer input_buffer_ = {nullptr, 0, 0};
  bool may_hold_output_ = false;
  bool between_frames_ = true;
};

class PassThrough : public ByteSource {
 public:
  explicit PassThrough(ByteSource* raw) : raw_(raw) {}
  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    return raw_->Read(out, capacity);
  }

 private:
  ByteSource* const raw_;
};

}  // namespace

std::unique_ptr<ByteSource> MakeDecoder(Compression compression, ByteSource* raw,
                                        const std::string& path) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipSource>(raw, path);
    case Compression::kZstd:
      return std::make_unique<ZstdSource>(raw, path);
    case Compression::kNone:
      break;
  }
  return std::make_unique<PassThrough>(raw);
}

}  // namespace headrace
