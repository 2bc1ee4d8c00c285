// One table says what each error of a provider means: for the item, for the pool and for the run.
// docs/retries.md explains it; each row names its source.
#ifndef HEADRACE_WORKER_PROVIDER_CLASSIFY_H_
#define HEADRACE_WORKER_PROVIDER_CLASSIFY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/outcome/error_class.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "worker/http/http.h"
#include "worker/provider/provider_error.h"

namespace headrace::provider {

// Providers whose words mean something else than OpenAI's. Told by the endpoint's parsed host,
// never by a part of the URL (case I5).
enum class Vendor : uint8_t { kAny, kAzure, kDashScope };
Vendor VendorOfHost(absl::string_view host);

// A wait that throttled clients are commonly told; the OpenAI SDK honours waits up to it (quota.md
// 1.2).
inline constexpr absl::Duration kShortWait = absl::Minutes(2);
// A longer wait stops the account instead of holding every item asleep (case B2). Chosen.
inline constexpr absl::Duration kLongestWait = absl::Hours(1);

// Facts about an error that a rule may ask for.
enum Fact : uint32_t {
  kFactShortWait = 1u << 0,    // the server named a wait of at most kShortWait
  kFactLongWait = 1u << 1,     // ... of more than kLongestWait
  kFactDayWait = 1u << 2,      // ... of exactly 86,400 s
  kFactNoWait = 1u << 3,       // the server named no wait
  kFactOverLimit = 1u << 4,    // the message says Requested > Limit
  kFactPerDay = 1u << 5,       // a quotaId of a day
  kFactHtml = 1u << 6,         // the body is a web page: a gateway speaks, not the API
  kFactNoRetry = 1u << 7,      // x-should-retry: false
  kFactDoRetry = 1u << 8,      // x-should-retry: true
  kFactConfigParam = 1u << 9,  // `param` names a field that is the same for every item
};

// One row: all conditions that are set must hold. The first row that fits decides.
struct Rule {
  absl::string_view name;
  Vendor vendor = Vendor::kAny;
  absl::string_view statuses = {};  // "429", "400|422", "5xx"; empty: any
  absl::string_view words = {};  // one identifier equals one of these; a final * is "begins with"
  absl::string_view text = {};   // the message contains one of these
  uint32_t facts = 0;            // all of these
  ErrorClass error_class = ErrorClass::kServerError;
  std::optional<quota::Dimension> dimension = std::nullopt;  // of a rate limit
  absl::string_view source = {};
};
absl::Span<const Rule> AllRules();

// An answer that is an error, by its status or by what it says.
struct ErrorAnswer {
  Vendor vendor = Vendor::kAny;
  int http_status = 0;                     // of the response; 200 with an error inside is an error
  const http::Headers* headers = nullptr;  // may be null
  ProviderError error;                     // default when the body says nothing
  bool html = false;
  absl::Time local_time;  // wall clock, for dates when there is no Date header
};

struct Verdict {
  ErrorClass error_class = ErrorClass::kServerError;
  absl::string_view rule;  // name of the row that decided
  int status = 0;          // the HTTP status, or the one that the error stands for
  std::optional<absl::Duration> retry_after;
  std::optional<quota::Penalty::Kind> penalty;
  std::optional<quota::Dimension> dimension;
  quota::Settlement settlement = quota::Settlement::kUnknown;
  bool possibly_billed = false;
};

Verdict Classify(const ErrorAnswer& answer);

// The pool's part of a class: what it has to hear, how the reservation ends.
std::optional<quota::Penalty::Kind> PenaltyOf(ErrorClass error_class);

// "Limit 30000, Requested 34307" in an OpenAI rate-limit message (quota.md 1.4).
bool RequestedExceedsLimit(absl::string_view message);
// "Please try again in 1.146s", "retry after 12 seconds".
std::optional<absl::Duration> WaitInText(absl::string_view message);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_CLASSIFY_H_
