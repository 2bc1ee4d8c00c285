#include "worker/provider/message_assembler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json_reader.h"
#include "common/base/json_writer.h"

namespace headrace::provider {

struct MessageAssembler::Event {
  absl::string_view type, message, content_block, delta, usage;
  int64_t index = 0;
  RawMembers extras;  // of message_delta
};

namespace {

// Sets a member that must not be lost, however many there are.
void MustSet(absl::string_view key, std::string raw, RawMembers* members) {
  if (!SetMember(key, raw, members)) members->emplace_back(std::string(key), std::move(raw));
}

// The text of a string member with `more` after it.
void AppendText(absl::string_view key, const std::string& more, RawMembers* members) {
  if (more.empty()) return;
  const std::string* have = FindMember(*members, key);
  const absl::string_view before = have == nullptr ? absl::string_view() : StringBody(*have);
  MustSet(key, absl::StrCat("\"", before, more, "\""), members);
}

void AppendList(absl::string_view key, const std::string& more, RawMembers* members) {
  if (more.empty()) return;
  std::string elements;
  const std::string* have = FindMember(*members, key);
  if (have != nullptr) AppendElements(*have, &elements);
  if (!elements.empty()) elements.push_back(',');
  MustSet(key, absl::StrCat("[", elements, more, "]"), members);
}

}  // namespace

StreamAssembler::Outcome MessageAssembler::OnJson(absl::string_view data) {
  JsonReader json(data);
  absl::string_view key;
  Event event;
  if (!json.EnterObject()) return Outcome::kBadJson;
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (key == "type") {
      event.type = StringBody(raw);
    } else if (key == "message") {
      event.message = raw;
    } else if (key == "content_block") {
      event.content_block = raw;
    } else if (key == "delta") {
      event.delta = raw;
    } else if (key == "usage") {
      event.usage = raw;
    } else if (key == "index") {
      event.index = RawToInt(raw).value_or(0);
    } else if (raw != "null") {
      Keep(key, raw, &event.extras);
    }
  }
  if (!json.AtEnd()) return Outcome::kBadJson;
  if (event.type == "content_block_delta") return OnBlockDelta(event);
  if (event.type == "content_block_start") return OnBlockStart(event);
  if (event.type == "message_start") return OnStart(event.message);
  if (event.type == "message_delta") return OnMessageDelta(event);
  if (event.type == "message_stop") {
    set_done();
    return Outcome::kComplete;
  }
  if (event.type == "error") return Outcome::kError;
  // A gateway's error without a type.
  const std::string* error = FindMember(event.extras, "error");
  if (event.type.empty() && error != nullptr && !IsNoError(*error)) return Outcome::kError;
  return Outcome::kKeepAlive;
}

RawMembers MessageAssembler::MembersOf(absl::string_view raw) {
  RawMembers members;
  JsonReader json(raw);
  absl::string_view key;
  if (!json.EnterObject()) return members;
  while (json.NextKey(&key)) {
    const absl::string_view value = json.Skip();
    Keep(key, value, &members);
  }
  return members;
}

void MessageAssembler::MergeUsage(absl::string_view raw) {
  for (const auto& [key, value] : MembersOf(raw)) {
    // Cumulative: the last value counts. A null does not undo an earlier number.
    if (value != "null" || FindMember(usage_, key) == nullptr) Keep(key, value, &usage_);
  }
}

StreamAssembler::Outcome MessageAssembler::OnStart(absl::string_view message) {
  if (!absl::StartsWith(message, "{")) return Outcome::kBadJson;
  for (const auto& [key, value] : MembersOf(message)) {
    if (key == "usage") {
      MergeUsage(value);
    } else if (key != "content") {
      Keep(key, value, &message_);
    }
  }
  return Outcome::kKeepAlive;
}

MessageAssembler::Block* MessageAssembler::BlockAt(int64_t index, bool make) {
  for (Block& block : blocks_) {
    if (block.index == index) return &block;
  }
  if (!make || blocks_.size() >= kMaxBlocks) return nullptr;
  const auto at = std::find_if(blocks_.begin(), blocks_.end(),
                               [index](const Block& block) { return block.index > index; });
  Block block;
  block.index = index;
  return &*blocks_.insert(at, std::move(block));
}

