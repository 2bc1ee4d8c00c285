#include "worker/probe/theory_names.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace headrace::probe {

std::string CountingName(const Theory& theory) {
  const std::string period = theory.period_s == kMinuteS ? "minute"
                             : theory.period_s == kDayS  ? "day"
                             : theory.period_s == kHourS
                                 ? "hour"
                                 : absl::StrCat(static_cast<int64_t>(theory.period_s), "s");
  switch (theory.counting) {
    case Counting::kBucket:
      return theory.period_s == kMinuteS ? "continuous" : absl::StrCat("continuous, per ", period);
    case Counting::kFixed:
      return absl::StrCat("fixed ", period);
    case Counting::kRolling:
      return absl::StrCat("rolling ", period);
    case Counting::kSliding:
      return absl::StrCat("sliding ", period);
  }
  return "";
}

absl::string_view WindowKey(const Theory& theory) {
  if (theory.period_s == kDayS) return "day";
  if (theory.period_s == kHourS) return "hour";
  if (theory.counting == Counting::kBucket) return "continuous";
  return theory.period_s == kMinuteS ? "minute" : theory.period_s == 10 ? "10s" : "1s";
}

absl::string_view ChargeKey(const Theory& theory) {
  if (theory.at_end != AtEnd::kKept) return "actuals";
  switch (theory.at_send) {
    case AtSend::kNothing:
      return "nothing";
    case AtSend::kOne:
      return "one";
    case AtSend::kPrompt:
      return "prompt";
    case AtSend::kMaxTokens:
    case AtSend::kLarger:
      return "larger";
    case AtSend::kSum:
      return "sum";
  }
  return "";
}

absl::string_view AtSendName(AtSend at_send) {
  switch (at_send) {
    case AtSend::kNothing:
      return "nothing";
    case AtSend::kOne:
      return "one";
    case AtSend::kPrompt:
      return "the prompt";
    case AtSend::kMaxTokens:
      return "max_tokens";
    case AtSend::kLarger:
      return "the larger of prompt and max_tokens";
    case AtSend::kSum:
      return "prompt plus max_tokens";
  }
  return "";
}

absl::string_view AtEndName(AtEnd at_end) {
  switch (at_end) {
    case AtEnd::kKept:
      return "kept";
    case AtEnd::kUsage:
      return "corrected to the usage";
    case AtEnd::kUncached:
      return "corrected to the usage without cached tokens";
  }
  return "";
}

absl::string_view ShownName(Shown shown) {
  switch (shown) {
    case Shown::kCharged:
      return "after its own charge";
    case Shown::kBefore:
      return "before its own charge";
    case Shown::kEnd:
      return "at the end of the call";
  }
  return "";
}

}  // namespace headrace::probe
