#include "common/outcome/error_class.h"

#include <cstddef>
#include <iterator>

namespace headrace {
namespace {

using enum ErrorClass;
using A = AttemptRule;
using S = StopRule;

constexpr ErrorClassInfo kTable[] = {
    {kNone, "none", A::kFinal, false, S::kNothing, "no error"},
    {kRateLimited, "rate_limited", A::kThrottle, true, S::kNothing, "the provider's rate limit"},
    {kRamp, "ramp", A::kThrottle, true, S::kNothing, "the rate grew faster than allowed"},
    {kOverloaded, "overloaded", A::kThrottle, true, S::kNothing, "the provider is overloaded"},
    {kConnect, "connect", A::kRetry, true, S::kNothing, "no connection could be made"},
    {kConnectionLost, "connection_lost", A::kRetryOnce, true, S::kNothing,
     "the connection broke after the request was sent; it may have been billed"},
    {kTimeout, "timeout", A::kRetryOnce, true, S::kNothing, "an attempt ran into a time limit"},
    {kServerError, "server_error", A::kRetry, true, S::kNothing, "the provider failed"},
    {kIncomplete, "incomplete", A::kRetry, true, S::kNothing,
     "the answer ended before its end marker"},
    {kInvalidResponse, "invalid_response", A::kRetry, true, S::kNothing,
     "the answer is not what the API promises"},
    {kEmptyAnswer, "empty_answer", A::kFinal, false, S::kNothing, "the model returned nothing"},
    {kBadRequest, "bad_request", A::kFinal, false, S::kNothing,
     "the provider rejects this request"},
    {kNeverFits, "never_fits", A::kFinal, false, S::kNothing, "larger than a limit"},
    {kContentFilter, "content_filter", A::kFinal, false, S::kNothing,
     "blocked by a content filter"},
    {kRefusal, "refusal", A::kFinal, false, S::kNothing, "the model refused"},
    {kConfig, "config", A::kFinal, false, S::kModelIfRepeated,
     "the model's configuration is wrong for every item"},
    {kAuth, "auth", A::kFinal, false, S::kAccount, "the provider rejects the key"},
    {kNoMoney, "no_money", A::kFinal, false, S::kAccount, "credit or spend limit used up"},
    {kBadRow, "bad_row", A::kFinal, false, S::kNothing, "the row gives no request"},
    {kDeadline, "deadline", A::kFinal, true, S::kNothing, "the item's total time is over"},
    {kBatchDeadline, "batch_deadline", A::kFinal, true, S::kNothing,
     "the batch's deadline came while the call was under way"},
    {kPoison, "poison", A::kFinal, false, S::kNothing, "its workers died"},
    {kCancelled, "cancelled", A::kFinal, true, S::kNothing, "stopped while under way"},
    {kInternal, "internal", A::kFinal, true, S::kNothing, "a bug in headrace"},
    {kTruncatedOutput, "truncated_output", A::kFinal, false, S::kNothing,
     "the output limit cut the value"},
    {kSchema, "schema", A::kFinal, false, S::kModelAtOnce,
     "the provider refuses the schema of the answer"},
};

constexpr bool TableIsIndexedByClass() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].error_class) != i) return false;
  }
  return true;
}
static_assert(TableIsIndexedByClass());

}  // namespace

const ErrorClassInfo& GetErrorClassInfo(ErrorClass error_class) {
  const auto index = static_cast<size_t>(error_class);
  return index < std::size(kTable) ? kTable[index] : kTable[static_cast<size_t>(kInternal)];
}

absl::string_view ErrorClassName(ErrorClass error_class) {
  const auto index = static_cast<size_t>(error_class);
  return index < std::size(kTable) ? kTable[index].name : "unknown";
}

std::optional<ErrorClass> ErrorClassFromName(absl::string_view name) {
  for (const ErrorClassInfo& info : kTable) {
    if (info.name == name) return info.error_class;
  }
  return std::nullopt;
}

ErrorClass ErrorClassFromWire(uint32_t value) {
  return value < std::size(kTable) ? static_cast<ErrorClass>(value) : kInternal;
}

absl::Span<const ErrorClassInfo> AllErrorClasses() { return kTable; }

}  // namespace headrace
