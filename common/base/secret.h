// A value that must never reach argv, logs, results, metrics or crash output.
#ifndef HEADRACE_COMMON_BASE_SECRET_H_
#define HEADRACE_COMMON_BASE_SECRET_H_

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace headrace {

// Holds a key. It cannot be printed or compared by accident; Reveal() marks each place of use.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  bool empty() const { return value_.empty(); }
  const std::string& Reveal() const { return value_; }

 private:
  std::string value_;
};

// Query parameters of this name carry keys, which then are in logs and job files.
inline bool IsKeyParameter(absl::string_view name) {
  for (absl::string_view key :
       {"key", "api_key", "api-key", "apikey", "token", "access_token", "sig"}) {
    if (absl::EqualsIgnoreCase(name, key)) return true;
  }
  return false;
}

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_SECRET_H_
