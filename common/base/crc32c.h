// CRC-32C (Castagnoli), the checksum of every record that headrace writes (RFC 3720 appendix B.4).
#ifndef HEADRACE_COMMON_BASE_CRC32C_H_
#define HEADRACE_COMMON_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace headrace {

// The checksum of `data`, or of a longer input when `crc` is the checksum of what came before.
// Uses SSE 4.2 where the processor has it.
uint32_t Crc32c(absl::string_view data, uint32_t crc = 0);

namespace internal {

// The same by tables, for processors without the instruction.
uint32_t Crc32cPortable(absl::string_view data, uint32_t crc);

}  // namespace internal
}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_CRC32C_H_
