// Workers that share a pool in a real Redis, on a real reactor, while something happens to it.
#ifndef HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_TRIAL_H_
#define HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_TRIAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/task.h"
#include "common/base/time.h"
#include "common/quota/quota.h"
#include "common/quota/redis_store.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::quota {

PoolSpec Requests(int64_t per_minute);
PoolSpec Slots(int64_t slots);

// Timeouts so short that an outage is soon one.
RedisStoreOptions Quick(std::string worker);
std::unique_ptr<RedisPoolStore> Open(Reactor* reactor, const std::string& url, PoolSpec spec,
                                     RedisStoreOptions options);

struct Sends {
  std::vector<MonoTime> at;
  int64_t in_flight = 0;
  int64_t most_in_flight = 0;
  int64_t failed = 0;  // attempts that got no ticket
};

// `clients` workers with `streams` attempts at a time each, for `seconds`; `fault` runs beside
// them.
struct Trial {
  std::string url{};
  redis::RedisServer* server = nullptr;
  PoolSpec spec{};
  int clients = 8;
  int streams = 4;
  double seconds = 4;
  absl::Duration hold = absl::Milliseconds(5);
  Task<void> (*fault)(Reactor* reactor, redis::RedisServer* server) = nullptr;

  Sends sends{};
  MonoTime start{};
  RedisStoreStats stats{};
  std::string notice{};  // the last that any of them had
};

Task<void> RunTrial(Reactor* reactor, Trial* trial);

// The most that was sent in any time of `width`.
int64_t MostWithin(std::vector<MonoTime> at, absl::Duration width);
// What was sent from `from` to `to` seconds after the start.
int64_t SentBetween(const Trial& trial, double from, double to);

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_TRIAL_H_
