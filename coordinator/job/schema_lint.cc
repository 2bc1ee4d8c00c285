#include "coordinator/job/schema_lint.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/utf8.h"
#include "coordinator/job/pattern_check.h"

namespace headrace {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;
using Kind = SchemaFault::Kind;

constexpr size_t kMaxShownKey = 40;
constexpr size_t kMaxShownNames = 5;
constexpr size_t kMaxRecursionSearch = 1000;  // definitions; the search is quadratic in them

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// What a provider does with a keyword: takes it, refuses it, or does not say.
enum class Take : uint8_t { kYes, kNo, kUnsaid };

struct Keyword {
  absl::string_view name;
  Take openai;
  Take anthropic;
};

// Keywords that are not here are annotations, or taken by both.
constexpr Keyword kKeywords[] = {
    // OpenAI: listed as not supported. oneOf: 400 "'oneOf' is not permitted".
    {"allOf", Take::kNo, Take::kYes},
    {"oneOf", Take::kNo, Take::kUnsaid},
    {"not", Take::kNo, Take::kUnsaid},
    {"if", Take::kNo, Take::kUnsaid},
    {"then", Take::kNo, Take::kUnsaid},
    {"else", Take::kNo, Take::kUnsaid},
    {"dependentRequired", Take::kNo, Take::kUnsaid},
    {"dependentSchemas", Take::kNo, Take::kUnsaid},
    // Anthropic: listed as not supported.
    {"minimum", Take::kYes, Take::kNo},
    {"maximum", Take::kYes, Take::kNo},
    {"exclusiveMinimum", Take::kYes, Take::kNo},
    {"exclusiveMaximum", Take::kYes, Take::kNo},
    {"multipleOf", Take::kYes, Take::kNo},
    {"minLength", Take::kUnsaid, Take::kNo},
    {"maxLength", Take::kUnsaid, Take::kNo},
    {"maxItems", Take::kYes, Take::kNo},
    {"uniqueItems", Take::kUnsaid, Take::kNo},
    // On neither list of what is supported.
    {"default", Take::kUnsaid, Take::kYes},
    {"prefixItems", Take::kUnsaid, Take::kUnsaid},
    {"additionalItems", Take::kUnsaid, Take::kUnsaid},
    {"contains", Take::kUnsaid, Take::kUnsaid},
    {"minContains", Take::kUnsaid, Take::kUnsaid},
    {"maxContains", Take::kUnsaid, Take::kUnsaid},
    {"unevaluatedItems", Take::kUnsaid, Take::kUnsaid},
    {"patternProperties", Take::kUnsaid, Take::kUnsaid},
    {"propertyNames", Take::kUnsaid, Take::kUnsaid},
    {"minProperties", Take::kUnsaid, Take::kUnsaid},
    {"maxProperties", Take::kUnsaid, Take::kUnsaid},
    {"unevaluatedProperties", Take::kUnsaid, Take::kUnsaid},
};

bool Has(const object& schema, std::string_view key) {
  return schema.at_key(key).error() == simdjson::SUCCESS;
}

std::string KindOf(element value) {
  switch (value.type()) {
    case element_type::OBJECT:
      return "an object";
    case element_type::ARRAY:
      return "a list";
    case element_type::STRING:
      return "text";
    case element_type::BOOL:
      return value.get_bool().value_unsafe() ? "true" : "false";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The value of "type" is `name`, or a list with it.
bool HasType(const object& schema, std::string_view name) {
  element type;
  if (schema.at_key("type").get(type) != simdjson::SUCCESS) return false;
  std::string_view text;
  if (type.get(text) == simdjson::SUCCESS) return text == name;
  array types;
  if (type.get(types) != simdjson::SUCCESS) return false;
  for (const element one : types) {
    if (one.get(text) == simdjson::SUCCESS && text == name) return true;
  }
  return false;
}

std::string Names(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kMaxShownNames) {
      shown.push_back(absl::StrCat(names.size() - kMaxShownNames, " more"));
      break;
    }
    shown.push_back(ExcerptUtf8(name, kMaxShownKey));
  }
  return absl::StrJoin(shown, ", ");
}

std::string At(const std::string& at, std::string_view key) {
  return absl::StrCat(at, ".", ExcerptUtf8(View(key), kMaxShownKey));
}

class Linter {
 public:
  Linter(element root, std::string at, SchemaRules rules, std::vector<SchemaFault>* faults)
      : root_(root), root_at_(std::move(at)), rules_(rules), faults_(faults) {}

