// The script that keeps a pool in Redis, seen from C++: its text, its keys, how a call is written
// and its answer read. lua/main.lua says what the arguments mean.
#ifndef HEADRACE_COMMON_QUOTA_POOL_SCRIPT_H_
#define HEADRACE_COMMON_QUOTA_POOL_SCRIPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/quota/flight_sample.h"
#include "common/quota/knee.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "common/redis/reply.h"
#include "common/redis/script.h"

namespace headrace::quota {

// One for the process.
const redis::Script& PoolScript();

// All keys of pool `pool` of `account`, in the order of KEYS; one hash slot. `account` has no
// braces.
std::vector<std::string> PoolKeys(absl::string_view account, absl::string_view pool);
// The channel on which the pool's changes are hinted.
std::string PoolChannel(absl::string_view account, absl::string_view pool);

// The numbers of `spec`, which must pass ValidatePool(), as the script keeps them. `learn`: how
// long a pool with slots that starts anew admits nobody, so that workers say first what they hold.
std::string PoolConfigText(const PoolSpec& spec, absl::Duration learn);

// A time on the server's clock.
struct ServerTime {
  int64_t us = 0;
};

// What was sent without the server, in one second.
struct LocalCell {
  int64_t age_s = 0;  // before now
  Costs costs{};
};

// The sum of all workers' samples, for the one that makes the next step with it.
struct KneeTurn {
  std::string token;  // of who has the turn: "<worker> <number of the call>"
  int64_t now_us = 0;
  int64_t workers = 1;
  FlightSample sample;
  std::string state;  // KneeFinder::Save(); empty at first
};

// The operations of one call, in order.
class PoolOps {
 public:
  void Reserve(const ReserveRequest& request);
  void Settle(ReservationId id, Settlement settlement, const Costs& actual);
  void Penalize(const Penalty& penalty, ServerTime sent);
  void Observe(const Observation& observation, ServerTime sent);
  void Configure(std::string config_text);
  void Adopt(ReservationId id, uint64_t job_id, uint32_t model, ServerTime send_at);
  void ReportLocal(const Costs& debt, const std::vector<LocalCell>& cells);
  // Asks for the pool's number of calls in flight, too; and for the turn, if it is time.
  void Sample(const FlightSample& sample);
  void Step(const KneeTurn& turn, const KneeFinder& finder);
  void Beat() { args_.push_back("B"); }
  void Leave() { args_.push_back("X"); }
  void Snapshot() { args_.push_back("Q"); }

  void Append(PoolOps other);
  bool empty() const { return args_.empty(); }
  size_t size() const { return args_.size(); }  // arguments
  std::vector<std::string> Take() { return std::move(args_); }

 private:
  void AddNumbers(const FlightSample& sample);

  std::vector<std::string> args_;
};

struct PoolCall {
  std::string test_clock_us;  // empty outside tests
  bool new_connection = false;
  std::string worker;
  int64_t number = 0;
  absl::Duration horizon;
  std::string channel;
  PoolOps ops;
};
std::vector<std::string> PoolArgs(PoolCall call);

struct PoolReply {
  bool unknown_pool = false;  // NOCONFIG: nothing was done; the rest is empty
  int64_t now_us = 0;
  int64_t incarnation = 0;
  int64_t epoch = 0;
  int64_t gate_us = 0;
  int64_t slots = -1;  // -1: no end
  int64_t open = 0;
  bool packed = false;
  bool closed = false;
  bool worker_known = true;                  // of a beat
  int64_t workers = 0;                       // of a beat
  std::vector<const redis::Reply*> answers;  // of Reserve, Snapshot and Sample; into the reply
};
// Internal when it is no answer of the script. Keeps pointers into `reply`.
absl::StatusOr<PoolReply> ReadPoolReply(const redis::Reply& reply);

// One answer of Reserve, but for `at`, which is in the server's time.
struct ReadAnswer {
  ReserveAnswer answer;
  int64_t at_us = 0;
};
absl::StatusOr<ReadAnswer> ReadReserveAnswer(const redis::Reply& reply, absl::string_view pool);

// The answer of Sample: how many there may be in flight, why, and the turn if it is this worker's.
// Then its token is for the caller to fill in.
struct KneeAnswer {
  int64_t limit = 0;  // 0: the pool does not seek it
  std::string why;
  std::optional<KneeTurn> turn;
};
absl::StatusOr<KneeAnswer> ReadKneeAnswer(const redis::Reply& reply);

struct ReadSnapshot {
  PoolSnapshot snapshot;  // but for gate_until
  int64_t waited_us = 0;  // 0: never; then limited_by is set for waits of the last 5 s
};
absl::StatusOr<ReadSnapshot> ReadPoolSnapshot(const redis::Reply& reply, int64_t now_us);

// Costs as admission counts them: each in [0, 2^50], at least one request, one slot, and what the
// limits per day cost.
Costs NormalisedCosts(const Costs& costs);

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_POOL_SCRIPT_H_
