// Hash slots of Redis Cluster (specification: "Key distribution model").
#ifndef HEADRACE_COMMON_REDIS_SLOTS_H_
#define HEADRACE_COMMON_REDIS_SLOTS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace headrace::redis {

constexpr uint32_t kSlotCount = 16384;

// CRC16 of XMODEM: polynomial 0x1021, nothing reflected, start 0.
uint16_t Crc16(absl::string_view bytes);

// The slot of `key`: of what stands between the first '{' and the first '}' after it when that is
// not empty, else of the whole key.
uint16_t HashSlot(absl::string_view key);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_SLOTS_H_
