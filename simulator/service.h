// The provider's logic, without any transport: accounts and quotas, faults, barrier, truth, pacing.
// One reactor thread.
#ifndef HEADRACE_SIMULATOR_SERVICE_H_
#define HEADRACE_SIMULATOR_SERVICE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/async/reactor.h"
#include "common/base/random.h"
#include "simulator/account.h"
#include "simulator/exchange.h"
#include "simulator/options.h"
#include "simulator/plan.h"
#include "simulator/prompt_cache.h"
#include "simulator/tick_wheel.h"
#include "simulator/truth.h"

namespace headrace::simulator {

class Service;

// One request on its way to its end. States: held at the barrier, queued for a server, waiting for
// its head, sending, done. The transport owns it and must say Leave... through PeerGone() before
// destroying it early.
class Call final : public WheelNode {
 public:
  Call(Service* service, Responder* responder, Request request);
  ~Call() override;

  // The peer, or we, ended the exchange early. Does nothing after the end.
  void PeerGone(Gone how);

 private:
  friend class Service;
  enum class State : uint8_t { kHeld, kQueued, kWaiting, kSending, kDone };

  void OnTick(MonoTime now) override;
  void Play(Plan plan, MonoTime now);
  void SendHead(MonoTime now);
  void Step(MonoTime now);
  // Appends the next piece; false when there is none.
  bool NextPiece();
  void Finish(MonoTime now);
  void Close(MonoTime now, TokenUse use, bool failed);

  Service* const service_;
  Responder* const responder_;
  Request request_;
  Plan plan_;
  State state_ = State::kHeld;
  size_t next_piece_ = 0;
  MonoTime next_at_;
  // What has to be undone or settled at the end.
  bool counted_ = false;
  bool streaming_ = false;
  bool served_ = false;  // takes one of the servers
  uint64_t identity_ = 0;
  double phase_ = 0;  // of its stream, as a share of the interval
  Account* account_ = nullptr;
  Charge charge_;
};

class Service {
 public:
  // `options` must be valid.
  Service(Reactor* reactor, const SimulatorOptions& options);
  ~Service();

  // Takes a complete request. The call may be done already when this returns. `responder` must
  // outlive the call.
  std::unique_ptr<Call> Start(Responder* responder, Request request);

  // For a head that expects 100-continue: k417, kNoContinue, or kNone for a plain 100.
  Fault ExpectFault(const Request& request);

  TruthKeeper& truth() { return truth_; }
  const SimulatorOptions& options() const { return options_; }
  MonoTime Now() const { return reactor_->Now(); }

 private:
  friend class Call;

  void Begin(Call* call);
  void Generate(Call* call, Endpoint endpoint, MonoTime now);
  // Admits at the quota. False when the call has been answered with a rejection.
  bool Admit(Call* call, const AnswerSpec& spec, const BodyFacts& facts, MonoTime now);
  Fault DrawFault(uint64_t identity, uint32_t times, const Request& request);
  AnswerSpec MakeSpec(Endpoint endpoint, const BodyFacts& facts, uint64_t body_hash) const;
  absl::Duration DrawLatency(uint64_t hash) const;
  Account* FindAccount(const std::string& key);
  // Where there are so many servers: plays the call when it has one.
  void Serve(Call* call, Plan plan, MonoTime now);
  void FreeServer(MonoTime now);
  bool Held(Call* call, int barrier, MonoTime now);
  void ReleaseBarrier(MonoTime now, bool timed_out);
  void AddStandardHeaders(uint64_t id, bool anthropic, Account* account, MonoTime now, Plan* plan);

  Reactor* const reactor_;
  const SimulatorOptions options_;
  const std::vector<LimitSpec> limits_;
  TickWheel wheel_;
  TruthKeeper truth_;
  PromptCache prompt_cache_;
  absl::flat_hash_set<std::string> keys_;
  absl::flat_hash_set<std::string> models_;
  absl::flat_hash_map<std::string, std::unique_ptr<Account>> accounts_;
  std::vector<Call*> held_;   // at the barrier
  std::deque<Call*> queued_;  // for a server, the first in front
  int64_t busy_servers_ = 0;
  uint64_t request_number_ = 0;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_SERVICE_H_