  void Lint() {
    object schema;
    if (root_.get(schema) == simdjson::SUCCESS) Root(schema);
    Schema(root_, root_at_, 0, 0);
    if (openai()) {
      Limits();
    } else if (const std::string* name = RecursiveDefinition()) {
      Fault(root_at_, absl::StrCat("is recursive", name->empty() ? "" : " in ", *name,
                                   ", which is not supported"));
    }
  }

 private:
  bool openai() const { return rules_ == SchemaRules::kOpenAi; }

  void Fault(const std::string& at, std::string what, Kind kind = Kind::kVendor) {
    if (faults_->size() < kMaxSchemaFaults) faults_->push_back({at, std::move(what), kind});
  }

  void Root(const object& schema) {
    if (!openai()) return;
    std::string_view type;
    if (schema.at_key("type").get(type) != simdjson::SUCCESS || type != "object") {
      Fault(root_at_, "must have type: object at its root");
    }
    if (Has(schema, "anyOf")) Fault(At(root_at_, "anyOf"), "is not possible at the root");
  }

  // `levels`: objects around it.
  void Schema(element value, const std::string& at, int depth, int64_t levels) {
    if (faults_->size() >= kMaxSchemaFaults) return;
    if (depth > kMaxSchemaDepth) {
      return Fault(at, absl::StrCat("is nested deeper than ", kMaxSchemaDepth, " schemas"),
                   Kind::kEverywhere);
    }
    object schema;
    if (value.get(schema) != simdjson::SUCCESS) {
      return Fault(at, absl::StrCat("must be a schema, not ", KindOf(value)));
    }
    const bool is_object = HasType(schema, "object") || Has(schema, "properties");
    if (is_object) Object(schema, at, levels);
    if (HasType(schema, "array") && openai() && !Has(schema, "items")) {
      Fault(at, "is an array without items");
    }
    Shape(schema, at);
    Keywords(schema, at);
    Values(schema, at);
    Children(schema, at, depth, levels + (is_object ? 1 : 0));
  }

  void Object(const object& schema, const std::string& at, int64_t levels) {
    if (levels > kMaxSchemaLevels && openai() && !std::exchange(too_deep_, true)) {
      Fault(at, absl::StrCat("is deeper than ", kMaxSchemaLevels, " objects in each other"));
    }
    element additional;
    bool allowed = true;
    if (schema.at_key("additionalProperties").get(additional) != simdjson::SUCCESS ||
        additional.get(allowed) != simdjson::SUCCESS || allowed) {
      Fault(at, "needs additionalProperties: false");
    }
    if (openai()) Required(schema, at);
  }

  void Required(const object& schema, const std::string& at) {
    std::set<std::string_view> required;
    array names;
    if (schema.at_key("required").get(names) == simdjson::SUCCESS) {
      std::string_view name;
      for (const element one : names) {
        if (one.get(name) == simdjson::SUCCESS) required.insert(name);
      }
    }
    std::vector<std::string> missing;
    object properties;
    if (schema.at_key("properties").get(properties) == simdjson::SUCCESS) {
      for (const auto& [key, property] : properties) {
        ++properties_;
        string_bytes_ += static_cast<int64_t>(key.size());
        if (required.erase(key) == 0) missing.emplace_back(key);
      }
    }
    if (!missing.empty()) {
      Fault(at, absl::StrCat("must name every property in required; missing: ", Names(missing)));
    }
    if (!required.empty()) {
      const std::vector<std::string> extra(required.begin(), required.end());
      Fault(At(at, "required"), absl::StrCat("names what is no property: ", Names(extra)));
    }
  }

  // Whether it says what it is.
  void Shape(const object& schema, const std::string& at) {
    if (Has(schema, "anyOf") && Has(schema, "type")) {
      Fault(at, "has a type beside anyOf, which some providers refuse; give each branch its own",
            Kind::kPerhaps);
    }
    if (!openai()) return;
    for (std::string_view key : {"type", "anyOf", "$ref", "allOf", "oneOf"}) {
      if (Has(schema, key)) return;
    }
    const bool value = Has(schema, "enum") || Has(schema, "const");
    Fault(at, "has no type", value ? Kind::kPerhaps : Kind::kVendor);
  }

