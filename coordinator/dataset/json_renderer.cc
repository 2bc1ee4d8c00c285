#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json_writer.h"
#include "common/base/utf8.h"
#include "coordinator/dataset/pictures.h"
#include "coordinator/dataset/renderer.h"
#include "simdjson.h"

namespace headrace {
namespace {

namespace dom = simdjson::dom;
namespace ondemand = simdjson::ondemand;

static_assert(kRecordPadding >= simdjson::SIMDJSON_PADDING);

// Parsers keep buffers as large as their largest document; beyond this they are made anew.
constexpr size_t kKeptParserBytes = size_t{1} << 20;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// One value as it stands in the record, which has been checked as a whole.
struct RawValue {
  bool present = false;
  bool twice = false;
  ondemand::json_type type = ondemand::json_type::null;
  std::string text;        // of a string, without escapes
  absl::string_view json;  // verbatim, of everything but strings

  bool is(ondemand::json_type wanted) const { return present && type == wanted; }
};

absl::string_view KindName(const RawValue& value) {
  switch (value.type) {
    case ondemand::json_type::array:
      return "a list";
    case ondemand::json_type::object:
      return "an object";
    case ondemand::json_type::number:
      return "a number";
    case ondemand::json_type::string:
      return "text";
    case ondemand::json_type::boolean:
      return "true or false";
    default:
      return "null";
  }
}

// True when the value could be read. Errors cannot come from the data, which were checked before,
// but simdjson's interface has them.
bool Read(ondemand::value value, RawValue* out) {
  if (value.type().get(out->type)) return false;
  std::string_view raw;
  switch (out->type) {
    case ondemand::json_type::string: {
      if (value.get_string().get(raw)) return false;
      out->text.assign(raw.data(), raw.size());
      return true;
    }
    case ondemand::json_type::object: {
      ondemand::object object;
      if (value.get_object().get(object) || object.raw_json().get(raw)) return false;
      break;
    }
    case ondemand::json_type::array: {
      ondemand::array array;
      if (value.get_array().get(array) || array.raw_json().get(raw)) return false;
      break;
    }
    default:
      raw = value.raw_json_token();
  }
  out->json = absl::StripAsciiWhitespace(View(raw));
  return true;
}

void ToFieldValue(const RawValue& raw, const FieldRef& ref, FieldValue* out) {
  using State = FieldValue::State;
  out->text.clear();
  if (raw.is(ondemand::json_type::string)) {
    out->state = State::kText;
    if (ref.as_json) {
      AppendJsonString(raw.text, &out->text);
    } else {
      out->text = raw.text;
    }
    return;
  }
  out->state = raw.is(ondemand::json_type::null) ? State::kNull : State::kOther;
  absl::StrAppend(&out->text, raw.json);
}

std::string MessagesProblem(dom::element messages) {
  dom::array list;
  if (messages.get_array().get(list)) return "must be a list";
  if (list.size() == 0) return "is an empty list";
  size_t i = 0;
  for (dom::element message : list) {
    std::string_view role;
    if (message.at_key("role").get_string().get(role)) {
      return absl::StrCat("message ", i, " is no object with a 'role'");
    }
    ++i;
  }
  return "";
}

class JsonRenderer : public RowRenderer {
 public:
  explicit JsonRenderer(const RowPlan* plan) : plan_(*plan), values_(plan->fields.refs().size()) {}

  void Render(const Record& record, RowStatistics* statistics, RenderedRow* row) override {
    row->custom_id = absl::StrCat(plan_.id.has_value() ? "row:" : "", row->row.value());
    dom::element root;
    if (!ParseRoot(record, row, &root)) return;
    if (statistics != nullptr) CollectNames(root, statistics);
    if (!FindValues(record, row)) return;
    if (statistics != nullptr) {
      for (size_t i = 0; i < values_.size(); ++i) {
        if (values_[i].state != FieldValue::State::kAbsent) ++statistics->present[i];
      }
    }
    if (!RenderTemplates(plan_, values_, MissingNames(root), row)) return;
    if (plan_.format == DatasetFormat::kOpenAiBatch) {
      RenderBatch(root, statistics, row);
    } else if (plan_.prompt.empty()) {
      RenderOwnPrompt(root, statistics, row);
    }
    if (record.text.size() > kKeptParserBytes) {
      checker_ = dom::parser();
      parser_ = ondemand::parser();
    }
  }

