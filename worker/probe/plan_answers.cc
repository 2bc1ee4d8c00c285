// What a Plan makes of answers.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/probe/plan.h"

namespace headrace::probe {
namespace {

constexpr int kMostFailures = 3;   // in a row
constexpr int kMostThrottles = 3;  // before the quota may be used up

std::string Said(const Answer& answer) {
  std::string said = answer.status > 0 ? absl::StrCat("status ", answer.status) : "";
  if (!answer.message.empty()) absl::StrAppend(&said, said.empty() ? "" : ": ", answer.message);
  return said;
}

}  // namespace

void Plan::Add(Answer answer) {
  int64_t spent = TokensAtMost(answer.ask);
  if (answer.fate == Fate::kRefused || answer.fate == Fate::kThrottled) {
    spent = 0;
  } else if (answer.usage.prompt_tokens && answer.usage.completion_tokens) {
    spent = *answer.usage.prompt_tokens + *answer.usage.completion_tokens;
  }
  tokens_ += spent;
  answers_.push_back(std::move(answer));
  if (end_ == PlanEnd::kNotYet) React(answers_.back());
}

void Plan::React(const Answer& answer) {
  switch (answer.error_class) {
    case ErrorClass::kAuth:
      return Stop(PlanEnd::kCredentials,
                  absl::StrCat("the provider refuses the key: ", Said(answer)));
    case ErrorClass::kNoMoney:
      return Stop(PlanEnd::kMoney, absl::StrCat("the account is used up: ", Said(answer)));
    case ErrorClass::kConnect:
      return Stop(PlanEnd::kUnreachable,
                  absl::StrCat("the provider cannot be reached: ", answer.message));
    default:
      break;
  }
  switch (answer.fate) {
    case Fate::kAnswered:
      failures_ = 0;
      break;
    case Fate::kRefused:
      failures_ = 0;
      if (!answer.ask.wrong) OnRefused(answer);
      break;
    case Fate::kThrottled:
      OnThrottled(answer);
      break;
    case Fate::kFailed:
      OnFailed(answer);
      break;
  }
}

// A good request was taken for a wrong one: perhaps for what it says about the length of the
// answer.
void Plan::OnRefused(const Answer& answer) {
  const bool first = answers_.size() == 1;
  if (!completion_tokens_ && absl::StrContains(answer.message, "max_completion_tokens")) {
    completion_tokens_ = true;
    repeat_ = true;
  } else if (answer.ask.max_tokens == large_max_ && large_max_ > 64 && !first) {
    large_max_ /= 4;
    repeat_ = true;
  } else {
    Stop(PlanEnd::kConfig, absl::StrCat("the provider refuses the request: ", Said(answer)));
  }
}

void Plan::OnThrottled(const Answer& answer) {
  const Purpose purpose = answer.ask.purpose;
  if (purpose == Purpose::kExhaust || purpose == Purpose::kReopen) return;  // as it was meant
  repeat_ = true;
  pause_ = answer.retry_after.value_or(absl::Seconds(10));
  if (++throttles_ > kMostThrottles || *pause_ > kLongestPause) {
    Stop(PlanEnd::kThrottled, absl::StrCat("the quota is used up already: ", Said(answer)));
  }
}

void Plan::OnFailed(const Answer& answer) {
  const bool nonsense = answer.error_class == ErrorClass::kInvalidResponse ||
                        answer.error_class == ErrorClass::kServerError;
  if (answers_.size() == 1 && nonsense && answer.status > 0 && answer.status < 500) {
    return Stop(PlanEnd::kNoProvider,
                absl::StrCat("what answers there is no provider of this kind: ", Said(answer)));
  }
  repeat_ = true;
  pause_ = answer.retry_after.value_or(absl::Seconds(1 << failures_));
  if (++failures_ >= kMostFailures || *pause_ > kLongestPause) {
    Stop(PlanEnd::kErrors, absl::StrCat("the provider fails again and again: ", Said(answer)));
  }
}

}  // namespace headrace::probe
