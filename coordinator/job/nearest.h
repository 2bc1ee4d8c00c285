// Finds what a misspelt word was probably meant to be.
#ifndef HEADRACE_COORDINATOR_JOB_NEAREST_H_
#define HEADRACE_COORDINATOR_JOB_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace headrace {

// The word of `known` with the fewest edits (insert, delete, replace, swap of neighbours; case is
// ignored) from `word`, if that is at most a third of its length (one edit from two letters on);
// empty otherwise. The first of several equally near ones.
absl::string_view Nearest(absl::string_view word, absl::Span<const absl::string_view> known);
absl::string_view Nearest(absl::string_view word, absl::Span<const std::string> known);

// "a, b, c", with "..." for what goes beyond kMaxListed words.
inline constexpr size_t kMaxListed = 20;
std::string ListWords(absl::Span<const absl::string_view> words);
std::string ListWords(absl::Span<const std::string> words);

// "did you mean 'path'?" or, without a near one, "known: a, b, c".
std::string DidYouMean(absl::string_view word, absl::Span<const absl::string_view> known);
std::string DidYouMean(absl::string_view word, absl::Span<const std::string> known);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_NEAREST_H_
