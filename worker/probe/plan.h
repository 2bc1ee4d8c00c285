// The order of the probe's experiments, as a pure state machine: it is told of each answer and says
// what to ask next. No clock, no I/O.
//
//   kHello    two small requests: is it a provider, which headers are there
//   kCharge   prompt short or long, max_tokens small or large, answer short or longer
//   kRefused  three wrong requests at once, then a good one
//   kWatch    one large charge, then small requests with growing pauses, until it is clear how the
//             quota comes back, for a little more than a minute at most
//   kExhaust  only when allowed: many at once, until the provider refuses
//   kReopen   then: when is something let through again, and how much at once
//
// Headers that are not there end the plan after kCharge's first half, since nothing more can be
// seen; kExhaust goes on without them.
#ifndef HEADRACE_WORKER_PROBE_PLAN_H_
#define HEADRACE_WORKER_PROBE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "worker/probe/exchange.h"

namespace headrace::probe {

struct PlanOptions {
  int max_requests = 40;         // at least kFewestRequests
  int64_t max_tokens = 100'000;  // prompts and the longest possible answers together
  bool exhaust = false;          // may use the quota up, until a 429
};
inline constexpr int kFewestRequests = 6;

enum class PlanEnd : uint8_t {
  kNotYet,
  kDone,
  kRequests,     // max_requests are used
  kTokens,       // the next request might go beyond max_tokens
  kQuotaLow,     // nearly nothing left, and it does not come back; without exhaust
  kThrottled,    // refused for the rate again and again, without exhaust
  kCredentials,  // bad key, no permission
  kMoney,        // no credit, spend limit, quota of the day
  kConfig,       // unknown model and the like
  kUnreachable,  // no connection
  kNoProvider,   // answers, but not as a provider does
  kErrors,       // several answers in a row that were none
};

class Plan {
 public:
  explicit Plan(const PlanOptions& options) : options_(options) {}

  // The next step, after all answers of the one before were added. Absent at the end: see end().
  std::optional<Ask> Next();
  // An answer to a copy of the last step.
  void Add(Answer answer);

  PlanEnd end() const { return end_; }
  const std::string& why() const { return why_; }  // for people; empty when done
  const std::vector<Answer>& answers() const { return answers_; }
  // By usage where known, else the most possible.
  int64_t tokens_at_most() const { return tokens_; }
  // Newer models of openai.com refuse max_tokens and want another name for it.
  bool completion_tokens() const { return completion_tokens_; }

 private:
  // In their order.
  enum class Stage : uint8_t { kHello, kCharge, kRefused, kWatch, kExhaust, kReopen, kOver };

  // Longer waits are not sat out: a provider that asks for more does not count per minute.
  static constexpr absl::Duration kLongestPause = absl::Seconds(70);

  void Stop(PlanEnd end, std::string why);
  // What follows from an answer: the end, another try, another size. In plan_answers.cc.
  void React(const Answer& answer);
  void OnRefused(const Answer& answer);
  void OnThrottled(const Answer& answer);
  void OnFailed(const Answer& answer);
  std::optional<Ask> Propose();
  std::optional<Ask> Hello();
  std::optional<Ask> Charge();
  std::optional<Ask> Refused();
  std::optional<Ask> Watch();
  std::optional<Ask> Exhaust();
  std::optional<Ask> Reopen();
  // Lets the quota recover first when `ask` would nearly use it up.
  std::optional<Ask> Guarded(Ask ask);
  bool Fits(Ask* ask);
  void ChooseSizes();
  bool Decided() const;
  bool HasRemaining() const;
  double Now() const;

  const PlanOptions options_;
  std::vector<Answer> answers_;
  Stage stage_ = Stage::kHello;
  PlanEnd end_ = PlanEnd::kNotYet;
  std::string why_;

  int requests_ = 0;
  int64_t tokens_ = 0;
  int step_ = 0;  // within the stage
  bool sized_ = false;
  int64_t short_words_ = 12;
  int64_t long_words_ = 1100;
  int64_t large_max_ = 4096;
  bool completion_tokens_ = false;
  int failures_ = 0;                     // in a row
  int throttles_ = 0;                    // without kExhaust
  bool repeat_ = false;                  // the last step was refused for its size: again, smaller
  std::optional<absl::Duration> pause_;  // that a 429 or an overload asked for
  bool recovered_ = false;               // a guard has waited already
  double watch_from_s_ = 0;
  double refused_at_s_ = 0;
  int reopen_tries_ = 0;
};

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_PLAN_H_
