// A small seeded random source. Every random choice of headrace comes from one of these, so that a
// test or a simulation is repeated from its printed seed.
#ifndef HEADRACE_COMMON_BASE_RANDOM_H_
#define HEADRACE_COMMON_BASE_RANDOM_H_

#include <cstdint>

#include "absl/time/time.h"

namespace headrace {

// xoshiro256** (Blackman and Vigna, 2018), seeded through splitmix64. Not for cryptography.
// Satisfies UniformRandomBitGenerator. Not thread-safe.
class Random {
 public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed);

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()();

  // Uniform in [0, bound); bound must be positive.
  uint64_t Below(uint64_t bound);
  // Uniform in [low, high], both included.
  int64_t Between(int64_t low, int64_t high);
  // Uniform in [0, 1).
  double Unit();
  bool Chance(double probability) { return Unit() < probability; }
  // Uniform in [low, high).
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + (high - low) * Unit();
  }

 private:
  uint64_t state_[4];
};

// A seed from the operating system, for production use.
uint64_t RandomSeed();

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_RANDOM_H_
