#include "coordinator/job/nearest.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

// Words beyond this are not compared: the table below is quadratic.
constexpr size_t kMaxWordBytes = 64;

// Optimal string alignment distance.
size_t Edits(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) edits[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) edits[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = absl::ascii_tolower(a[i - 1]) == absl::ascii_tolower(b[j - 1]);
      edits[i][j] = std::min(
          {edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

std::vector<absl::string_view> Views(absl::Span<const std::string> words) {
  return std::vector<absl::string_view>(words.begin(), words.end());
}

}  // namespace

absl::string_view Nearest(absl::string_view word, absl::Span<const absl::string_view> known) {
  absl::string_view best;
  if (word.empty() || word.size() > kMaxWordBytes) return best;
  size_t best_edits = (word.size() < 2 ? 0 : std::max<size_t>(1, word.size() / 3)) + 1;
  for (absl::string_view candidate : known) {
    if (candidate.empty() || candidate.size() > kMaxWordBytes) continue;
    const size_t edits = Edits(word, candidate);
    if (edits < best_edits) {
      best = candidate;
      best_edits = edits;
    }
  }
  return best;
}

absl::string_view Nearest(absl::string_view word, absl::Span<const std::string> known) {
  return Nearest(word, Views(known));
}

std::string ListWords(absl::Span<const absl::string_view> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == kMaxListed) return absl::StrCat(text, ", ...");
    absl::StrAppend(&text, i == 0 ? "" : ", ", words[i]);
  }
  return text;
}

std::string ListWords(absl::Span<const std::string> words) { return ListWords(Views(words)); }

std::string DidYouMean(absl::string_view word, absl::Span<const absl::string_view> known) {
  const absl::string_view nearest = Nearest(word, known);
  if (!nearest.empty()) return absl::StrCat("did you mean '", nearest, "'?");
  return absl::StrCat("known: ", ListWords(known));
}

std::string DidYouMean(absl::string_view word, absl::Span<const std::string> known) {
  return DidYouMean(word, Views(known));
}

}  // namespace headrace
