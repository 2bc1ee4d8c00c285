// Streams of the Anthropic messages API.
#ifndef HEADRACE_WORKER_PROVIDER_MESSAGE_ASSEMBLER_H_
#define HEADRACE_WORKER_PROVIDER_MESSAGE_ASSEMBLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/provider/assembler.h"

namespace headrace::provider {

// message_start gives the message, content blocks are filled by their deltas, message_delta brings
// stop_reason and the cumulative usage, message_stop ends it. Events are told by the `type` in the
// data; unknown ones are ignored, as the API's versioning policy asks.
class MessageAssembler : public StreamAssembler {
 public:
  static constexpr size_t kMaxBlocks = 4096;  // chosen, not measured

  std::string Body() const override;

 protected:
  Outcome OnJson(absl::string_view data) override;
  bool Finished() const override { return false; }  // only message_stop ends a message

 private:
  struct Block {
    int64_t index = 0;
    RawMembers members;  // of content_block_start, raw
    std::string text;    // escaped, appended to the member
    std::string thinking;
    std::string signature;
    std::string partial_json;  // escaped pieces of `input`
    std::string citations;     // elements
    std::string unknown;       // elements: deltas of a type that this build does not know
  };
  struct Event;

  Outcome OnStart(absl::string_view message);
  Outcome OnBlockStart(const Event& event);
  Outcome OnBlockDelta(const Event& event);
  Outcome OnMessageDelta(const Event& event);
  // The members of a raw object.
  RawMembers MembersOf(absl::string_view raw);
  void MergeUsage(absl::string_view raw);
  Block* BlockAt(int64_t index, bool make);
  void AppendBlock(const Block& block, std::string* out) const;

  RawMembers message_;
  RawMembers usage_;
  std::vector<Block> blocks_;
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_MESSAGE_ASSEMBLER_H_
