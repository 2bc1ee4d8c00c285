#include "coordinator/dataset/hash128.h"

#include <bit>
#include <cstring>

namespace headrace {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5;
constexpr uint64_t kC2 = 0x4cf5ad432745937f;

uint64_t Load(const char* p, size_t size = 8) {
  uint64_t word = 0;
  std::memcpy(&word, p, size);
  return word;
}

uint64_t Mix(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccd;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53;
  return k ^ (k >> 33);
}

}  // namespace

Hash128 HashText(absl::string_view text) {
  uint64_t h1 = 0;
  uint64_t h2 = 0;
  const auto first = [&h1](uint64_t k) { h1 ^= std::rotl(k * kC1, 31) * kC2; };
  const auto second = [&h2](uint64_t k) { h2 ^= std::rotl(k * kC2, 33) * kC1; };
  absl::string_view rest = text;
  while (rest.size() >= 16) {
    first(Load(rest.data()));
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    second(Load(rest.data() + 8));
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
    rest.remove_prefix(16);
  }
  if (rest.size() > 8) second(Load(rest.data() + 8, rest.size() - 8));
  if (!rest.empty()) first(Load(rest.data(), rest.size() < 8 ? rest.size() : 8));
  h1 ^= text.size();
  h2 ^= text.size();
  h1 += h2;
  h2 += h1;
  h1 = Mix(h1);
  h2 = Mix(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace headrace
