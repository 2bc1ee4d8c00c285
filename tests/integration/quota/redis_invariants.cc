// The invariants of any store against the script in a real redis-server, in virtual time.
#include "tests/integration/quota/redis_at_work.h"
#include "tests/unit/common/quota/store_invariants.h"

namespace headrace::quota {
namespace {

INSTANTIATE_TEST_SUITE_P(Redis, StoreInvariants,
                         testing::Values(StoreParam{"Script", &MakeScriptStore, 1, 0.4}),
                         StoreName);

}  // namespace
}  // namespace headrace::quota
