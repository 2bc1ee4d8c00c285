// A value that must never reach argv, logs, results, metrics or crash output.
#ifndef HEADRACE_COMMON_BASE_SECRET_H_
#define HEADRACE_COMMON_BASE_SECRET_H_

#include <string>
#include <utility>

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

}  // namespace headrace

#endif  // HEADRACE_COMMON_BASE_SECRET_H_
