// A byte source over a string, for fuzz targets: gives it in pieces, so that records straddle
// reads.
#ifndef HEADRACE_TESTS_FUZZ_STRING_SOURCE_H_
#define HEADRACE_TESTS_FUZZ_STRING_SOURCE_H_

#include <algorithm>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/dataset/byte_source.h"

namespace headrace {

class StringSource : public ByteSource {
 public:
  StringSource(absl::string_view bytes, size_t piece) : bytes_(bytes), piece_(piece) {}

  absl::StatusOr<size_t> Read(char* out, size_t capacity) override {
    const size_t size = std::min({bytes_.size(), capacity, piece_});
    bytes_.copy(out, size);
    bytes_.remove_prefix(size);
    return size;
  }

 private:
  absl::string_view bytes_;
  size_t piece_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_FUZZ_STRING_SOURCE_H_
