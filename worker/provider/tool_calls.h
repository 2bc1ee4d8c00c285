// Tool calls of a streamed chat answer.
#ifndef HEADRACE_WORKER_PROVIDER_TOOL_CALLS_H_
#define HEADRACE_WORKER_PROVIDER_TOOL_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace headrace::provider {

// Joins fragments of tool calls. A fragment belongs to
//   the call of its index; a new id under an index in use, which some servers send as 0 for all,
//   begins another call;
//   without an index, the call of its id, or a new call when the id is new;
//   without both, the call that was last written to (case A18).
// What had to be guessed beyond that sets ambiguous().
class ToolCalls {
 public:
  static constexpr size_t kMaxCalls = 1024;  // chosen; OpenAI allows 128 functions

  // `raw`: the array of one delta. True when it brought something besides white space.
  bool Add(absl::string_view raw);

  bool empty() const { return calls_.empty(); }
  bool ambiguous() const { return ambiguous_; }
  // The array for the message.
  void Append(std::string* out) const;

 private:
  struct Call {
    std::optional<int64_t> index;
    std::string id;                                                    // escaped
    std::string type;                                                  // escaped
    std::string name;                                                  // escaped
    std::string arguments;                                             // escaped
    std::vector<std::pair<std::string, std::string>> extras;           // raw
    std::vector<std::pair<std::string, std::string>> function_extras;  // raw
  };
  struct Fragment;

  Call* CallOf(const Fragment& fragment);
  bool Merge(const Fragment& fragment);

  std::vector<Call> calls_;
  size_t last_ = 0;
  bool ambiguous_ = false;
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_TOOL_CALLS_H_
