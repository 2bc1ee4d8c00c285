#include "common/base/random.h"

#include <bit>
#include <random>

#include "absl/numeric/int128.h"
#include "common/base/log.h"

namespace headrace {
namespace {

uint64_t SplitMix64(uint64_t& x) {
  x += 0x9e3779b97f4a7c15;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t Multiply64High(uint64_t a, uint64_t b) {
  return absl::Uint128High64(absl::uint128(a) * absl::uint128(b));
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

uint64_t Random::operator()() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  HR_CHECK(bound > 0);
  return Multiply64High((*this)(), bound);
}

int64_t Random::Between(int64_t low, int64_t high) {
  HR_CHECK(low <= high);
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (span == 0) return static_cast<int64_t>((*this)());
  return static_cast<int64_t>(static_cast<uint64_t>(low) + Below(span));
}

double Random::Unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) ^ device();
}

}  // namespace headrace
