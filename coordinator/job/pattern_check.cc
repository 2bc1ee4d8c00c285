#include "coordinator/job/pattern_check.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// {n}, {n,} or {n,m}.
struct Counts {
  int64_t low = 0;
  std::optional<int64_t> high;  // none: no upper bound
  size_t bytes = 0;
};

class PatternParser {
 public:
  explicit PatternParser(absl::string_view text) : text_(text), groups_(1) {}

  PatternCheck Check() {
    if (text_.size() > kMaxPatternBytes) {
      Fail(absl::StrCat("is longer than ", kMaxPatternBytes, " bytes"));
      return std::move(check_);
    }
    while (check_.problem.empty() && pos_ < text_.size()) Term();
    if (check_.problem.empty() && groups_.size() > 1) Fail("has a '(' without its ')'");
    return std::move(check_);
  }

 private:
  struct Group {
    int64_t atoms = 0;            // before the last one
    std::optional<int64_t> last;  // atoms of what a quantifier would repeat; none: nothing
  };

  void Fail(std::string problem) { check_.problem = std::move(problem); }
  bool Has(absl::string_view word) const { return absl::StartsWith(text_.substr(pos_), word); }

  void Term() {
    const char c = text_[pos_++];
    switch (c) {
      case '(':
        return OpenGroup();
      case ')':
        return CloseGroup();
      case '[':
        return Class();
      case '\\':
        return Escape();
      case '*':
      case '+':
      case '?':
        return Repeat(std::string(1, c), 1);
      case '{':
        return Brace();
      case '|':
      case '^':
      case '$':
        return Assertion();
      default:
        // The other bytes of one character beyond ASCII.
        while (pos_ < text_.size() && (static_cast<unsigned char>(text_[pos_]) & 0xC0) == 0x80) {
          ++pos_;
        }
        return Atom(1);
    }
  }

  void Atom(int64_t atoms) {
    Assertion();
    groups_.back().last = atoms;
  }

  // What matches no character cannot be repeated.
  void Assertion() {
    Group& group = groups_.back();
    group.atoms += group.last.value_or(0);
    group.last.reset();
    if (group.atoms > kMaxPatternAtoms) TooLarge();
  }

  void TooLarge() {
    Fail(absl::StrCat("has repeats of repeats, ", kMaxPatternAtoms,
                      " characters and more when they are written out"));
  }

  void OpenGroup() {
    Assertion();
    if (groups_.size() > kMaxPatternNesting) {
      return Fail(absl::StrCat("has more than ", kMaxPatternNesting, " groups in each other"));
    }
    if (Has("?") && !GroupKind()) return;
    groups_.emplace_back();
  }

  // What stands after "(?". False when no group was opened, or on a fault.
  bool GroupKind() {
    ++pos_;
    for (absl::string_view look : {"=", "!", "<=", "<!"}) {
      if (!Has(look)) continue;
      check_.lookaround = true;
      pos_ += look.size();
      return true;
    }
    while (pos_ < text_.size() &&
           (absl::ascii_isalpha(static_cast<unsigned char>(text_[pos_])) || text_[pos_] == '-')) {
      ++pos_;
    }
    if (Has(":")) {
      ++pos_;
      return true;
    }
    if (Has(")")) {  // (?i)
      ++pos_;
      return false;
    }
    const size_t end = Has("<") ? text_.find('>', pos_) : absl::string_view::npos;
    if (end == absl::string_view::npos || end == pos_ + 1) {
      Fail("has a '(?' that begins no known group");
      return false;
    }
    pos_ = end + 1;
    return true;
  }

  void CloseGroup() {
    if (groups_.size() == 1) return Fail("has a ')' without its '('");
    Assertion();
    if (!check_.problem.empty()) return;
    const int64_t atoms = groups_.back().atoms;
    groups_.pop_back();
    Atom(std::max<int64_t>(atoms, 1));
  }

