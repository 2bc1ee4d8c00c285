#include "common/redis/slot_map.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace headrace::redis {

absl::StatusOr<std::vector<SlotRange>> ParseSlots(const Reply& reply, absl::string_view asked) {
  const auto bad = [&reply] {
    return absl::InvalidArgumentError(absl::StrCat("CLUSTER SLOTS returned ", reply.ToString()));
  };
  if (!reply.is_array()) return bad();
  std::vector<SlotRange> ranges;
  for (const Reply& entry : reply.elements) {
    // first, last, master, replicas...; a node is host, port, id, ...
    const int64_t first = entry.At(0).AsInteger().value_or(-1);
    const int64_t last = entry.At(1).AsInteger().value_or(-1);
    const Reply& node = entry.At(2);
    const int64_t port = node.At(1).AsInteger().value_or(0);
    if (first < 0 || last < first || last >= kSlotCount || port < 1 || port > 65535) return bad();
    SlotRange range;
    range.first = static_cast<uint16_t>(first);
    range.last = static_cast<uint16_t>(last);
    const std::string& host = node.At(0).text;
    range.master.host = host.empty() || host == "?" ? std::string(asked) : host;
    range.master.port = static_cast<uint16_t>(port);
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace headrace::redis
