// Workers that share one pool, against one provider that meters it, in virtual time: no sockets, no
// answers, only who may send what and when. For tests and benchmarks of common/quota.
#ifndef HEADRACE_SIMULATOR_QUOTA_WORLD_H_
#define HEADRACE_SIMULATOR_QUOTA_WORLD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "simulator/quota_mechanics.h"

namespace headrace::simulator {

// Makes the store under test; `reactor` outlives it and gives the time.
using MakePoolStore = std::unique_ptr<quota::PoolStore> (*)(Reactor* reactor,
                                                            const std::vector<quota::PoolSpec>&);
std::unique_ptr<quota::PoolStore> MakeMemoryStore(Reactor* reactor,
                                                  const std::vector<quota::PoolSpec>& specs);

struct WorldOptions {
  std::vector<LimitSpec> provider;
  quota::PoolSpec pool;
  MakePoolStore make_store = &MakeMemoryStore;
  bool store_per_worker = false;  // else one store, `round_trip` away from all workers

  int workers = 1;
  int streams = 400;  // attempts at a time, of all workers together
  int jobs = 1;
  absl::Duration duration = absl::Minutes(10);       // no attempt starts later
  absl::Duration warm_up = absl::Minutes(2);         // what comes before is not in the figures
  absl::Duration round_trip = absl::ZeroDuration();  // of a question to the store

  // Tokens of a call, lognormal: the mean is median * e^(sigma^2 / 2).
  double median = 1000;
  double sigma = 0.9;
  int64_t least = 10;
  int64_t most = 16'000;
  double output_share = 0.3;
  double over_estimate = 0;  // what is reserved beyond the actual cost, at most, as a share of it

  // The way to the provider, and the call itself.
  absl::Duration shortest_delay = absl::Milliseconds(1);
  absl::Duration longest_delay = absl::Milliseconds(31);
  double stall_chance = 0;  // of 200 ms to 1 s more
  absl::Duration latency = absl::Seconds(4);

  bool provider_refunds = true;  // charges what was used; else what was reserved
  bool counts_failed = true;     // a rejected call is a request

  // Somebody else uses this share of every limit from `outsider_from` to `outsider_until`.
  double outsider = 0;
  absl::Duration outsider_from;
  absl::Duration outsider_until = absl::InfiniteDuration();
  bool headers = false;  // answers say what is left, and the workers read it

  uint64_t seed = 1;
  bool record = false;  // fill WorldResult::sends
};

struct Send {
  double at = 0;       // seconds since the start, when it left the worker
  double arrived = 0;  // at the provider
  quota::Costs costs{};
  uint64_t job = 0;
  bool accepted = false;
};

struct WorldResult {
  int64_t accepted = 0;
  int64_t rejected = 0;
  int64_t never = 0;          // refused as larger than a limit
  int64_t asked = 0;          // reservations asked for
  int64_t questions = 0;      // round trips to the store, where there are any
  int64_t left_open = 0;      // reservations that are open after the end, as the first store knows
  double used = 0;            // of the provider's tightest limit after the warm-up, [0, 1]
  double last_rejection = 0;  // seconds since the start
  double first_signal = 0;    // when an answer first showed the outsider; 0: never
  std::vector<Send> sends;    // with `record`
};

WorldResult RunWorld(const WorldOptions& options);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_QUOTA_WORLD_H_
