// Which node of a cluster owns which slot, from the answer to CLUSTER SLOTS.
#ifndef HEADRACE_COMMON_REDIS_SLOT_MAP_H_
#define HEADRACE_COMMON_REDIS_SLOT_MAP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/redis/reply.h"
#include "common/redis/slots.h"
#include "common/redis/url.h"

namespace headrace::redis {

struct SlotRange {
  uint16_t first = 0;
  uint16_t last = 0;  // included
  HostPort master;

  friend bool operator==(const SlotRange&, const SlotRange&) = default;
};

// The ranges of `reply`. A node without an address of its own is at `asked`, the host that
// answered. InvalidArgument, with the reply, when it is not what CLUSTER SLOTS returns. An empty
// list is valid: a cluster whose slots are not assigned yet.
absl::StatusOr<std::vector<SlotRange>> ParseSlots(const Reply& reply, absl::string_view asked);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_SLOT_MAP_H_