 private:
  bool ParseRoot(const Record& record, RenderedRow* row, dom::element* root) {
    // One at the start of the file is gone by now. simdjson 3.12 would skip another.
    if (absl::StartsWith(record.text, "\xEF\xBB\xBF")) {
      SetRowError(plan_, "", "is not valid JSON: it begins with a byte order mark", row);
      return false;
    }
    const auto error =
        checker_.parse(record.text.data(), record.text.size(), /*realloc_if_needed=*/false)
            .get(*root);
    if (error == simdjson::UTF8_ERROR) {
      SetRowError(plan_, "", "is not UTF-8", row);
    } else if (error == simdjson::STRING_ERROR) {
      SetRowError(plan_, "", "is not valid JSON: a string has an escape that is no character", row);
    } else if (error) {
      SetRowError(plan_, "", absl::StrCat("is not valid JSON: ", simdjson::error_message(error)),
                  row);
    } else if (!root->is_object()) {
      SetRowError(plan_, "", "is valid JSON but no object", row);
    }
    return !error && root->is_object();
  }

  static void CollectNames(dom::element root, RowStatistics* statistics) {
    if (++statistics->rows > kRowsForNames) return;
    for (auto [key, value] : dom::object(root)) {
      if (statistics->names.size() >= kMaxNames) return;
      statistics->names.insert(ExcerptUtf8(View(key), kMaxIdBytes));
    }
  }

  // The row's fields, if one of those needed is missing; only messages need them.
  std::vector<std::string> MissingNames(dom::element root) const {
    std::vector<std::string> names;
    const bool missing = std::any_of(values_.begin(), values_.end(), [](const FieldValue& value) {
      return value.state == FieldValue::State::kAbsent;
    });
    if (!missing) return names;
    for (auto [key, value] : dom::object(root)) {
      if (names.size() >= kMaxNames) break;
      names.push_back(ExcerptUtf8(View(key), kMaxIdBytes));
    }
    return names;
  }

  // Goes over the record once and fills values_ and the members of our own.
  bool FindValues(const Record& record, RenderedRow* row) {
    for (FieldValue& value : values_) value = FieldValue();
    exact_.assign(values_.size(), false);
    body_ = method_ = url_ = messages_ = prompt_ = RawValue();
    ondemand::document document;
    ondemand::object object;
    const char* const data = record.text.data();
    if (parser_.iterate(data, record.text.size(), record.text.size() + kRecordPadding)
            .get(document) ||
        document.get_object().get(object)) {
      SetRowError(plan_, "", "cannot be read", row);
      return false;
    }
    for (auto field : object) {
      std::string_view key;
      ondemand::value value;
      if (field.unescaped_key().get(key)) return Unreadable(row);
      if (!IsNeeded(View(key))) continue;
      RawValue raw;
      raw.present = true;
      // The key's text is in the parser's buffer, which stays as it is.
      if (field.value().get(value) || !Read(value, &raw)) return Unreadable(row);
      if (!Take(View(key), std::move(raw))) {
        SetRowError(plan_, View(key), "is given twice in this row", row);
        return false;
      }
    }
    return true;
  }

  bool Unreadable(RenderedRow* row) const {
    SetRowError(plan_, "", "cannot be read", row);
    return false;
  }

  // The member for a key that headrace itself looks at, or null.
  RawValue* OwnMember(absl::string_view key) {
    if (plan_.format == DatasetFormat::kOpenAiBatch) {
      if (key == "body") return &body_;
      if (key == "method") return &method_;
      if (key == "url") return &url_;
    } else if (plan_.prompt.empty()) {
      if (key == "messages") return &messages_;
      if (key == "prompt") return &prompt_;
    }
    return nullptr;
  }

  bool IsNeeded(absl::string_view key) {
    if (OwnMember(key) != nullptr) return true;
    for (const FieldRef& ref : plan_.fields.refs()) {
      if (ref.name == key || std::get<std::string>(ref.steps[0]) == key) return true;
    }
    return false;
  }

  // False when the key was there before.
  bool Take(absl::string_view key, RawValue raw) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const FieldRef& ref = plan_.fields.refs()[i];
      if (ref.name == key) {
        if (exact_[i]) return false;
        exact_[i] = true;
        ToFieldValue(raw, ref, &values_[i]);
      } else if (std::get<std::string>(ref.steps[0]) == key && !exact_[i]) {
        // A key that is the whole name wins over a path of the same name.
        TakeNested(raw, ref, &values_[i]);
      }
    }
    RawValue* const own = OwnMember(key);
    if (own == nullptr) return true;
    if (own->present) return false;
    *own = std::move(raw);
    return true;
  }

