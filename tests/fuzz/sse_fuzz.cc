// The events of a stream do not depend on where its pieces are cut.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "worker/provider/sse.h"

namespace {

using headrace::provider::SseEvent;
using headrace::provider::SseParser;

using Events = std::vector<std::pair<std::string, std::string>>;

// Pieces of `size` bytes; 0: one piece.
Events Parse(absl::string_view text, size_t size) {
  Events events;
  SseParser parser;
  SseEvent event;
  while (!text.empty()) {
    // A copy that ends where the piece ends: a view kept beyond its life is seen.
    const std::string piece(text.substr(0, size == 0 ? text.size() : size));
    text.remove_prefix(piece.size());
    parser.Feed(piece);
    while (parser.Next(&event) == SseParser::Step::kEvent) {
      events.emplace_back(std::string(event.type), std::string(event.data));
    }
  }
  if (parser.Finish(&event)) events.emplace_back(std::string(event.type), std::string(event.data));
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const Events whole = Parse(text, 0);
  HR_CHECK(Parse(text, 1) == whole) << "byte by byte differs";
  HR_CHECK(Parse(text, 7) == whole) << "pieces of 7 differ";
  return 0;
}
