// The replies of a stream do not depend on where its pieces are cut; a URL that is accepted prints
// to one that is.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/redis/error.h"
#include "common/redis/protocol.h"
#include "common/redis/slot_map.h"
#include "common/redis/url.h"

namespace {

using headrace::redis::Reply;

// The replies in `bytes`, fed `step` at a time; one that is no reply ends the list.
std::vector<std::string> Read(absl::string_view bytes, size_t step) {
  headrace::redis::ReplyReader reader;
  std::vector<std::string> replies;
  while (!bytes.empty()) {
    // A copy that ends where the piece ends: a view kept beyond its life is seen.
    const std::string piece(bytes.substr(0, step));
    bytes.remove_prefix(piece.size());
    if (!reader.Feed(piece).ok()) return replies;
    while (true) {
      const absl::StatusOr<std::optional<Reply>> reply = reader.Next();
      if (!reply.ok()) {
        replies.push_back("error");
        return replies;
      }
      if (!reply->has_value()) break;
      replies.push_back((*reply)->ToString(100000));
      // Whatever a server answers, these give a value or an error.
      (void)headrace::redis::ParseSlots(**reply, "host").ok();
      (void)headrace::redis::ClassifyErrorReply((*reply)->text);
      (void)headrace::redis::ParseRedirect((*reply)->text);
    }
  }
  return replies;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = Read(text, size + 1);
  HR_CHECK(Read(text, 1) == whole);
  HR_CHECK(Read(text, 7) == whole);

  const absl::StatusOr<headrace::redis::Url> url = headrace::redis::ParseUrl(text);
  if (!url.ok()) return 0;
  const std::string printed = url->ToString();
  const absl::StatusOr<headrace::redis::Url> again = headrace::redis::ParseUrl(printed);
  HR_CHECK(again.ok()) << printed << ": " << again.status();
  HR_CHECK(again->ToString() == printed) << printed << " is printed as " << again->ToString();
  return 0;
}
