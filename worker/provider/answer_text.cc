#include "absl/strings/match.h"
#include "worker/provider/codec.h"
#include "common/base/json_reader.h"

namespace headrace::provider {
namespace {

// Appends a content value: a string, or the text parts of a list.
void AppendContent(JsonReader* json, std::string* out) {
  absl::string_view key;
  if (!json->EnterArray()) {
    AppendUnescaped(StringBody(json->Skip()), out);
    return;
  }
  while (json->NextElement()) {
    if (!json->EnterObject()) {
      json->Skip();
      continue;
    }
    absl::string_view type;
    absl::string_view text;
    while (json->NextKey(&key)) {
      const absl::string_view raw = json->Skip();
      if (key == "type") type = StringBody(raw);
      if (key == "text") text = StringBody(raw);
    }
    if (type == "text" || type == "output_text") AppendUnescaped(text, out);
  }
}

// The first choice of a list, its message's content or its text.
void AppendFirstChoice(JsonReader* json, std::string* out) {
  absl::string_view key;
  bool first = true;
  if (!json->EnterArray()) {
    json->Skip();
    return;
  }
  while (json->NextElement()) {
    if (!first || !json->EnterObject()) {
      json->Skip();
      continue;
    }
    first = false;
    while (json->NextKey(&key)) {
      if (key == "text") {
        AppendContent(json, out);
      } else if (key == "message" && json->EnterObject()) {
        while (json->NextKey(&key)) {
          if (key == "content") {
            AppendContent(json, out);
          } else {
            json->Skip();
          }
        }
      } else {
        json->Skip();
      }
    }
  }
}

// Every text part of every message of a Responses output, never only the first (case C11).
void AppendOutput(JsonReader* json, std::string* out) {
  absl::string_view key;
  if (!json->EnterArray()) {
    json->Skip();
    return;
  }
  while (json->NextElement()) {
    if (!json->EnterObject()) {
      json->Skip();
      continue;
    }
    while (json->NextKey(&key)) {
      if (key == "content") {
        AppendContent(json, out);
      } else {
        json->Skip();
      }
    }
  }
}

}  // namespace

std::string AnswerText(absl::string_view body) {
  std::string text;
  JsonReader json(body);
  absl::string_view key;
  if (!json.EnterObject()) return text;
  while (json.NextKey(&key)) {
    if (key == "choices") {
      AppendFirstChoice(&json, &text);
    } else if (key == "content") {
      AppendContent(&json, &text);
    } else if (key == "output") {
      AppendOutput(&json, &text);
    } else {
      json.Skip();
    }
  }
  if (!json.ok()) text.clear();
  return text;
}

}  // namespace headrace::provider
