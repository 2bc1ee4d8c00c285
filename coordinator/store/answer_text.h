// The text of an answer, out of a provider's response body as it was stored.
#ifndef HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_
#define HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace {

// Keeps its buffers between answers. Not thread-safe.
class AnswerReader {
 public:
  AnswerReader();
  ~AnswerReader();

  // The first answer's text in `body`, which is JSON: OpenAI chat completions (a string or text
  // parts; the refusal when there is no content), completions and responses, Anthropic messages.
  // Empty when there is none (tool calls, errors, other shapes, no JSON).
  std::string Read(absl::string_view body);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_
