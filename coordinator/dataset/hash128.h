// A 128-bit hash of text: two different ids among a billion collide with odds of 1e-21. Not for
// cryptography.
#ifndef HEADRACE_COORDINATOR_DATASET_HASH128_H_
#define HEADRACE_COORDINATOR_DATASET_HASH128_H_

#include <compare>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace headrace {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

// MurmurHash3 x64 128 (Austin Appleby, public domain), seed 0, of a little-endian machine.
Hash128 HashText(absl::string_view text);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_HASH128_H_
