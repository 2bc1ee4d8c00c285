// What a Redis server answers (RESP2), as a plain value.
#ifndef HEADRACE_COMMON_REDIS_REPLY_H_
#define HEADRACE_COMMON_REDIS_REPLY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace headrace::redis {

struct Reply {
  enum class Type { kNil, kInteger, kString, kStatus, kError, kArray };

  Type type = Type::kNil;
  int64_t integer = 0;          // kInteger
  std::string text;             // kString (any bytes), kStatus ("OK"), kError ("NOSCRIPT No ...")
  std::vector<Reply> elements;  // kArray

  bool is_nil() const { return type == Type::kNil; }
  bool is_error() const { return type == Type::kError; }
  bool is_array() const { return type == Type::kArray; }
  // A string or a status.
  bool is_text() const { return type == Type::kString || type == Type::kStatus; }

  // The integer, also from a string of decimal digits, as scripts return numbers that may be
  // large; empty for anything else.
  std::optional<int64_t> AsInteger() const;
  // Element `index` of an array; a nil reply when there is none.
  const Reply& At(size_t index) const;

  // For logs and tests: (nil), 42, "text", +OK, -ERR text, [1, "a"]; at most about `limit` bytes.
  std::string ToString(size_t limit = 200) const;
};

Reply NilReply();
Reply IntegerReply(int64_t value);
Reply StringReply(absl::string_view text);
Reply ErrorReply(absl::string_view text);
Reply ArrayReply(std::vector<Reply> elements);

bool operator==(const Reply& a, const Reply& b);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_REPLY_H_
