// The text of an answer, out of a provider's response body as it was stored.
#ifndef HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_
#define HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/outcome/json_answer.h"

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
  // The text that Read() gave last is a refusal.
  bool refused() const;

  // Whether the answer in `body`, which ended with `finish_reason`, is JSON: see FindJson(). *text
  // becomes its text, into which the result points.
  JsonAnswer ReadJson(absl::string_view body, absl::string_view finish_reason, std::string* text);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_ANSWER_TEXT_H_
