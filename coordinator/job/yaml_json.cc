#include "coordinator/job/yaml_json.h"

#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/json_writer.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "simdjson.h"

namespace headrace {
namespace {

constexpr absl::string_view kTagPrefix = "tag:yaml.org,2002:";

bool IsDigits(absl::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

// The JSON form of an integer or float of the core schema; empty when `text` is neither. Digits
// stay as written where JSON allows them.
std::string NumberToJson(absl::string_view text) {
  int64_t integer = 0;
  if (absl::StartsWith(text, "0x") && absl::SimpleHexAtoi(text, &integer)) {
    return absl::StrCat(integer);
  }
  if (absl::StartsWith(text, "0o") && text.size() > 2 && text.size() <= 22) {
    for (char c : text.substr(2)) {
      if (c < '0' || c > '7') return "";
      integer = integer * 8 + (c - '0');
    }
    return absl::StrCat(integer);
  }
  std::string out;
  if (absl::ConsumePrefix(&text, "-")) {
    out = "-";
  } else {
    absl::ConsumePrefix(&text, "+");
  }
  absl::string_view exponent;
  if (const size_t e = text.find_first_of("eE"); e != absl::string_view::npos) {
    exponent = text.substr(e);
    text = text.substr(0, e);
    absl::string_view digits = exponent.substr(1);
    if (!absl::ConsumePrefix(&digits, "-")) absl::ConsumePrefix(&digits, "+");
    if (!IsDigits(digits)) return "";
  }
  absl::string_view whole = text, fraction;
  const size_t point = text.find('.');
  if (point != absl::string_view::npos) {
    whole = text.substr(0, point);
    fraction = text.substr(point + 1);
  }
  if (whole.empty() && fraction.empty()) return "";
  if ((!whole.empty() && !IsDigits(whole)) || (!fraction.empty() && !IsDigits(fraction))) return "";
  while (whole.size() > 1 && whole[0] == '0') whole.remove_prefix(1);
  absl::StrAppend(&out, whole.empty() ? "0" : whole);
  if (point != absl::string_view::npos)
    absl::StrAppend(&out, ".", fraction.empty() ? "0" : fraction);
  absl::StrAppend(&out, exponent);
  return out;
}

bool OneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  for (absl::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

class Converter {
 public:
  explicit Converter(const YamlDocument& document) : document_(document) {}

  absl::Status Value(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > kMaxParamDepth || out_.size() > kMaxParamBytes) {
      return document_.Error(node, path,
                             absl::StrCat("is nested deeper than ", kMaxParamDepth,
                                          " levels or larger than ", FormatBytes(kMaxParamBytes)));
    }
    if (node.IsMap()) return Map(node, path, depth);
    if (node.IsSequence()) return Sequence(node, path, depth);
    if (node.IsScalar()) return Scalar(node, path);
    absl::StrAppend(&out_, "null");
    return absl::OkStatus();
  }

  std::string Take() { return std::move(out_); }

 private:
  absl::Status Map(const YAML::Node& node, const std::string& path, int depth) {
    std::set<std::string> keys;
    out_ += "{";
    for (const auto& pair : node) {
      if (!pair.first.IsScalar() && !pair.first.IsNull()) {
        return document_.Error(pair.first, path, "has a key that is not a word");
      }
      const std::string key = pair.first.IsNull() ? "null" : pair.first.Scalar();
      const std::string key_path = absl::StrCat(path, ".", ExcerptUtf8(key, 40));
      if (key.size() > kMaxParamKeyBytes) {
        return document_.Error(pair.first, key_path, "is too long a key");
      }
      if (key == "<<") {
        return document_.Error(pair.first, key_path, "merge keys are not part of YAML 1.2");
      }
      if (!keys.insert(key).second) {
        return document_.Error(pair.first, key_path, "is given twice");
      }
      if (keys.size() > 1) out_ += ", ";
      AppendJsonString(key, &out_);
      out_ += ": ";
      HR_RETURN_IF_ERROR(Value(pair.second, key_path, depth + 1));
    }
    out_ += "}";
    return absl::OkStatus();
  }

  absl::Status Sequence(const YAML::Node& node, const std::string& path, int depth) {
    out_ += "[";
    size_t i = 0;
    for (const auto& element : node) {
      if (i > 0) out_ += ", ";
      HR_RETURN_IF_ERROR(Value(element, absl::StrCat(path, "[", i++, "]"), depth + 1));
    }
    out_ += "]";
    return absl::OkStatus();
  }

  absl::Status Scalar(const YAML::Node& node, const std::string& path) {
    const std::string& text = node.Scalar();
    const std::string& tag = node.Tag();
    // "!" is a quoted or block scalar, "?" a plain one.
    if (tag == "!" || tag == absl::StrCat(kTagPrefix, "str")) {
      AppendJsonString(text, &out_);
      return absl::OkStatus();
    }
    if (tag != "?" && !tag.empty() && !absl::StartsWith(tag, kTagPrefix)) {
      return document_.Error(node, path, absl::StrCat("has the unknown tag ", tag));
    }
    const std::string plain = PlainToJson(text);
    if (plain == "nan") {
      return document_.Error(node, path, absl::StrCat("JSON has no number ", Describe(node)));
    }
    if (tag != "?" && !tag.empty() && plain.empty()) {
      return document_.Error(node, path, absl::StrCat("is not of its type ", tag));
    }
    if (plain.empty()) {
      AppendJsonString(text, &out_);
    } else {
      out_ += plain;
    }
    return absl::OkStatus();
  }

  // The JSON form of a plain scalar that is no text, "nan" for what JSON cannot say, else "".
  static std::string PlainToJson(absl::string_view text) {
    if (OneOf(text, {"", "~", "null", "Null", "NULL"})) return "null";
    if (OneOf(text, {"true", "True", "TRUE"})) return "true";
    if (OneOf(text, {"false", "False", "FALSE"})) return "false";
    absl::string_view magnitude = text;
    if (!absl::ConsumePrefix(&magnitude, "-")) absl::ConsumePrefix(&magnitude, "+");
    if (OneOf(magnitude, {".inf", ".Inf", ".INF"}) || OneOf(text, {".nan", ".NaN", ".NAN"})) {
      return "nan";
    }
    const std::string number = NumberToJson(text);
    double value = 0;
    if (!number.empty() && (!absl::SimpleAtod(number, &value) || !std::isfinite(value))) {
      return "nan";
    }
    return number;
  }

  const YamlDocument& document_;
  std::string out_;
};

namespace ondemand = simdjson::ondemand;

absl::Status JsonError(simdjson::error_code code) {
  return absl::InvalidArgumentError(
      absl::StrCat("is not valid JSON: ", simdjson::error_message(code)));
}

// Appends `value`; any error of simdjson ends it.
absl::Status AppendCanonical(ondemand::value value, int depth, std::string* out) {
  if (depth > kMaxParamDepth || out->size() > kMaxParamBytes) {
    return absl::InvalidArgumentError(absl::StrCat("is nested deeper than ", kMaxParamDepth,
                                                   " levels or larger than ",
                                                   FormatBytes(kMaxParamBytes)));
  }
  ondemand::json_type type;
  if (auto error = value.type().get(type)) return JsonError(error);
  switch (type) {
    case ondemand::json_type::object: {
      ondemand::object object;
      if (auto error = value.get_object().get(object)) return JsonError(error);
      std::set<std::string> keys;
      *out += "{";
      for (auto field : object) {
        std::string_view key;
        if (auto error = field.unescaped_key().get(key)) return JsonError(error);
        const absl::string_view view(key.data(), key.size());
        if (key.size() > kMaxParamKeyBytes || !keys.insert(std::string(key)).second) {
          return absl::InvalidArgumentError(
              absl::StrCat("the key \"", ExcerptUtf8(view, 40), "\" is too long or given twice"));
        }
        if (keys.size() > 1) *out += ", ";
        AppendJsonString(view, out);
        *out += ": ";
        ondemand::value member;
        if (auto error = field.value().get(member)) return JsonError(error);
        HR_RETURN_IF_ERROR(AppendCanonical(member, depth + 1, out));
      }
      *out += "}";
      return absl::OkStatus();
    }
    case ondemand::json_type::array: {
      ondemand::array array;
      if (auto error = value.get_array().get(array)) return JsonError(error);
      *out += "[";
      bool first = true;
      for (auto element : array) {
        if (!first) *out += ", ";
        first = false;
        ondemand::value member;
        if (auto error = element.get(member)) return JsonError(error);
        HR_RETURN_IF_ERROR(AppendCanonical(member, depth + 1, out));
      }
      *out += "]";
      return absl::OkStatus();
    }
    case ondemand::json_type::string: {
      std::string_view text;
      if (auto error = value.get_string().get(text)) return JsonError(error);
      AppendJsonString({text.data(), text.size()}, out);
      return absl::OkStatus();
    }
    default: {
      const std::string_view raw = value.raw_json_token();
      absl::StrAppend(out, absl::StripAsciiWhitespace(absl::string_view(raw.data(), raw.size())));
      return absl::OkStatus();
    }
  }
}

}  // namespace

absl::StatusOr<std::string> YamlToJson(const YamlDocument& document, const YAML::Node& node,
                                       absl::string_view path) {
  Converter converter(document);
  HR_RETURN_IF_ERROR(converter.Value(node, std::string(path), 0));
  return converter.Take();
}

absl::StatusOr<std::string> CanonicalJsonObject(absl::string_view json) {
  if (json.size() > kMaxParamBytes) {
    return absl::InvalidArgumentError(absl::StrCat("is larger than ", FormatBytes(kMaxParamBytes)));
  }
  // The DOM parser checks the whole text; the on-demand one keeps numbers as they are written.
  simdjson::dom::parser checker;
  const simdjson::padded_string padded(json.data(), json.size());
  simdjson::dom::element whole;
  if (auto error = checker.parse(padded).get(whole)) return JsonError(error);
  if (!whole.is_object()) return absl::InvalidArgumentError("must be a JSON object");
  ondemand::parser parser;
  ondemand::document document;
  ondemand::value root;
  if (auto error = parser.iterate(padded).get(document)) return JsonError(error);
  if (auto error = document.get_value().get(root)) return JsonError(error);
  std::string out;
  HR_RETURN_IF_ERROR(AppendCanonical(root, 0, &out));
  return out;
}

bool HasTopLevelKey(absl::string_view json, absl::string_view key) {
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  const auto error = parser.parse(simdjson::padded_string(json.data(), json.size()))
                         .at_key({key.data(), key.size()})
                         .get(value);
  return !error;
}

}  // namespace headrace
