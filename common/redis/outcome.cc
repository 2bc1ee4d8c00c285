#include "common/redis/outcome.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace headrace::redis {

Outcome OutcomeOf(Reply reply) {
  Outcome outcome;
  if (!reply.is_error()) {
    outcome.reply = std::move(reply);
    return outcome;
  }
  outcome.error = ClassifyErrorReply(reply.text);
  outcome.text = absl::CHexEscape(reply.text);
  // A script that failed halfway is not rolled back.
  outcome.may_have_run = outcome.error == Error::kServer;
  if (outcome.error == Error::kConfiguration) {
    const std::string advice = ConfigurationAdvice(reply.text);
    if (!advice.empty()) absl::StrAppend(&outcome.text, " (", advice, ")");
  }
  return outcome;
}

}  // namespace headrace::redis
