// A provider in virtual time that counts in a way that a test chooses, and a probe of it without
// sockets. The meters are the simulator's, written without knowledge of the probe.
#ifndef HEADRACE_TESTS_UNIT_WORKER_PROBE_PROVIDER_WORLD_H_
#define HEADRACE_TESTS_UNIT_WORKER_PROBE_PROVIDER_WORLD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "simulator/quota_mechanics.h"
#include "worker/probe/findings.h"
#include "worker/probe/plan.h"
#include "worker/probe/theory.h"

namespace headrace::probe {

struct ProviderOptions {
  std::vector<simulator::LimitSpec> limits;
  int64_t requests_per_day = 0;  // a bucket in place of the first limit; 0: none
  bool rolling = false;          // windows begin with the first request after the last one's end
  AtSend at_send = AtSend::kLarger;
  AtEnd at_end = AtEnd::kKept;
  Shown shown = Shown::kCharged;
  bool refused_count = true;
  bool throttled_count = true;
  bool takes_any_temperature = false;
  bool headers = true;
  bool resets = true;
  bool reset_in_seconds = false;  // rounded up
  int64_t quantum = 1;            // what is left is rounded to multiples of this
  double prompt_estimate = 1;     // of the charge at the start, as a share of the usage
  int64_t cached_from = 0;        // prompts beyond this are cached when seen before; 0: never
  int64_t most_output = 0;        // a larger max_tokens is refused; 0: none is
  bool retry_after = true;
  bool figures = true;  // in the message of a 429
  int64_t least_answer = 1;
  int64_t most_answer = 12;
  absl::Duration least_latency = absl::Milliseconds(150);
  absl::Duration most_latency = absl::Milliseconds(900);
  absl::Duration jitter = absl::Milliseconds(40);  // of the way there
  double outsider_tokens_per_s = 0;
  uint64_t seed = 1;
};

// Tokens and requests that count like OpenAI's.
ProviderOptions OpenAiLike();

class ProviderWorld {
 public:
  explicit ProviderWorld(const ProviderOptions& options);

  // Runs the plan to its end.
  void Run(Plan* plan);
  int requests() const { return requests_; }
  double now_s() const { return now_; }

 private:
  struct Pending {
    Answer answer;
    double arrived = 0;
    std::vector<int64_t> charged;
    int64_t input = 0;
    int64_t output = 0;
    int64_t cached = 0;
  };

  Pending Send(const Ask& ask);
  void Arrive(Pending* pending);
  void End(Pending* pending);
  int64_t AtSendCost(simulator::LimitKind kind, const Pending& pending) const;
  int64_t AtEndCost(simulator::LimitKind kind, const Pending& pending, int64_t charged) const;
  void Show(double at, Answer* answer);
  void Outsider(double at);
  MonoTime At(double s);

  const ProviderOptions options_;
  Random random_;
  std::vector<std::unique_ptr<simulator::Meter>> meters_;
  double now_ = 0;
  double outsider_at_ = 0;
  double last_ = 0;
  bool long_seen_ = false;
  int requests_ = 0;
};

}  // namespace headrace::probe

#endif  // HEADRACE_TESTS_UNIT_WORKER_PROBE_PROVIDER_WORLD_H_
