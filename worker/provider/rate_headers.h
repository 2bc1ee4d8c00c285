// Reads what providers say about limits and waits, in every form that was seen in the wild
// (docs/retries.md lists them). Total functions: nonsense is "unknown", nothing is ever negative.
#ifndef HEADRACE_WORKER_PROVIDER_RATE_HEADERS_H_
#define HEADRACE_WORKER_PROVIDER_RATE_HEADERS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

// A wait beyond this is taken for nonsense (a year; chosen, not measured).
inline constexpr absl::Duration kLongestReset = absl::Hours(24 * 366);

// "6m0s", "1m30.5s", "500ms", "60", "1.5", RFC 3339, an HTTP date, epoch seconds or milliseconds:
// the wait from `now` on. A time in the past is zero.
std::optional<absl::Duration> ParseReset(absl::string_view text, absl::Time now);

// The three date forms of RFC 9110 section 5.6.7.
std::optional<absl::Time> ParseHttpDate(absl::string_view text);

// "41.250000001s" of google.protobuf.Duration, and the Go-style forms.
std::optional<absl::Duration> ParseUnitDuration(absl::string_view text);

// A count: plain or with thousands separators. Absent for 0, -1 and nonsense when `positive`.
std::optional<int64_t> ParseLimit(absl::string_view text, bool positive);

// The time at the server: its Date header, else `local`. Waits until a date are taken from it, so
// that a wrong local clock does no harm (case B1).
absl::Time ServerTime(const http::Headers& headers, absl::Time local);

// The wait that an answer asks for: retry-after-ms, else retry-after. Absent without either.
std::optional<absl::Duration> ParseRetryAfter(const http::Headers& headers, absl::Time local);

// The limits that an answer reports. `local`: the wall clock, used when there is no Date header.
RateHeaders ParseRateHeaders(const http::Headers& headers, absl::Time local);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_RATE_HEADERS_H_
