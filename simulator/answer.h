// The text of answers and its form in each dialect. The text is a pure function of the seed and the
// request's hash, so the same request gets the same answer in every run.
#ifndef HEADRACE_SIMULATOR_ANSWER_H_
#define HEADRACE_SIMULATOR_ANSWER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace::simulator {

enum class Endpoint : uint8_t {
  kChat,         // POST /v1/chat/completions
  kCompletions,  // POST /v1/completions
  kEmbeddings,   // POST /v1/embeddings
  kMessages,     // POST /v1/messages (Anthropic)
  kModels,       // GET /v1/models
  kTruth,        // GET /truth
  kTruthReset,   // POST /truth/reset
  kUnknown,
};

inline bool IsAnthropic(Endpoint endpoint) { return endpoint == Endpoint::kMessages; }
inline bool IsGeneration(Endpoint endpoint) {
  return endpoint == Endpoint::kChat || endpoint == Endpoint::kCompletions ||
         endpoint == Endpoint::kMessages;
}

// Everything that decides the bytes of an answer.
struct AnswerSpec {
  Endpoint endpoint = Endpoint::kChat;
  std::string model;  // JSON-escaped
  uint64_t hash = 0;  // of the seed and the request
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of these, found in the prompt cache
  int64_t completion_tokens = 0;  // at least 1; per choice
  bool cut = false;               // ended at max_tokens: finish reason "length" or "max_tokens"
  bool include_usage = false;     // streams of OpenAI: a usage chunk before [DONE]
  int64_t choices = 1;
  int64_t inputs = 1;      // embeddings
  std::string first_word;  // JSON-escaped; replaces the first token when not empty (faults)
};

// The `index`-th token of the answer as JSON-escaped UTF-8: a word with a leading space, except the
// first. One token is one word, so usage can be checked by counting.
absl::string_view Token(const AnswerSpec& spec, int64_t index);

// Appends the whole text, JSON-escaped.
void AppendText(const AnswerSpec& spec, std::string* out);

// Appends the body of a response that is no stream.
void AppendBody(const AnswerSpec& spec, std::string* out);

// Renders a stream event by event, with LF line ends.
class EventWriter {
 public:
  explicit EventWriter(AnswerSpec spec);

  // Appends the events of the next token to *out: with the first, what opens the stream; with the
  // last, what closes it. False when there is nothing left and nothing was appended.
  bool Next(std::string* out);

  int64_t sent_tokens() const { return next_; }
  const AnswerSpec& spec() const { return spec_; }

 private:
  void OpenAiToken(std::string* out);
  void AnthropicToken(std::string* out);
  void OpenAiEnd(std::string* out);
  void AnthropicEnd(std::string* out);

  const AnswerSpec spec_;
  std::string head_;  // of each event, up to the text
  std::string tail_;  // after the text
  int64_t next_ = 0;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_ANSWER_H_
