#include "coordinator/dataset/prompt_template.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "coordinator/job/nearest.h"

namespace headrace {
namespace {

absl::Status BadField(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", ExcerptUtf8(name, 60), "' ", what));
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

// Characters, not bytes, for people who count in an editor.
size_t Position(absl::string_view text, size_t byte) {
  return 1 + static_cast<size_t>(std::count_if(
                 text.begin(), text.begin() + static_cast<ptrdiff_t>(byte),
                 [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// "field" or "field | json".
absl::StatusOr<FieldRef> ParseInner(absl::string_view inner) {
  const size_t bar = inner.rfind('|');
  HR_ASSIGN_OR_RETURN(FieldRef ref,
                      ParseFieldRef(absl::StripAsciiWhitespace(inner.substr(0, bar))));
  if (bar == absl::string_view::npos) return ref;
  const absl::string_view filter = absl::StripAsciiWhitespace(inner.substr(bar + 1));
  if (filter != "json") {
    static constexpr absl::string_view kFilters[] = {"json"};
    return BadField(filter, absl::StrCat("is no filter; ", DidYouMean(filter, kFilters)));
  }
  ref.as_json = true;
  return ref;
}

}  // namespace

absl::StatusOr<FieldRef> ParseFieldRef(absl::string_view name) {
  FieldRef ref;
  ref.name = std::string(name);
  if (name.empty()) return absl::InvalidArgumentError("a field without a name");
  if (name.find_first_of("{}\n\r") != absl::string_view::npos) {
    return BadField(name, "has a brace or a line end in a field name");
  }
  absl::string_view rest = name;
  while (true) {
    const size_t end = std::min(rest.find_first_of(".["), rest.size());
    const absl::string_view part = rest.substr(0, end);
    if (part.empty()) return BadField(name, "has an empty part");
    size_t index = 0;
    if (AllDigits(part) && !ref.steps.empty() && absl::SimpleAtoi(part, &index)) {
      ref.steps.emplace_back(index);
    } else {
      ref.steps.emplace_back(std::string(part));
    }
    rest.remove_prefix(end);
    while (absl::ConsumePrefix(&rest, "[")) {
      const size_t close = rest.find(']');
      const absl::string_view digits = rest.substr(0, close);
      if (close == absl::string_view::npos || !AllDigits(digits) ||
          !absl::SimpleAtoi(digits, &index)) {
        return BadField(name, "needs a number between [ and ]");
      }
      ref.steps.emplace_back(index);
      rest.remove_prefix(close + 1);
    }
    if (rest.empty()) return ref;
    if (!absl::ConsumePrefix(&rest, ".")) return BadField(name, "has text after ]");
  }
}

size_t FieldTable::Add(const FieldRef& ref) {
  const auto it = std::find(refs_.begin(), refs_.end(), ref);
  const size_t index = static_cast<size_t>(it - refs_.begin());
  if (it == refs_.end()) refs_.push_back(ref);
  return index;
}

absl::StatusOr<PromptTemplate> PromptTemplate::Compile(absl::string_view text, FieldTable* table) {
  PromptTemplate compiled;
  std::string literal;
  size_t i = 0;
  while (i < text.size()) {
    const size_t open = text.find("{{", i);
    if (open == absl::string_view::npos) break;
    size_t slashes = 0;
    while (open - slashes > i && text[open - slashes - 1] == '\\') ++slashes;
    absl::StrAppend(&literal, text.substr(i, open - slashes - i), std::string(slashes / 2, '\\'));
    if (slashes % 2 == 1) {
      literal += "{{";
      i = open + 2;
      continue;
    }
    const size_t close = text.find("}}", open + 2);
    if (close == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the {{ at character ", Position(text, open),
                       " has no }}; write \\{{ for braces that are text"));
    }
    absl::StatusOr<FieldRef> ref = ParseInner(text.substr(open + 2, close - open - 2));
    if (!ref.ok()) {
      return Annotate(ref.status(), absl::StrCat("at character ", Position(text, open)));
    }
    if (!literal.empty()) compiled.pieces_.emplace_back(std::move(literal));
    literal.clear();
    compiled.pieces_.emplace_back(table->Add(*ref));
    i = close + 2;
  }
  absl::StrAppend(&literal, text.substr(std::min(i, text.size())));
  if (!literal.empty()) compiled.pieces_.emplace_back(std::move(literal));
  for (const Piece& piece : compiled.pieces_) {
    if (const size_t* field = std::get_if<size_t>(&piece)) compiled.fields_.push_back(*field);
  }
  return compiled;
}

void PromptTemplate::Render(const std::vector<absl::string_view>& values, std::string* out) const {
  for (const Piece& piece : pieces_) {
    if (const size_t* field = std::get_if<size_t>(&piece)) {
      absl::StrAppend(out, values[*field]);
    } else {
      out->append(std::get<std::string>(piece));
    }
  }
}

}  // namespace headrace
