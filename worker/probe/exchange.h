// What the probe asks a provider, and what it keeps of each answer. Times are seconds since the
// probe began, on a steady clock: they only go into arithmetic.
#ifndef HEADRACE_WORKER_PROBE_EXCHANGE_H_
#define HEADRACE_WORKER_PROBE_EXCHANGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/outcome/error_class.h"
#include "common/outcome/result_line.h"
#include "common/quota/observations.h"
#include "common/quota/quota.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"

namespace headrace::probe {

// Which part of the plan a request belongs to.
enum class Purpose : uint8_t {
  kHello,    // is it a provider, which headers does it send
  kCharge,   // short and long prompts, small and large max_tokens
  kRefused,  // a request that is wrong on purpose
  kWatch,    // small requests with pauses: how does the quota come back
  kExhaust,  // many at once, until the provider refuses
  kReopen,   // after a refusal: when is something let through, and how much
};
absl::string_view PurposeName(Purpose purpose);

// One step of the plan: `copies` requests at the same time, `wait` after the last answer.
struct Ask {
  Purpose purpose = Purpose::kHello;
  int64_t prompt_words = 0;  // of filler in the prompt; a word is about one token
  int64_t max_tokens = 16;
  bool long_answer = false;  // some hundred tokens instead of one
  bool wrong = false;        // with a parameter that the provider has to refuse
  int copies = 1;
  absl::Duration wait{};
};

// Tokens of one copy, prompt and answer, that it may cost at most.
int64_t TokensAtMost(const Ask& ask);

// Whether a request reached the counters of the provider.
enum class Fate : uint8_t {
  kAnswered,   // with a model's answer, good or not
  kRefused,    // as wrong: 400, 404, 413, 422
  kThrottled,  // 429, or a refusal that means the same
  kFailed,     // 5xx, lost, timed out: nobody knows
};

struct Answer {
  Ask ask;
  double sent_s = 0;  // its headers went onto the wire
  double head_s = 0;  // the head of the answer came
  double end_s = 0;
  bool overlapped = false;  // another request of ours was under way

  int status = 0;
  ErrorClass error_class = ErrorClass::kNone;
  std::string message;  // of an error
  Fate fate = Fate::kFailed;
  Usage usage;
  provider::RateHeaders rate;
  http::Headers limit_headers;  // those that speak of limits and waits, as they came
  std::optional<absl::Duration> retry_after;
  std::optional<quota::ThrottleFigures> figures;  // in the message of a 429
  std::optional<quota::Dimension> throttled_by;   // that the 429 names
  std::optional<absl::Time> server_time;          // its Date header
  double expected_prompt_tokens = 0;              // by our own estimate
};

// The limits that headers may speak of.
inline constexpr quota::Dimension kToldDimensions[] = {
    quota::Dimension::kRequests, quota::Dimension::kTokens, quota::Dimension::kInputTokens,
    quota::Dimension::kOutputTokens};
// What the headers of an answer say of one of them.
const provider::RateHeaders::Limit& LimitOf(const Answer& answer, quota::Dimension dimension);

// Tokens of the prompt: by the answer's usage, else estimated.
double PromptTokens(const Answer& answer);

// "retry-after", "x-ratelimit-...": whether a header (lower case) speaks of limits or waits.
bool IsLimitHeader(absl::string_view name);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_EXCHANGE_H_
