// A provider without a network, for simulations in virtual time: it answers calls after a while or
// not at all, by chance from a seed, and counts what it was asked and what it answered.
#ifndef HEADRACE_TESTS_SUPPORT_FAKE_PROVIDER_H_
#define HEADRACE_TESTS_SUPPORT_FAKE_PROVIDER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "worker/http/http.h"
#include "worker/session/worker.h"

namespace headrace {

// What the provider does with calls, by chance.
struct Weather {
  double server_error = 0;      // 500
  double rate_limited = 0;      // 429
  double lost = 0;              // the connection breaks after the request was sent
  double bad_request = 0;       // by item, always: 400
  double slow = 0;              // takes longer than any deadline
  int unauthorized_after = -1;  // from this call on: 401
  bool unknown_model = false;   // always 404
  bool bad_schema = false;      // always 400: the provider refuses the schema
  bool broken_row = false;      // row 3 always gets 500
  bool refused_row = false;     // row 3 always gets 503
  bool flaky = false;           // the first call of each item gets 500
  // How long calls take, of all models and of single ones.
  std::pair<absl::Duration, absl::Duration> latency{absl::Milliseconds(5), absl::Seconds(2)};
  std::map<std::string, std::pair<absl::Duration, absl::Duration>> latency_of;
  // The text of the answer to a call whose body has the key; "hi" without one.
  std::map<std::string, size_t> answer_bytes;
  bool two_troubles = false;  // by item, always: rows with an odd number 500, the others 404
  // No connection can be made in between, counted from the start.
  absl::Duration outage_begin = absl::InfiniteDuration();
  absl::Duration outage_end = absl::InfiniteDuration();
  int64_t slots = 0;       // more calls wait for their turn; 0: none do
  bool no_client = false;  // the worker cannot make a client, e.g. for want of a CA bundle
};

// Rows are "question N of many", models "model-N".
class FakeProvider {
 public:
  FakeProvider(Reactor* reactor, uint64_t seed, Weather weather);

  // `held_until`, if any, is looked at when the call is to be sent and when its answer has come:
  // a process that is frozen sends and sees nothing before that time.
  Task<http::CallResult> Call(const http::Request* request, http::Receiver* receiver,
                              StopToken stop, const MonoTime* held_until = nullptr);
  void set_weather(Weather weather) { weather_ = std::move(weather); }

  int calls = 0;
  int in_flight = 0;
  int in_flight_peak = 0;
  int answered_ok = 0;
  std::map<std::string, int> calls_by_key;      // by idempotency key
  std::map<std::string, int> ok_by_key;         // answers that were paid for
  std::map<std::string, MonoTime> last_answer;  // by model

 private:
  void Answer(int call, const http::Request& request, http::Receiver* receiver,
              http::CallResult* result);
  Task<bool> Thaw(const MonoTime* held_until, StopToken stop);

  Reactor* const reactor_;
  Random random_;
  Weather weather_;
  std::set<std::string> seen_;
  Semaphore slots_;  // of the weather at the start
  const MonoTime begun_;
};

// The surroundings of one simulated worker process: its client calls a FakeProvider, its pools are
// in its own memory.
class FakeEnvironment final : public WorkerEnvironment {
 public:
  FakeEnvironment(Reactor* reactor, FakeProvider* provider, bool no_client = false)
      : reactor_(reactor), provider_(provider), no_client_(no_client) {}

  absl::StatusOr<Secret> ReadKey(const v1::ApiKeySource&) override { return Secret("sk-test"); }
  absl::StatusOr<std::unique_ptr<http::Engine>> MakeClient(const v1::ModelSpec&) override;
  absl::StatusOr<std::unique_ptr<quota::PoolStore>> MakePools(const v1::JobSpec& job) override;
  // Only where calls in flight are found by trying; other pools are not divided here.
  std::vector<quota::PoolSpec> PoolsOfSharer(const v1::JobSpec& job, int64_t sharers) override;

  // The process was killed: what is left of it sends nothing any more.
  void Kill() { dead_ = true; }
  // The process is frozen until then.
  void HoldUntil(MonoTime when) { held_until_ = std::max(held_until_, when); }
  // Answers that it paid for.
  int64_t paid() const { return paid_; }
  // Told the idempotency key of each call that is about to be sent.
  void set_on_call(absl::AnyInvocable<void(const std::string& key)> on_call) {
    on_call_ = std::move(on_call);
  }

 private:
  class Engine;

  Reactor* const reactor_;
  FakeProvider* const provider_;
  const bool no_client_;
  bool dead_ = false;
  int64_t paid_ = 0;
  MonoTime held_until_;
  absl::AnyInvocable<void(const std::string& key)> on_call_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_FAKE_PROVIDER_H_