  void Class() {
    if (Has("^")) ++pos_;
    std::optional<unsigned char> previous;  // of ASCII, unescaped
    while (pos_ < text_.size() && text_[pos_] != ']') {
      const char c = text_[pos_++];
      if (c == '\\') {
        if (pos_ == text_.size()) break;
        ++pos_;
        previous.reset();
      } else if (c == '-' && previous.has_value() && pos_ < text_.size() && text_[pos_] != ']') {
        const auto next = static_cast<unsigned char>(text_[pos_]);
        if (next != '\\' && next < 0x80) {
          if (next < *previous) {
            return Fail(
                absl::StrCat("has the range '", text_.substr(pos_ - 2, 3), "' in the wrong order"));
          }
          ++pos_;
        }
        previous.reset();
      } else {
        previous.reset();
        if (static_cast<unsigned char>(c) < 0x80) previous = static_cast<unsigned char>(c);
      }
    }
    if (pos_ >= text_.size()) return Fail("has a '[' without its ']'");
    ++pos_;
    Atom(1);
  }

  void Escape() {
    if (pos_ == text_.size()) return Fail("ends in a '\\'");
    const char c = text_[pos_++];
    if (c == 'b' || c == 'B') {
      check_.word_boundary = true;
      return Assertion();
    }
    if ((IsDigit(c) && c != '0') || (c == 'k' && Has("<"))) check_.backreference = true;
    // \u{1000} and \p{L}: no repeats.
    if ((c == 'u' || c == 'x' || c == 'p' || c == 'P') && Has("{")) {
      const size_t end = text_.find('}', pos_);
      if (end == absl::string_view::npos) return Fail("has a '{' without its '}'");
      pos_ = end + 1;
    }
    Atom(1);
  }

  std::optional<Counts> ReadCounts() const {
    Counts counts;
    size_t at = pos_;
    const auto number = [&]() -> std::optional<int64_t> {
      const size_t begin = at;
      while (at < text_.size() && IsDigit(text_[at])) ++at;
      if (at == begin) return std::nullopt;
      int64_t value = 0;
      // So many digits are beyond every limit.
      return absl::SimpleAtoi(text_.substr(begin, at - begin), &value) ? value : INT64_MAX;
    };
    const std::optional<int64_t> low = number();
    if (!low.has_value()) return std::nullopt;
    counts.low = *low;
    counts.high = low;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      counts.high = number();
    }
    if (at >= text_.size() || text_[at] != '}') return std::nullopt;
    counts.bytes = at + 1 - pos_;
    return counts;
  }

  void Brace() {
    const std::optional<Counts> counts = ReadCounts();
    if (!counts.has_value()) return Atom(1);  // ECMA-262 Annex B: a character like any other
    const std::string shown(text_.substr(pos_ - 1, std::min<size_t>(counts->bytes + 1, 24)));
    pos_ += counts->bytes;
    const int64_t most = counts->high.value_or(counts->low);
    if (counts->low > kMaxPatternRepeat || most > kMaxPatternRepeat) {
      return Fail(absl::StrCat("repeats more than ", kMaxPatternRepeat, " times: ", shown));
    }
    if (counts->high.has_value() && *counts->high < counts->low) {
      return Fail(absl::StrCat("has the counts of ", shown, " in the wrong order"));
    }
    Repeat(shown, std::max<int64_t>(most, 1));
  }

  void Repeat(const std::string& shown, int64_t times) {
    Group& group = groups_.back();
    if (!group.last.has_value()) {
      return Fail(absl::StrCat("has '", shown, "' with nothing before it to repeat"));
    }
    if (Has("?")) ++pos_;
    // Both factors are within their limits: no overflow.
    group.atoms += *group.last * times;
    group.last.reset();
    if (group.atoms > kMaxPatternAtoms) TooLarge();
  }

  const absl::string_view text_;
  size_t pos_ = 0;
  std::vector<Group> groups_;  // open ones, the whole pattern first
  PatternCheck check_;
};

}  // namespace

PatternCheck CheckPattern(absl::string_view pattern) { return PatternParser(pattern).Check(); }

}  // namespace headrace
