#include "worker/probe/exchange.h"

#include "absl/strings/match.h"

namespace headrace::probe {

absl::string_view PurposeName(Purpose purpose) {
  switch (purpose) {
    case Purpose::kHello:
      return "first answers";
    case Purpose::kCharge:
      return "what is charged";
    case Purpose::kRefused:
      return "wrong requests";
    case Purpose::kWatch:
      return "how it comes back";
    case Purpose::kExhaust:
      return "until it refuses";
    case Purpose::kReopen:
      return "after a refusal";
  }
  return "";
}

int64_t TokensAtMost(const Ask& ask) {
  // What a prompt has beyond its filler: instruction and the API's own. Chosen, more than enough.
  constexpr int64_t kPromptOverhead = 60;
  return ask.prompt_words * 3 / 2 + kPromptOverhead + ask.max_tokens;
}

const provider::RateHeaders::Limit& LimitOf(const Answer& answer, quota::Dimension dimension) {
  switch (dimension) {
    case quota::Dimension::kRequests:
      return answer.rate.requests;
    case quota::Dimension::kInputTokens:
      return answer.rate.input_tokens;
    case quota::Dimension::kOutputTokens:
      return answer.rate.output_tokens;
    default:
      return answer.rate.tokens;
  }
}

double PromptTokens(const Answer& answer) {
  if (answer.usage.prompt_tokens) return static_cast<double>(*answer.usage.prompt_tokens);
  return answer.expected_prompt_tokens;
}

bool IsLimitHeader(absl::string_view name) {
  return absl::StrContains(name, "ratelimit") || absl::StrContains(name, "rate-limit") ||
         absl::StartsWith(name, "retry-after") || absl::StartsWith(name, "anthropic-priority") ||
         absl::StartsWith(name, "anthropic-fast") || name == "x-should-retry";
}

}  // namespace headrace::probe
