#include "worker/provider/assembler.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json_reader.h"
#include "common/base/utf8.h"
#include "worker/provider/chat_assembler.h"
#include "worker/provider/message_assembler.h"
#include "worker/provider/responses_assembler.h"

namespace headrace::provider {
namespace {

constexpr size_t kMaxErrorEvent = 2000;  // bytes kept of an event that is an error

}  // namespace

void StreamAssembler::AddFlag(absl::string_view flag) {
  if (std::find(flags_.begin(), flags_.end(), flag) == flags_.end()) flags_.emplace_back(flag);
}

void StreamAssembler::Keep(absl::string_view key, absl::string_view raw, RawMembers* members) {
  if (!SetMember(key, raw, members)) FlagDroppedMember();
}

http::BodyVerdict StreamAssembler::OnEvent(const SseEvent& event) {
  using http::BodyVerdict;
  if (done_) return BodyVerdict::kComplete;
  if (!corrupt_.empty() || error_) return BodyVerdict::kAbort;
  const absl::string_view data = absl::StripAsciiWhitespace(event.data);
  if (data.empty() || data == "\"\"") {
    // By the rules of SSE an event with empty text; in practice a ping (case A8).
    ++pings_;
    return BodyVerdict::kKeepAlive;
  }
  if (absl::StartsWith(data, "[DONE]")) {
    done_ = true;
    return BodyVerdict::kComplete;
  }
  const bool named_error = event.type == "error";
  // Asked before the event is read: one that brings both an error and a finish reason is an error.
  const bool was_finished = Finished();
  const Outcome outcome = named_error ? Outcome::kError : OnJson(data);
  switch (outcome) {
    case Outcome::kProgress:
      return BodyVerdict::kProgress;
    case Outcome::kKeepAlive:
      return BodyVerdict::kKeepAlive;
    case Outcome::kComplete:
      return BodyVerdict::kComplete;
    case Outcome::kBadJson:
    case Outcome::kError:
      break;
  }
  if (was_finished) {
    AddFlag("error_after_end");
    return BodyVerdict::kComplete;
  }
  if (outcome == Outcome::kBadJson) return OnBadJson(event);
  // An error event may be glued to half of another event (case A12).
  JsonReader json(data);
  json.Skip();
  if (!json.AtEnd() && absl::StrContains(data, "\n")) return OnBadJson(event);
  error_ = ReadStreamError(data, named_error);
  if (!error_) error_.emplace();
  error_event_ = ExcerptUtf8(data, kMaxErrorEvent);
  return BodyVerdict::kAbort;
}

http::BodyVerdict StreamAssembler::OnBadJson(const SseEvent& event) {
  for (absl::string_view line : absl::StrSplit(event.data, '\n')) {
    error_ = ReadStreamError(line, /*named=*/false);
    if (!error_) continue;
    error_event_ = ExcerptUtf8(line, kMaxErrorEvent);
    return http::BodyVerdict::kAbort;
  }
  JsonReader json(event.data);
  json.Skip();
  json.AtEnd();
  corrupt_ =
      absl::StrCat("a stream event of ", event.data.size(),
                   " bytes is corrupt: ", json.ok() ? "unexpected structure" : json.error_text());
  return http::BodyVerdict::kAbort;
}

std::unique_ptr<StreamAssembler> MakeAssembler(Api api, int64_t choices) {
  switch (api) {
    case Api::kMessages:
      return std::make_unique<MessageAssembler>();
    case Api::kResponses:
      return std::make_unique<ResponsesAssembler>();
    default:
      return std::make_unique<ChatAssembler>(api, choices);
  }
}

bool SetMember(absl::string_view key, absl::string_view raw, RawMembers* members) {
  for (auto& [have, value] : *members) {
    if (have == key) {
      value.assign(raw.data(), raw.size());
      return true;
    }
  }
  if (members->size() >= kMaxMembers) return false;
  members->emplace_back(std::string(key), std::string(raw));
  return true;
}

const std::string* FindMember(const RawMembers& members, absl::string_view key) {
  for (const auto& [have, value] : members) {
    if (have == key) return &value;
  }
  return nullptr;
}

void AppendMembers(const RawMembers& members, bool first, std::string* out) {
  for (const auto& [key, value] : members) {
    absl::StrAppend(out, first ? "\"" : ",\"", key, "\":", value);
    first = false;
  }
}

void AppendElements(absl::string_view raw_array, std::string* elements) {
  if (raw_array.size() < 2 || raw_array.front() != '[') return;
  const absl::string_view inner =
      absl::StripAsciiWhitespace(raw_array.substr(1, raw_array.size() - 2));
  if (inner.empty()) return;
  if (!elements->empty()) elements->push_back(',');
  elements->append(inner.data(), inner.size());
}

}  // namespace headrace::provider
