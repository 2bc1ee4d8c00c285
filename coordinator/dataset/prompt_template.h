// Templates: text with {{fields}} of a row in it.
#ifndef HEADRACE_COORDINATOR_DATASET_PROMPT_TEMPLATE_H_
#define HEADRACE_COORDINATOR_DATASET_PROMPT_TEMPLATE_H_

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace {

// A place in a row: "question", "meta.lang", "turns[0]" or "turns.0".
struct FieldRef {
  using Step = std::variant<std::string, size_t>;  // a key or an index

  std::string name;         // as written, without spaces around it
  std::vector<Step> steps;  // the first is always a key
  bool as_json = false;     // "| json": text in quotes, null allowed

  bool operator==(const FieldRef&) const = default;
};

// InvalidArgument, in words, on an empty name, an empty part, a bad index.
absl::StatusOr<FieldRef> ParseFieldRef(absl::string_view name);

// The fields that all templates of a job need, each once: a row is searched once for all of them.
class FieldTable {
 public:
  // The index of `ref`, which is added when it is new.
  size_t Add(const FieldRef& ref);
  const std::vector<FieldRef>& refs() const { return refs_; }

 private:
  std::vector<FieldRef> refs_;
};

// Syntax: {{ field }}, {{ field | json }}; \{{ is a literal {{, and two backslashes before {{ are
// one. Single braces and }} outside of a field are text.
class PromptTemplate {
 public:
  PromptTemplate() = default;

  // InvalidArgument with the position of what is wrong, counted in characters from 1.
  static absl::StatusOr<PromptTemplate> Compile(absl::string_view text, FieldTable* table);

  bool empty() const { return pieces_.empty(); }
  // Indexes into the table, in order of use, perhaps more than once.
  const std::vector<size_t>& fields() const { return fields_; }

  // Appends the text with the values of `values`, one per field of the table.
  void Render(const std::vector<absl::string_view>& values, std::string* out) const;

 private:
  using Piece = std::variant<std::string, size_t>;  // literal text, or an index into the table
  std::vector<Piece> pieces_;
  std::vector<size_t> fields_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_DATASET_PROMPT_TEMPLATE_H_
