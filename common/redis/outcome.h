// How a command ended, for its caller.
#ifndef HEADRACE_COMMON_REDIS_OUTCOME_H_
#define HEADRACE_COMMON_REDIS_OUTCOME_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/redis/error.h"
#include "common/redis/reply.h"

namespace headrace::redis {

struct Outcome {
  Error error = Error::kNone;
  Reply reply;       // when ok(); errors may still be inside an array
  std::string text;  // when not: what went wrong, for people; holds no secret
  // When not ok(): false says for certain that no server executed the command. What is idempotent
  // may be sent again either way; anything else only when this is false.
  bool may_have_run = false;

  bool ok() const { return error == Error::kNone; }
  // By ErrorStatus().
  absl::Status status() const { return ErrorStatus(error, text); }
};

// An outcome without a reply.
inline Outcome Failed(Error error, std::string text, bool may_have_run = false) {
  Outcome outcome;
  outcome.error = error;
  outcome.text = std::move(text);
  outcome.may_have_run = may_have_run;
  return outcome;
}

// The outcome of a command that got `reply`.
Outcome OutcomeOf(Reply reply);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_OUTCOME_H_
