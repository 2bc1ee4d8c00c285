#include "coordinator/store/answer_text.h"

#include <simdjson.h>

#include <string_view>

namespace headrace {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

// The string at `key`, empty when there is none.
std::string_view StringAt(element object, std::string_view key) {
  std::string_view text;
  return object[key].get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// Joins the texts of [{"type": T, "text": "..."}, ...] for any of the types that hold an answer:
// OpenAI parts and Anthropic blocks are "text", OpenAI responses' are "output_text".
void AppendParts(element content, std::string* out) {
  array parts;
  if (content.get(parts) != simdjson::SUCCESS) return;
  for (const element part : parts) {
    const std::string_view type = StringAt(part, "type");
    if (type == "text" || type == "output_text") out->append(StringAt(part, "text"));
  }
}

// A string, or parts.
void AppendContent(element content, std::string* out) {
  std::string_view text;
  if (content.get(text) == simdjson::SUCCESS) {
    out->append(text);
  } else {
    AppendParts(content, out);
  }
}

// True when the text is a refusal.
bool AppendChoice(element choice, std::string* out) {
  element message;
  if (choice["message"].get(message) != simdjson::SUCCESS) {
    out->append(StringAt(choice, "text"));
    return false;
  }
  element content;
  if (message["content"].get(content) == simdjson::SUCCESS) AppendContent(content, out);
  if (!out->empty()) return false;
  out->append(StringAt(message, "refusal"));
  return !out->empty();
}

}  // namespace

class AnswerReader::Impl {
 public:
  std::string Read(absl::string_view body) {
    std::string text;
    refused_ = false;
    element root;
    // A copy inside: simdjson needs room after the end.
    if (parser_.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) return text;
    array items;
    element content;
    if (root["choices"].get(items) == simdjson::SUCCESS) {
      if (items.begin() != items.end()) refused_ = AppendChoice(*items.begin(), &text);
    } else if (root["content"].get(content) == simdjson::SUCCESS) {
      AppendContent(content, &text);
    } else if (root["output"].get(items) == simdjson::SUCCESS) {
      for (const element item : items) {
        if (item["content"].get(content) == simdjson::SUCCESS) AppendParts(content, &text);
      }
    }
    return text;
  }

  bool refused() const { return refused_; }

 private:
  simdjson::dom::parser parser_;
  bool refused_ = false;
};

AnswerReader::AnswerReader() : impl_(std::make_unique<Impl>()) {}

AnswerReader::~AnswerReader() = default;

std::string AnswerReader::Read(absl::string_view body) { return impl_->Read(body); }

bool AnswerReader::refused() const { return impl_->refused(); }

JsonAnswer AnswerReader::ReadJson(absl::string_view body, absl::string_view finish_reason,
                                  std::string* text) {
  *text = Read(body);
  if (!refused()) return FindJson(*text, finish_reason);
  JsonAnswer answer;
  answer.kind = JsonKind::kRefused;
  return answer;
}

}  // namespace headrace
