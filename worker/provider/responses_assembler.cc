#include "worker/provider/responses_assembler.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json_reader.h"

namespace headrace::provider {

StreamAssembler::Outcome ResponsesAssembler::OnJson(absl::string_view data) {
  JsonReader json(data);
  absl::string_view key;
  absl::string_view type, response, delta, error;
  if (!json.EnterObject()) return Outcome::kBadJson;
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (key == "type") type = StringBody(raw);
    if (key == "response") response = raw;
    if (key == "delta") delta = raw;
    if (key == "error") error = raw;
  }
  if (!json.AtEnd()) return Outcome::kBadJson;
  if (type == "error" || (!error.empty() && !IsNoError(error))) return Outcome::kError;
  if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
    if (!absl::StartsWith(response, "{")) return Outcome::kBadJson;
    response_ = std::string(response);
    set_done();
    return Outcome::kComplete;
  }
  const absl::string_view text = StringBody(delta);
  if (text.empty() || IsEscapedWhiteSpace(text)) return Outcome::kKeepAlive;
  set_has_output();
  if (type == "response.output_text.delta") partial_.append(text.data(), text.size());
  return Outcome::kProgress;
}

std::string ResponsesAssembler::Body() const {
  if (!response_.empty()) return response_;
  if (partial_.empty()) return "";
  return absl::StrCat(
      "{\"object\":\"response\",\"status\":\"in_progress\",\"output\":[{\"type\":\"message\","
      "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"",
      partial_, "\"}]}]}");
}

}  // namespace headrace::provider