StreamAssembler::Outcome MessageAssembler::OnBlockStart(const Event& event) {
  if (!absl::StartsWith(event.content_block, "{")) return Outcome::kBadJson;
  Block* block = BlockAt(event.index, /*make=*/true);
  if (block == nullptr) return Outcome::kBadJson;
  block->members = MembersOf(event.content_block);
  return Outcome::kKeepAlive;
}

StreamAssembler::Outcome MessageAssembler::OnBlockDelta(const Event& event) {
  Block* block = BlockAt(event.index, /*make=*/false);
  if (block == nullptr) return Outcome::kBadJson;
  JsonReader json(event.delta);
  absl::string_view key;
  absl::string_view type, text, citation;
  if (!json.EnterObject()) return Outcome::kBadJson;
  while (json.NextKey(&key)) {
    const absl::string_view raw = json.Skip();
    if (key == "type") {
      type = StringBody(raw);
    } else if (key == "text" || key == "partial_json" || key == "thinking" || key == "signature") {
      text = StringBody(raw);
    } else if (key == "citation") {
      citation = raw;
    }
  }
  std::string* target = nullptr;
  if (type == "text_delta") target = &block->text;
  if (type == "thinking_delta") target = &block->thinking;
  if (type == "input_json_delta") target = &block->partial_json;
  if (type == "signature_delta") target = &block->signature;
  if (target == nullptr) {
    const bool known = type == "citations_delta" && !citation.empty();
    std::string* list = known ? &block->citations : &block->unknown;
    if (!known) AddFlag("unknown_delta");
    absl::StrAppend(list, list->empty() ? "" : ",", known ? citation : event.delta);
    return Outcome::kProgress;
  }
  target->append(text.data(), text.size());
  if (IsEscapedWhiteSpace(text)) return Outcome::kKeepAlive;
  set_has_output();
  return Outcome::kProgress;
}

StreamAssembler::Outcome MessageAssembler::OnMessageDelta(const Event& event) {
  for (const auto& [key, value] : MembersOf(event.delta)) Keep(key, value, &message_);
  for (const auto& [key, value] : event.extras) Keep(key, value, &message_);
  MergeUsage(event.usage);
  return Outcome::kProgress;
}

void MessageAssembler::AppendBlock(const Block& block, std::string* out) const {
  RawMembers members = block.members;
  AppendText("text", block.text, &members);
  AppendText("thinking", block.thinking, &members);
  AppendText("signature", block.signature, &members);
  AppendList("citations", block.citations, &members);
  AppendList("unknown_deltas", block.unknown, &members);
  if (!block.partial_json.empty()) {
    std::string input = Unescape(block.partial_json);
    std::string error;
    bool truncated = false;
    if (MinifyJson(&input, &error, &truncated)) {
      MustSet("input", input, &members);
    } else {
      // The output limit cut the arguments: kept as they are, never repaired (case H3).
      MustSet("partial_json", absl::StrCat("\"", block.partial_json, "\""), &members);
    }
  }
  out->push_back('{');
  AppendMembers(members, /*first=*/true, out);
  out->push_back('}');
}

std::string MessageAssembler::Body() const {
  std::string body;
  if (message_.empty() && blocks_.empty()) return body;
  RawMembers head = message_;
  RawMembers tail;
  // The order of a message that was not streamed: content stands before stop_reason.
  const auto split = std::find_if(head.begin(), head.end(),
                                  [](const auto& member) { return member.first == "stop_reason"; });
  tail.assign(split, head.end());
  head.erase(split, head.end());
  body.push_back('{');
  AppendMembers(head, /*first=*/true, &body);
  absl::StrAppend(&body, head.empty() ? "" : ",", "\"content\":[");
  for (const Block& block : blocks_) {
    if (&block != &blocks_.front()) body.push_back(',');
    AppendBlock(block, &body);
  }
  body.push_back(']');
  AppendMembers(tail, /*first=*/false, &body);
  body.append(",\"usage\":{");
  AppendMembers(usage_, /*first=*/true, &body);
  body.append("}}");
  return body;
}

}  // namespace headrace::provider
