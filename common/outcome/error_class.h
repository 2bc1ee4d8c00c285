// The classes in which an item or an attempt can fail, and the one table that says what each means:
// for retries, for later passes, for the quota, and for the whole run. Sources of the rules:
// docs/retries.md.
#ifndef HEADRACE_COMMON_OUTCOME_ERROR_CLASS_H_
#define HEADRACE_COMMON_OUTCOME_ERROR_CLASS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace headrace {

// Values go over the wire and into the journal: never renumber, only append.
enum class ErrorClass : uint8_t {
  kNone = 0,
  // The provider says "later".
  kRateLimited = 1,  // 429 of a rate dimension
  kRamp = 2,         // growing too fast: slow_down, burst rate, acceleration limit
  kOverloaded = 3,   // the provider as a whole: 503, 529
  // The network.
  kConnect = 4,         // no connection: surely not sent
  kConnectionLost = 5,  // sent, answer lost: perhaps processed and billed
  kTimeout = 6,         // connect, first byte, silence or total timer of one attempt
  // The answer.
  kServerError = 7,      // other 5xx, 408, 409, 425
  kIncomplete = 8,       // the stream or the body ended before its end marker
  kInvalidResponse = 9,  // no JSON, no choices, NaN, bad UTF-8, too large
  kEmptyAnswer = 10,     // finished with nothing in it
  // This request, whenever it is sent.
  kBadRequest = 11,  // 400, 413, 422 about this item
  kNeverFits = 12,   // larger than a limit of the provider or of the pool; context length
  kContentFilter = 13,
  kRefusal = 14,
  kConfig = 15,  // the same for every item: unknown model, unsupported parameter
  // This account.
  kAuth = 16,     // bad key, no permission
  kNoMoney = 17,  // credit, spend limit, daily quota
  // headrace itself.
  kBadRow = 18,           // the row cannot be turned into a request
  kDeadline = 19,         // the item's own total time is over
  kBatchDeadline = 20,    // the batch's deadline cut a call in flight
  kPoison = 21,           // it killed its workers
  kCancelled = 22,        // stopped by policy or by a person while under way
  kInternal = 23,         // a bug of ours
  kTruncatedOutput = 24,  // finish_reason length where the caller asked for a whole value
  kSchema = 25,           // the provider refuses the schema that the answer should have
};

// What a failed attempt leads to within its item.
enum class AttemptRule : uint8_t {
  kFinal,      // no other attempt would end differently
  kRetry,      // again, from the item's budget of attempts
  kRetryOnce,  // perhaps billed, or slow for a reason: one more attempt in all
  kThrottle,   // again after the wait; costs no attempt of the budget
};

// What a failure stops beyond its item.
enum class StopRule : uint8_t {
  kNothing,
  kModelIfRepeated,  // the same error N times with no success: the model's configuration is wrong
  kModelAtOnce,      // the same, but one is enough unless items bring what is wrong themselves
  kAccount,          // every model of the account, at once
};

struct ErrorClassInfo {
  ErrorClass error_class;
  absl::string_view name;  // in errors.jsonl, results.csv, metrics: stable
  AttemptRule attempt;
  bool next_pass;  // a compensation pass may succeed
  StopRule stop;
  absl::string_view meaning;  // one line for people
};

const ErrorClassInfo& GetErrorClassInfo(ErrorClass error_class);
// "none" for kNone, "unknown" for a value of a newer peer.
absl::string_view ErrorClassName(ErrorClass error_class);
std::optional<ErrorClass> ErrorClassFromName(absl::string_view name);
// kInternal for a value that this build does not know.
ErrorClass ErrorClassFromWire(uint32_t value);
absl::Span<const ErrorClassInfo> AllErrorClasses();

}  // namespace headrace

#endif  // HEADRACE_COMMON_OUTCOME_ERROR_CLASS_H_
