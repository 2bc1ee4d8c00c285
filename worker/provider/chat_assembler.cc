#include "worker/provider/chat_assembler.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace headrace::provider {
namespace {

// Deltas of text that are joined; a text under any other name (role, id) replaces the one before.
bool IsJoinedText(absl::string_view key) {
  return key == "refusal" || key == "text" || absl::StrContains(key, "reasoning") ||
         absl::StrContains(key, "thinking") || absl::StrContains(key, "thought");
}

// Null where it would be one too many.
std::string* ValueOf(absl::string_view key, RawMembers* members) {
  for (auto& [have, value] : *members) {
    if (have == key) return &value;
  }
  if (members->size() >= kMaxMembers) return nullptr;
  members->emplace_back(std::string(key), std::string());
  return &members->back().second;
}

// A member that the chunk before could not fill yet: Azure's first chunk has "" and 0.
bool IsBlank(absl::string_view raw) { return raw == "null" || raw == "\"\"" || raw == "0"; }

}  // namespace

ChatAssembler::Choice* ChatAssembler::ChoiceAt(int64_t index) {
  for (Choice& choice : choices_) {
    if (choice.index == index) return &choice;
  }
  if (index < 0 || choices_.size() >= static_cast<size_t>(kMaxChoices)) return nullptr;
  const auto at = std::find_if(choices_.begin(), choices_.end(),
                               [index](const Choice& choice) { return choice.index > index; });
  Choice choice;
  choice.index = index;
  return &*choices_.insert(at, std::move(choice));
}

StreamAssembler::Outcome ChatAssembler::OnJson(absl::string_view data) {
  JsonReader json(data);
  absl::string_view key;
  bool progress = false;
  bool error = false;
  bool usage = false;
  next_extra_ = 0;
  if (!json.EnterObject()) return Outcome::kBadJson;
  while (json.NextKey(&key)) {
    if (key == "choices" && json.EnterArray()) {
      while (json.NextElement()) progress = OnChoice(&json) || progress;
      continue;
    }
    const absl::string_view raw = json.Skip();
    if (key == "error") {
      error = error || !IsNoError(raw);
    } else if (key == "usage") {
      if (raw.empty() || raw.front() != '{') continue;
      usage_.assign(raw.data(), raw.size());
      usage = true;
    } else if ((key == "object" || key == "type") && raw == "\"error\"") {
      error = true;
    } else if (key != "object" && key != "choices" && key != "obfuscation") {
      OnExtra(key, raw);
    }
  }
  if (!json.AtEnd() || too_many_) return Outcome::kBadJson;
  if (error) return Outcome::kError;
  // The usage chunk comes after all finish reasons; a server without [DONE] needs no more waiting.
  if (usage && !progress && Finished()) return Outcome::kComplete;
  return progress ? Outcome::kProgress : Outcome::kKeepAlive;
}

void ChatAssembler::OnExtra(absl::string_view key, absl::string_view raw) {
  if (next_extra_ < extras_.size() && extras_[next_extra_].first == key) {
    std::string& have = extras_[next_extra_++].second;
    if (IsBlank(have)) have = std::string(raw);
    return;
  }
  const std::string* have = FindMember(extras_, key);
  if (have == nullptr || IsBlank(*have)) Keep(key, raw, &extras_);
  next_extra_ = have == nullptr ? extras_.size()
                                : static_cast<size_t>(std::find_if(extras_.begin(), extras_.end(),
                                                                   [key](const auto& member) {
                                                                     return member.first == key;
                                                                   }) -
                                                      extras_.begin()) +
                                      1;
}

bool ChatAssembler::OnChoice(JsonReader* json) {
  absl::string_view key;
  absl::string_view delta, text, logprobs, finish_reason;
  int64_t index = 0;
  RawMembers extras;
  if (!json->EnterObject()) {
    json->Skip();
    return false;
  }
  while (json->NextKey(&key)) {
    const absl::string_view raw = json->Skip();
    if (key == "index") {
      index = RawToInt(raw).value_or(0);
    } else if (key == "delta") {
      delta = raw;
    } else if (key == "text") {
      text = raw;
    } else if (key == "logprobs") {
      logprobs = raw;
    } else if (key == "finish_reason") {
      finish_reason = raw;
    } else if (raw != "null" && key != "message") {
      Keep(key, raw, &extras);
    }
  }
  if (!json->ok()) return false;
  Choice* choice = ChoiceAt(index);
  if (choice == nullptr) {
    too_many_ = true;
    return false;
  }
  bool progress = false;
  if (!delta.empty()) progress = OnDelta(delta, choice);
  if (!text.empty()) progress = OnDeltaMember("content", text, choice) || progress;
  if (absl::StartsWith(logprobs, "{")) OnLogprobs(logprobs, choice);
  for (const auto& [name, raw] : extras) Keep(name, raw, &choice->extras);
  if (!StringBody(finish_reason).empty()) {
    choice->finish_reason = std::string(finish_reason);
    progress = true;
  }
  return progress;
}

bool ChatAssembler::OnDelta(absl::string_view raw, Choice* choice) {
  JsonReader json(raw);
  absl::string_view key;
  bool progress = false;
  if (!json.EnterObject()) return false;
  while (json.NextKey(&key)) progress = OnDeltaMember(key, json.Skip(), choice) || progress;
  if (progress) set_has_output();
  return progress;
}