  // Follows the steps of `ref` below its first one.
  void TakeNested(const RawValue& raw, const FieldRef& ref, FieldValue* out) {
    if (!raw.is(ondemand::json_type::object) && !raw.is(ondemand::json_type::array)) return;
    ondemand::document document;
    ondemand::value value;
    if (nested_parser_.iterate(raw.json.data(), raw.json.size(), raw.json.size() + kRecordPadding)
            .get(document) ||
        document.get_value().get(value)) {
      return;
    }
    for (size_t i = 1; i < ref.steps.size(); ++i) {
      ondemand::value next;
      if (const std::string* key = std::get_if<std::string>(&ref.steps[i])) {
        if (value.find_field_unordered(*key).get(next)) return;
      } else {
        const size_t index = std::get<size_t>(ref.steps[i]);
        ondemand::json_type type;
        if (value.type().get(type)) return;
        const bool found = type == ondemand::json_type::array
                               ? !value.at(index).get(next)
                               : !value.find_field_unordered(std::to_string(index)).get(next);
        if (!found) return;
      }
      value = next;
    }
    RawValue nested;
    nested.present = true;
    if (Read(value, &nested)) ToFieldValue(nested, ref, out);
  }

  void RenderBatch(dom::element root, RowStatistics* statistics, RenderedRow* row) {
    using Type = ondemand::json_type;
    if (!body_.is(Type::object)) {
      SetRowError(plan_, "body", body_.present ? "must be an object" : "is missing", row);
      return;
    }
    if (method_.present && !(method_.is(Type::string) && method_.text == "POST")) {
      SetRowError(plan_, "method", "must be \"POST\"", row);
      return;
    }
    // Only a path: a whole URL could carry the key to another host.
    if (url_.present && !(url_.is(Type::string) && absl::StartsWith(url_.text, "/") &&
                          !absl::StartsWith(url_.text, "//"))) {
      SetRowError(plan_, "url", "must be a path like \"/v1/chat/completions\"", row);
      return;
    }
    absl::StrAppend(&row->body, body_.json);
    row->url = url_.text;
    dom::element messages;
    if (statistics != nullptr && MayHavePictures(body_.json) &&
        !root.at_key("body").at_key("messages").get(messages)) {
      CheckPictures(messages, "body.messages", &statistics->remarks);
    }
  }

  // Rows that say themselves what to send: "messages", or "prompt" (text, or a list of messages).
  void RenderOwnPrompt(dom::element root, RowStatistics* statistics, RenderedRow* row) {
    using Type = ondemand::json_type;
    if (prompt_.is(Type::string) && !messages_.present) {
      if (absl::StripAsciiWhitespace(prompt_.text).empty()) {
        SetRowError(plan_, "prompt", "is empty for this row", row);
        return;
      }
      row->user = std::move(prompt_.text);
      return;
    }
    const bool in_prompt = !messages_.present && prompt_.present;
    const RawValue& source = in_prompt ? prompt_ : messages_;
    const absl::string_view name = in_prompt ? "prompt" : "messages";
    if (!source.present) {
      SetRowError(plan_, "",
                  "the row has neither 'messages' nor 'prompt', and the job has no "
                  "dataset.prompt",
                  row);
      return;
    }
    dom::element messages;
    std::string problem;
    if (in_prompt && !prompt_.is(Type::array)) {
      problem = absl::StrCat("must be text, not ", KindName(prompt_));
    } else if (!root.at_key(in_prompt ? "prompt" : "messages").get(messages)) {
      problem = MessagesProblem(messages);
    }
    if (!problem.empty()) {
      SetRowError(plan_, name, problem, row);
      return;
    }
    absl::StrAppend(&row->messages_json, source.json);
    if (statistics != nullptr && MayHavePictures(source.json)) {
      CheckPictures(messages, name, &statistics->remarks);
    }
  }

  static bool MayHavePictures(absl::string_view json) { return absl::StrContains(json, "image"); }

  const RowPlan& plan_;
  dom::parser checker_;      // checks the whole record; on-demand skips do not
  ondemand::parser parser_;  // keeps the text of numbers and objects as it is
  ondemand::parser nested_parser_;
  std::vector<FieldValue> values_;
  std::vector<bool> exact_;  // the value's key was the field's whole name
  RawValue body_, method_, url_, messages_, prompt_;
};

}  // namespace

std::unique_ptr<RowRenderer> MakeJsonRenderer(const RowPlan* plan) {
  return std::make_unique<JsonRenderer>(plan);
}

}  // namespace headrace
