// Runs a plan against a provider: the probe's rim, with HTTP and the clock. One reactor thread.
#ifndef HEADRACE_WORKER_PROBE_PROBER_H_
#define HEADRACE_WORKER_PROBE_PROBER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/secret.h"
#include "worker/http/http.h"
#include "worker/probe/plan.h"
#include "worker/provider/codec.h"

namespace headrace::probe {

struct ProberOptions {
  std::string provider = "openai";  // or "anthropic"
  std::string model;
  std::string endpoint;
  Secret key;
  absl::Duration call_timeout = absl::Seconds(60);
};

class Prober {
 public:
  // `engine` must belong to `reactor`; both outlive the prober.
  Prober(Reactor* reactor, http::Engine* engine, ProberOptions options);

  // InvalidArgument when no request can be made: unknown dialect, bad endpoint, bad key.
  absl::Status Check();
  // Asks until the plan ends or `stop`. `told` hears of each answer. Calls under way are cancelled
  // by the stop; what came before stays in the plan.
  Task<void> Run(Plan* plan, std::function<void(const Answer&)> told, StopToken stop);

 private:
  absl::StatusOr<const provider::Codec*> CodecFor(const Ask& ask, bool completion_tokens);
  Task<void> Call(const Plan* plan, Ask ask, Answer* answer, StopToken stop);
  double Seconds(MonoTime at) const;

  Reactor* const reactor_;
  http::Engine* const engine_;
  const ProberOptions options_;
  const MonoTime start_;
  std::map<std::string, std::unique_ptr<provider::Codec>> codecs_;  // by parameters
};

// A prompt of about `words` tokens that asks for one word or for some hundred; always the same.
std::string PromptOfWords(int64_t words, bool long_answer);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_PROBER_H_
