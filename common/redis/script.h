// A Lua script and the name under which servers cache it.
#ifndef HEADRACE_COMMON_REDIS_SCRIPT_H_
#define HEADRACE_COMMON_REDIS_SCRIPT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace headrace::redis {

// Immutable; made once and kept for as long as calls use it.
class Script {
 public:
  explicit Script(absl::string_view text);

  const std::string& text() const { return text_; }
  // SHA-1 of the text, 40 hexadecimal digits in lower case: the argument of EVALSHA.
  const std::string& sha() const { return sha_; }

 private:
  const std::string text_;
  const std::string sha_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_SCRIPT_H_
