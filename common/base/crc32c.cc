#include "common/base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace headrace {
namespace {

// 0x1EDC6F41 with its bits reversed.
constexpr uint32_t kPolynomial = 0x82F63B78;

// kTables[k][b] is the remainder of byte b followed by k zero bytes ("slicing by eight").
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t LoadLittleEndian32(const char* p) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  return static_cast<uint32_t>(b[0]) | static_cast<uint32_t>(b[1]) << 8 |
         static_cast<uint32_t>(b[2]) << 16 | static_cast<uint32_t>(b[3]) << 24;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cSse42(absl::string_view data, uint32_t crc) {
  const char* p = data.data();
  size_t left = data.size();
  uint64_t state = ~crc;
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  auto state32 = static_cast<uint32_t>(state);
  for (; left > 0; ++p, --left) state32 = _mm_crc32_u8(state32, static_cast<unsigned char>(*p));
  return ~state32;
}
#endif

}  // namespace

namespace internal {

uint32_t Crc32cPortable(absl::string_view data, uint32_t crc) {
  const char* p = data.data();
  size_t left = data.size();
  uint32_t state = ~crc;
  for (; left >= 8; p += 8, left -= 8) {
    const uint32_t low = state ^ LoadLittleEndian32(p);
    const uint32_t high = LoadLittleEndian32(p + 4);
    state = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^
            kTables[5][(low >> 16) & 0xff] ^ kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^
            kTables[2][(high >> 8) & 0xff] ^ kTables[1][(high >> 16) & 0xff] ^
            kTables[0][high >> 24];
  }
  for (; left > 0; ++p, --left) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<unsigned char>(*p)) & 0xff];
  }
  return ~state;
}

}  // namespace internal

uint32_t Crc32c(absl::string_view data, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2") != 0;
  if (has_sse42) return Crc32cSse42(data, crc);
#endif
  return internal::Crc32cPortable(data, crc);
}

}  // namespace headrace
