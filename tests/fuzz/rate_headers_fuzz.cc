// Whatever a header says, a wait is between zero and a year and a count is not negative.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "worker/provider/classify.h"
#include "worker/provider/rate_headers.h"

namespace {

namespace provider = headrace::provider;

void CheckWait(const std::optional<absl::Duration>& wait) {
  if (!wait) return;
  HR_CHECK(*wait >= absl::ZeroDuration() && *wait <= provider::kLongestReset)
      << absl::FormatDuration(*wait);
}

void CheckLimit(const provider::RateHeaders::Limit& limit) {
  HR_CHECK(!limit.limit || *limit.limit > 0) << *limit.limit;
  HR_CHECK(!limit.remaining || *limit.remaining >= 0) << *limit.remaining;
  CheckWait(limit.reset);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::Time now = absl::FromUnixSeconds(1760000000);
  CheckWait(provider::ParseReset(text, now));
  CheckWait(provider::ParseUnitDuration(text));
  CheckWait(provider::WaitInText(text));
  CheckWait(provider::WaitInText("try again in " + text));
  provider::RequestedExceedsLimit(text);
  for (const char* name : {"retry-after", "retry-after-ms"}) {
    CheckWait(provider::ParseRetryAfter({{"date", text}, {name, text}}, now));
  }
  headrace::http::Headers headers;
  for (const char* field : {"limit", "remaining", "reset"}) {
    headers.emplace_back(std::string("x-ratelimit-") + field + "-requests", text);
    headers.emplace_back(std::string("anthropic-ratelimit-input-tokens-") + field, text);
    headers.emplace_back(std::string("ratelimitbysize-") + field, text);
  }
  const provider::RateHeaders rate = provider::ParseRateHeaders(headers, now);
  CheckLimit(rate.requests);
  CheckLimit(rate.tokens);
  CheckLimit(rate.input_tokens);
  CheckLimit(rate.output_tokens);
  return 0;
}
