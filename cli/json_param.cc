#include "cli/json_param.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "simdjson.h"

namespace headrace {
namespace {

bool IsJsonValue(absl::string_view text) {
  simdjson::dom::parser parser;
  // A document of its own may not be a scalar in every version of the parser.
  const std::string document = absl::StrCat("[", text, "]");
  simdjson::dom::array array;
  return parser.parse(document).get(array) == simdjson::SUCCESS && array.size() == 1;
}

// Writes the members of `document`, `key` with its new value; false when it is no valid object.
bool CopyMembers(simdjson::ondemand::document* document, absl::string_view key,
                 absl::string_view value_json, JsonWriter* json) {
  simdjson::ondemand::object members;
  if (document->get_object().get(members) != simdjson::SUCCESS) return false;
  bool found = false;
  for (auto member : members) {
    std::string_view name;
    if (member.unescaped_key().get(name) != simdjson::SUCCESS) return false;
    const std::string member_key(name);
    simdjson::ondemand::value value;
    if (member.value().get(value) != simdjson::SUCCESS) return false;
    std::string_view raw;
    if (simdjson::to_json_string(value).get(raw) != simdjson::SUCCESS) return false;
    const bool replaced = key == member_key;
    found |= replaced;
    json->Key(member_key).Raw(replaced ? value_json : absl::string_view(raw.data(), raw.size()));
  }
  if (!found) json->Key(key).Raw(value_json);
  return true;
}

}  // namespace

absl::Status ParseParam(absl::string_view text,
                        std::vector<std::pair<std::string, std::string>>* params) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not KEY=JSON"));
  }
  const absl::string_view key = text.substr(0, equals);
  const absl::string_view value = text.substr(equals + 1);
  if (!IsJsonValue(value)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", value,
                                                   "\" is no JSON value; text needs "
                                                   "quotes of its own: '",
                                                   key, "=\"...\"'"));
  }
  params->emplace_back(std::string(key), std::string(value));
  return absl::OkStatus();
}

absl::StatusOr<std::string> SetJsonMember(absl::string_view object, absl::string_view key,
                                          absl::string_view value_json) {
  const absl::string_view text = object.empty() ? "{}" : object;
  const simdjson::padded_string padded(text.data(), text.size());
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      !CopyMembers(&document, key, value_json, &json)) {
    return absl::InvalidArgumentError("params: no JSON object");
  }
  json.EndObject();
  return out;
}

}  // namespace headrace
