// Little-endian integers and length-prefixed texts: the alphabet of the journal and of snapshots.
#ifndef HEADRACE_COORDINATOR_STORE_BINARY_H_
#define HEADRACE_COORDINATOR_STORE_BINARY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

inline void AppendU8(uint8_t value, std::string* out) { out->push_back(static_cast<char>(value)); }

inline void AppendU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) AppendU8(static_cast<uint8_t>(value >> shift), out);
}

inline void AppendU64(uint64_t value, std::string* out) {
  AppendU32(static_cast<uint32_t>(value), out);
  AppendU32(static_cast<uint32_t>(value >> 32), out);
}

// A u32 length and the bytes.
inline void AppendText(absl::string_view text, std::string* out) {
  AppendU32(static_cast<uint32_t>(text.size()), out);
  out->append(text.data(), text.size());
}

// Reads what the functions above wrote. A read past the end returns zero or nothing and makes ok()
// false for good, so that a decoder checks once, at its end.
class BinaryReader {
 public:
  explicit BinaryReader(absl::string_view data) : data_(data) {}

  bool ok() const { return ok_; }
  size_t left() const { return data_.size(); }

  uint8_t ReadU8() {
    const absl::string_view bytes = ReadBytes(1);
    return bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  }
  uint32_t ReadU32() { return static_cast<uint32_t>(ReadLittleEndian(4)); }
  uint64_t ReadU64() { return ReadLittleEndian(8); }
  absl::string_view ReadText() { return ReadBytes(ReadU32()); }
  absl::string_view ReadBytes(size_t size) {
    if (size > data_.size()) {
      ok_ = false;
      data_ = absl::string_view();
      return absl::string_view();
    }
    const absl::string_view bytes = data_.substr(0, size);
    data_.remove_prefix(size);
    return bytes;
  }

 private:
  uint64_t ReadLittleEndian(size_t size) {
    uint64_t value = 0;
    const absl::string_view bytes = ReadBytes(size);
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  }

  absl::string_view data_;
  bool ok_ = true;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_BINARY_H_