bool ChatAssembler::OnDeltaMember(absl::string_view key, absl::string_view raw, Choice* choice) {
  if (raw.empty() || raw == "null") return false;
  if (key == "content" && raw.front() == '"') {
    const absl::string_view body = StringBody(raw);
    choice->has_content = true;
    choice->content.append(body.data(), body.size());
    // White space alone is a sign of life, no progress: case A21.
    const bool progress = !IsEscapedWhiteSpace(body);
    if (progress) set_has_output();
    return progress;
  }
  if (key == "tool_calls") {
    const bool progress = choice->tool_calls.Add(raw);
    if (choice->tool_calls.ambiguous()) AddFlag("tool_calls_ambiguous");
    return progress;
  }
  if (key == "function_call") return OnFunctionCall(raw, choice);
  if (key == "role") {
    choice->role = std::string(raw);
    return false;
  }
  if (raw.front() == '"' && IsJoinedText(key)) {
    const absl::string_view body = StringBody(raw);
    std::string* text = ValueOf(key, &choice->texts);
    if (text == nullptr) {
      FlagDroppedMember();
      return false;
    }
    text->append(body.data(), body.size());
    return !IsEscapedWhiteSpace(body);
  }
  if (raw.front() == '[') {
    std::string* elements = ValueOf(key, &choice->lists);
    if (elements == nullptr) {
      FlagDroppedMember();
      return false;
    }
    const size_t before = elements->size();
    AppendElements(raw, elements);
    return elements->size() > before;
  }
  Keep(key, raw, &choice->others);
  return false;
}

bool ChatAssembler::OnFunctionCall(absl::string_view raw, Choice* choice) {
  JsonReader json(raw);
  absl::string_view key;
  bool progress = false;
  if (!json.EnterObject()) return false;
  choice->has_function_call = true;
  while (json.NextKey(&key)) {
    const absl::string_view body = StringBody(json.Skip());
    if (key == "name" && choice->function_name != body) {
      absl::StrAppend(&choice->function_name, body);
    }
    if (key == "arguments") absl::StrAppend(&choice->function_arguments, body);
    progress = progress || !IsEscapedWhiteSpace(body);
  }
  return progress;
}

void ChatAssembler::OnLogprobs(absl::string_view raw, Choice* choice) {
  JsonReader json(raw);
  absl::string_view key;
  if (!json.EnterObject()) return;
  while (json.NextKey(&key)) {
    const absl::string_view value = json.Skip();
    if (!absl::StartsWith(value, "[")) continue;
    if (std::string* elements = ValueOf(key, &choice->logprobs)) {
      AppendElements(value, elements);
    } else {
      FlagDroppedMember();
    }
  }
}

bool ChatAssembler::Finished() const {
  if (choices_.empty() || static_cast<int64_t>(choices_.size()) < wanted_) return false;
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return !choice.finish_reason.empty(); });
}

void ChatAssembler::AppendChoice(const Choice& choice, std::string* out) const {
  absl::StrAppend(out, "{\"index\":", choice.index);
  if (api_ == Api::kCompletions) {
    absl::StrAppend(out, ",\"text\":\"", choice.content, "\"");
  } else {
    absl::StrAppend(out,
                    ",\"message\":{\"role\":", choice.role.empty() ? "\"assistant\"" : choice.role,
                    ",\"content\":");
    const bool calls = !choice.tool_calls.empty() || choice.has_function_call;
    if (!choice.has_content || (choice.content.empty() && calls)) {
      out->append("null");
    } else {
      absl::StrAppend(out, "\"", choice.content, "\"");
    }
    for (const auto& [key, body] : choice.texts) {
      absl::StrAppend(out, ",\"", key, "\":\"", body, "\"");
    }
    for (const auto& [key, elements] : choice.lists) {
      absl::StrAppend(out, ",\"", key, "\":[", elements, "]");
    }
    AppendMembers(choice.others, /*first=*/false, out);
    if (!choice.tool_calls.empty()) {
      out->append(",\"tool_calls\":");
      choice.tool_calls.Append(out);
    }
    if (choice.has_function_call) {
      absl::StrAppend(out, ",\"function_call\":{\"name\":\"", choice.function_name,
                      "\",\"arguments\":\"", choice.function_arguments, "\"}");
    }
    out->push_back('}');
  }
  out->append(",\"logprobs\":");
  if (choice.logprobs.empty()) {
    out->append("null");
  } else {
    const char* separator = "{\"";
    for (const auto& [key, elements] : choice.logprobs) {
      absl::StrAppend(out, separator, key, "\":[", elements, "]");
      separator = ",\"";
    }
    out->push_back('}');
  }
  AppendMembers(choice.extras, /*first=*/false, out);
  absl::StrAppend(out, ",\"finish_reason\":",
                  choice.finish_reason.empty() ? "null" : choice.finish_reason, "}");
}

std::string ChatAssembler::Body() const {
  std::string body;
  if (choices_.empty() && extras_.empty()) return body;
  absl::StrAppend(&body, "{\"object\":\"",
                  api_ == Api::kCompletions ? "text_completion" : "chat.completion", "\"");
  AppendMembers(extras_, /*first=*/false, &body);
  body.append(",\"choices\":[");
  for (const Choice& choice : choices_) {
    if (&choice != &choices_.front()) body.push_back(',');
    AppendChoice(choice, &body);
  }
  absl::StrAppend(&body, "],\"usage\":", usage_.empty() ? "null" : usage_, "}");
  return body;
}

}  // namespace headrace::provider
