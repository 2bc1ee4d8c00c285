// Regular expressions in a JSON schema, looked at before a provider compiles them: an invalid or
// hostile one has crashed servers (case H8). Nothing is matched or compiled here.
#ifndef HEADRACE_COORDINATOR_JOB_PATTERN_CHECK_H_
#define HEADRACE_COORDINATOR_JOB_PATTERN_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

// Bounds of one pattern. Chosen, not measured; RE2 itself repeats at most 1,000 times.
inline constexpr size_t kMaxPatternBytes = 4096;
inline constexpr size_t kMaxPatternNesting = 100;     // groups in groups
inline constexpr int64_t kMaxPatternRepeat = 2000;    // the counts of {n,m}
inline constexpr int64_t kMaxPatternAtoms = 100'000;  // with repeats of repeats written out

struct PatternCheck {
  std::string problem;  // what is wrong with it, as the end of a sentence; empty: nothing
  // Valid, but not known to every engine.
  bool lookaround = false;
  bool backreference = false;
  bool word_boundary = false;
};

// Syntax by ECMA-262, whose regular expressions JSON Schema asks for, with what Annex B allows (a
// lone brace is text) and the groups of other engines ((?P<name>, (?i)). One pass, no recursion.
PatternCheck CheckPattern(absl::string_view pattern);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_PATTERN_CHECK_H_