  void Keywords(const object& schema, const std::string& at) {
    for (const Keyword& keyword : kKeywords) {
      const Take take = openai() ? keyword.openai : keyword.anthropic;
      if (take == Take::kYes || !Has(schema, {keyword.name.data(), keyword.name.size()})) continue;
      const std::string where = absl::StrCat(at, ".", keyword.name);
      if (take == Take::kNo) {
        Fault(where, "is not supported in strict mode");
      } else {
        Fault(where, "is not on the provider's list of supported keywords", Kind::kPerhaps);
      }
    }
    int64_t least = 0;
    if (!openai() && schema.at_key("minItems").get(least) == simdjson::SUCCESS && least > 1) {
      Fault(At(at, "minItems"), "may only be 0 or 1");
    }
    element ref;
    if (schema.at_key("$ref").get(ref) == simdjson::SUCCESS) Reference(ref, At(at, "$ref"));
    Pattern(schema, at);
  }

  void Pattern(const object& schema, const std::string& at) {
    std::string_view pattern;
    if (schema.at_key("pattern").get(pattern) != simdjson::SUCCESS) return;
    const PatternCheck check = CheckPattern(View(pattern));
    const std::string where = At(at, "pattern");
    if (!check.problem.empty()) return Fault(where, check.problem, Kind::kEverywhere);
    // OpenAI: 400 "regex lookaround is not supported" (vercel/ai#16021, litellm#40485); the rest is
    // of Anthropic's list alone.
    if (check.lookaround) Fault(where, "has a lookahead or lookbehind, which is not supported");
    if (check.backreference) {
      Fault(where, "has a back-reference, which is not supported",
            openai() ? Kind::kPerhaps : Kind::kVendor);
    }
    if (check.word_boundary && !openai()) {
      Fault(where, "has a word boundary (\\b), which is not supported");
    }
  }

  void Reference(element ref, const std::string& at) {
    std::string_view target;
    if (ref.get(target) != simdjson::SUCCESS) return Fault(at, "must be text");
    if (target.empty() || target[0] != '#') {
      return Fault(at, "points out of the schema, which is not supported");
    }
    element found;
    // A JSON pointer in a URI fragment (RFC 6901 section 6); names with escapes are rare.
    if (!absl::StrContains(View(target), "%") && target.size() > 1 &&
        root_.at_pointer(target.substr(1)).get(found) != simdjson::SUCCESS) {
      return Fault(at, absl::StrCat("points to ", ExcerptUtf8(View(target), kMaxShownKey),
                                    ", which is not there"));
    }
    references_[definition_].insert(std::string(target));
  }

  void Values(const object& schema, const std::string& at) {
    std::string_view text;
    if (schema.at_key("const").get(text) == simdjson::SUCCESS) {
      string_bytes_ += static_cast<int64_t>(text.size());
    }
    array values;
    if (schema.at_key("enum").get(values) != simdjson::SUCCESS) return;
    int64_t count = 0;
    int64_t bytes = 0;
    for (const element value : values) {
      ++count;
      if (value.get(text) == simdjson::SUCCESS) bytes += static_cast<int64_t>(text.size());
      if (!openai() && (value.is_object() || value.is_array())) {
        Fault(At(at, "enum"), absl::StrCat("has ", KindOf(value), ", which is not supported"));
        break;
      }
    }
    enum_values_ += count;
    string_bytes_ += bytes;
    if (openai() && count > kLargeEnumValues && bytes > kMaxLargeEnumBytes) {
      Fault(At(at, "enum"), absl::StrCat("has more than ", kLargeEnumValues, " values and ",
                                         kMaxLargeEnumBytes, " bytes"));
    }
  }

