// One real redis-server for all tests of a binary, asked at the time of a virtual reactor, and the
// stores that live in it.
#ifndef HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_AT_WORK_H_
#define HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_AT_WORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/async/reactor.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"
#include "common/quota/redis_store.h"
#include "tests/integration/quota/script_store.h"

namespace headrace::quota {

// Started by the first caller, ends with the process.
BlockingRedis* TheRedis();

// An account that no other store of this process has.
std::string NewAccount();

// The script alone, in an account of its own.
std::unique_ptr<PoolStore> MakeScriptStore(Reactor* reactor, const std::vector<PoolSpec>& specs);

// The whole store, in virtual time. All that are made between two calls of ShareNextAccount() are
// workers that share the account.
void ShareNextAccount();
std::unique_ptr<PoolStore> MakeRedisStore(Reactor* reactor, const std::vector<PoolSpec>& specs);

// Of the account that is shared: round trips since ShareNextAccount(), and its pool "p".
int64_t RoundTrips();
PoolSnapshot SharedSnapshot(Reactor* reactor, const PoolSpec& spec);

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_INTEGRATION_QUOTA_REDIS_AT_WORK_H_
