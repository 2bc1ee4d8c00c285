#include "worker/provider/tool_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/provider/assembler.h"
#include "common/base/json_reader.h"

namespace headrace::provider {

struct ToolCalls::Fragment {
  std::optional<int64_t> index;
  absl::string_view id, type, name, arguments;  // escaped
  RawMembers extras;
  RawMembers function_extras;
};

namespace {

// The fragment of a function: name and arguments; others are kept.
void ReadFunction(JsonReader* json, absl::string_view* name, absl::string_view* arguments,
                  RawMembers* extras) {
  absl::string_view key;
  if (!json->EnterObject()) {
    json->Skip();
    return;
  }
  while (json->NextKey(&key)) {
    const absl::string_view raw = json->Skip();
    if (key == "name") {
      *name = StringBody(raw);
    } else if (key == "arguments" && (raw.empty() || raw.front() == '"' || raw == "null")) {
      *arguments = StringBody(raw);
    } else if (raw != "null") {
      SetMember(key, raw, extras);
    }
  }
}

}  // namespace

ToolCalls::Call* ToolCalls::CallOf(const Fragment& fragment) {
  if (fragment.index) {
    // The last call of an index: an index reused for another id made a later one.
    const auto found = std::find_if(calls_.rbegin(), calls_.rend(),
                                    [&](const Call& call) { return call.index == fragment.index; });
    if (found != calls_.rend()) {
      if (fragment.id.empty() || found->id.empty() || fragment.id == found->id) return &*found;
      ambiguous_ = true;
    }
  } else if (!fragment.id.empty()) {
    for (Call& call : calls_) {
      if (call.id == fragment.id) return &call;
    }
  } else if (!calls_.empty()) {
    return &calls_[last_];
  } else {
    ambiguous_ = true;  // arguments of a call that nothing has named
  }
  if (calls_.size() >= kMaxCalls) {
    ambiguous_ = true;
    return &calls_.back();
  }
  calls_.emplace_back();
  calls_.back().index = fragment.index;
  return &calls_.back();
}

bool ToolCalls::Merge(const Fragment& fragment) {
  Call* call = CallOf(fragment);
  last_ = static_cast<size_t>(call - calls_.data());
  if (call->id.empty()) call->id = std::string(fragment.id);
  if (!fragment.type.empty()) call->type = std::string(fragment.type);
  // Some servers repeat the whole name with every fragment.
  if (call->name != fragment.name) absl::StrAppend(&call->name, fragment.name);
  absl::StrAppend(&call->arguments, fragment.arguments);
  for (const auto& [key, raw] : fragment.extras) SetMember(key, raw, &call->extras);
  for (const auto& [key, raw] : fragment.function_extras) {
    SetMember(key, raw, &call->function_extras);
  }
  return !fragment.name.empty() || !IsEscapedWhiteSpace(fragment.arguments);
}

bool ToolCalls::Add(absl::string_view raw) {
  JsonReader json(raw);
  absl::string_view key;
  bool progress = false;
  int anonymous = 0;
  if (!json.EnterArray()) return false;
  while (json.NextElement()) {
    Fragment fragment;
    if (!json.EnterObject()) {
      json.Skip();
      continue;
    }
    while (json.NextKey(&key)) {
      if (key == "function") {
        ReadFunction(&json, &fragment.name, &fragment.arguments, &fragment.function_extras);
        continue;
      }
      const absl::string_view value = json.Skip();
      if (key == "index") {
        fragment.index = RawToInt(value);
      } else if (key == "id") {
        fragment.id = StringBody(value);
      } else if (key == "type") {
        fragment.type = StringBody(value);
      } else if (value != "null") {
        SetMember(key, value, &fragment.extras);
      }
    }
    if (!fragment.index && fragment.id.empty() && ++anonymous > 1) ambiguous_ = true;
    progress = Merge(fragment) || progress;
  }
  return progress;
}

void ToolCalls::Append(std::string* out) const {
  std::vector<const Call*> order;
  for (const Call& call : calls_) order.push_back(&call);
  const auto indexed = [](const Call* call) { return call->index.has_value(); };
  if (std::all_of(order.begin(), order.end(), indexed)) {
    // By position in memory, which is the order of appearance, among equal indexes.
    std::sort(order.begin(), order.end(), [](const Call* a, const Call* b) {
      return std::pair(*a->index, a) < std::pair(*b->index, b);
    });
  }
  out->push_back('[');
  for (const Call* call : order) {
    if (call != order.front()) out->push_back(',');
    absl::StrAppend(out, "{\"id\":\"", call->id, "\",\"type\":\"",
                    call->type.empty() ? "function" : call->type, "\",\"function\":{\"name\":\"",
                    call->name, "\",\"arguments\":\"", call->arguments, "\"");
    AppendMembers(call->function_extras, /*first=*/false, out);
    out->push_back('}');
    AppendMembers(call->extras, /*first=*/false, out);
    out->push_back('}');
  }
  out->push_back(']');
}

}  // namespace headrace::provider
