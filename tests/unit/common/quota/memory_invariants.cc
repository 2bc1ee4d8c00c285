#include "tests/unit/common/quota/store_invariants.h"

namespace headrace::quota {

INSTANTIATE_TEST_SUITE_P(Memory, StoreInvariants,
                         testing::Values(StoreParam{"Memory", &simulator::MakeMemoryStore, 5}),
                         StoreName);

}  // namespace headrace::quota
