// RESP2 on the wire: commands to bytes, and bytes to replies through hiredis' reader.
#ifndef HEADRACE_COMMON_REDIS_PROTOCOL_H_
#define HEADRACE_COMMON_REDIS_PROTOCOL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/redis/reply.h"

struct redisReader;

namespace headrace::redis {

// Appends one command: an array of bulk strings. Arguments are bytes; nothing is a format string.
void AppendCommand(const std::vector<std::string>& argv, std::string* out);

// Cuts a stream of bytes into replies. After an error it is of no more use, and neither is the
// connection: nobody knows where the next reply begins.
class ReplyReader {
 public:
  // Of one reply; more is an error. Chosen: CLUSTER SLOTS of a large cluster has some 250,000
  // elements, and no script of ours returns a megabyte.
  static constexpr size_t kMaxReplyBytes = 16 << 20;
  static constexpr size_t kMaxReplyElements = 1 << 20;
  static constexpr int kMaxDepth = 7;  // of arrays: what hiredis before 1.0 can read

  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // ResourceExhausted when a reply is too large to be taken in.
  absl::Status Feed(absl::string_view bytes);
  // The next reply; empty when more bytes are needed. InvalidArgument when the bytes are no RESP2,
  // e.g. because the peer is no Redis, or past a limit.
  absl::StatusOr<std::optional<Reply>> Next();

 private:
  struct ReaderFree {
    void operator()(redisReader* reader) const;
  };

  std::unique_ptr<redisReader, ReaderFree> reader_;
  size_t unfinished_bytes_ = 0;  // fed since the last whole reply
  size_t elements_ = 0;          // of the reply under way; the reader's callbacks count here
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_PROTOCOL_H_