  void Children(const object& schema, const std::string& at, int depth, int64_t levels) {
    for (std::string_view key : {"properties", "$defs", "definitions"}) {
      element children;
      if (schema.at_key(key).get(children) != simdjson::SUCCESS) continue;
      object map;
      if (children.get(map) != simdjson::SUCCESS) {
        Fault(At(at, key), absl::StrCat("must be an object of schemas, not ", KindOf(children)));
        continue;
      }
      const bool definitions = key != "properties" && depth == 0;
      for (const auto& [name, child] : map) {
        if (key != "properties") string_bytes_ += static_cast<int64_t>(name.size());
        const std::string outer = definition_;
        if (definitions) definition_ = absl::StrCat("#/", View(key), "/", View(name));
        Schema(child, At(At(at, key), name), depth + 1, definitions ? 0 : levels);
        definition_ = outer;
      }
    }
    element items;
    if (schema.at_key("items").get(items) == simdjson::SUCCESS) {
      Schema(items, At(at, "items"), depth + 1, levels);
    }
    for (std::string_view key : {"anyOf", "allOf", "oneOf"}) {
      array branches;
      if (schema.at_key(key).get(branches) != simdjson::SUCCESS) continue;
      size_t i = 0;
      for (const element branch : branches) {
        Schema(branch, absl::StrCat(At(at, key), "[", i++, "]"), depth + 1, levels);
      }
    }
  }

  void Limits() {
    const auto check = [this](int64_t value, int64_t limit, absl::string_view of) {
      if (value > limit) Fault(root_at_, absl::StrCat("has ", value, of, limit));
    };
    check(properties_, kMaxSchemaProperties, " properties in all, more than ");
    check(enum_values_, kMaxSchemaEnumValues, " enum values in all, more than ");
    check(string_bytes_, kMaxSchemaStringBytes,
          " bytes of names, enum and const values in all, more than ");
  }

  // A definition that leads to itself; null when there is none. "" is the root.
  const std::string* RecursiveDefinition() const {
    if (references_.size() > kMaxRecursionSearch) return nullptr;
    for (const auto& [name, targets] : references_) {
      std::set<std::string> seen;
      std::vector<std::string> open(targets.begin(), targets.end());
      while (!open.empty()) {
        const std::string target = open.back() == "#" ? "" : open.back();
        open.pop_back();
        if (target == name) return &name;
        if (!seen.insert(target).second) continue;
        const auto next = references_.find(target);
        if (next != references_.end()) {
          open.insert(open.end(), next->second.begin(), next->second.end());
        }
      }
    }
    return nullptr;
  }

  const element root_;
  const std::string root_at_;
  const SchemaRules rules_;
  std::vector<SchemaFault>* const faults_;
  std::string definition_;                                   // around what is looked at
  std::map<std::string, std::set<std::string>> references_;  // by the definition they stand in
  bool too_deep_ = false;
  int64_t properties_ = 0;
  int64_t enum_values_ = 0;
  int64_t string_bytes_ = 0;
};

void Patterns(element value, const std::string& at, int depth, std::vector<SchemaFault>* faults) {
  if (faults->size() >= kMaxSchemaFaults) return;
  if (depth > kMaxSchemaDepth) {
    faults->push_back(
        {at, absl::StrCat("is nested deeper than ", kMaxSchemaDepth), Kind::kEverywhere});
    return;
  }
  object members;
  array elements;
  if (value.get(members) == simdjson::SUCCESS) {
    for (const auto& [key, member] : members) {
      std::string_view pattern;
      if (key == "pattern" && member.get(pattern) == simdjson::SUCCESS) {
        PatternCheck check = CheckPattern(View(pattern));
        if (check.problem.empty()) continue;
        faults->push_back({At(at, key), std::move(check.problem), Kind::kEverywhere});
      } else if (key != "enum" && key != "const" && key != "default" && key != "examples") {
        Patterns(member, At(at, key), depth + 1, faults);
      }
    }
  } else if (value.get(elements) == simdjson::SUCCESS) {
    size_t i = 0;
    for (const element one : elements) {
      Patterns(one, absl::StrCat(at, "[", i++, "]"), depth + 1, faults);
    }
  }
}

}  // namespace

void LintStrictSchema(element schema, const std::string& at, SchemaRules rules,
                      std::vector<SchemaFault>* faults) {
  Linter(schema, at, rules, faults).Lint();
}

void LintPatterns(element schema, const std::string& at, std::vector<SchemaFault>* faults) {
  Patterns(schema, at, 0, faults);
}

}  // namespace headrace
