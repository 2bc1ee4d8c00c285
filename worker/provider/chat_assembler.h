// Streams of chat completions and completions.
#ifndef HEADRACE_WORKER_PROVIDER_CHAT_ASSEMBLER_H_
#define HEADRACE_WORKER_PROVIDER_CHAT_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/json_reader.h"
#include "worker/provider/assembler.h"
#include "worker/provider/tool_calls.h"

namespace headrace::provider {

// Merges chunks by choice index into a chat.completion (or text_completion) object:
//   texts (content, refusal, reasoning, ...) are joined; tool calls go by their index or id; the
//   arrays of logprobs and other lists are joined; of everything else the last value that is not
//   null stays, and of the chunk's own members the first. Usage: the last that is not null.
class ChatAssembler : public StreamAssembler {
 public:
  static constexpr int64_t kMaxChoices = 128;  // OpenAI's limit of n

  ChatAssembler(Api api, int64_t choices) : api_(api), wanted_(choices) {}

  std::string Body() const override;

 protected:
  Outcome OnJson(absl::string_view data) override;
  bool Finished() const override;

 private:
  struct Choice {
    int64_t index = 0;
    std::string role;          // raw
    bool has_content = false;  // a text came, perhaps an empty one
    std::string content;       // escaped
    RawMembers texts;          // escaped bodies of the other joined texts
    RawMembers lists;          // elements
    RawMembers others;         // raw
    ToolCalls tool_calls;
    bool has_function_call = false;
    std::string function_name;  // escaped
    std::string function_arguments;
    RawMembers logprobs;        // elements per list
    RawMembers extras;          // raw members of the choice itself
    std::string finish_reason;  // raw
  };

  Choice* ChoiceAt(int64_t index);
  bool OnChoice(JsonReader* json);
  bool OnDelta(absl::string_view raw, Choice* choice);
  bool OnDeltaMember(absl::string_view key, absl::string_view raw, Choice* choice);
  bool OnFunctionCall(absl::string_view raw, Choice* choice);
  void OnLogprobs(absl::string_view raw, Choice* choice);
  void OnExtra(absl::string_view key, absl::string_view raw);
  void AppendChoice(const Choice& choice, std::string* out) const;

  const Api api_;
  const int64_t wanted_;
  RawMembers extras_;      // members of the first chunk that has them
  size_t next_extra_ = 0;  // chunks repeat their members in one order: where to look first
  std::vector<Choice> choices_;
  std::string usage_;  // raw
  bool too_many_ = false;
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_CHAT_ASSEMBLER_H_
