// Says in words how two runs differ.
#ifndef HEADRACE_COORDINATOR_STORE_IDENTITY_H_
#define HEADRACE_COORDINATOR_STORE_IDENTITY_H_

#include <string>
#include <vector>

#include "coordinator/store/run_store.h"

namespace headrace {

// One entry per difference, e.g. "batch.size: 500 -> 250", "retry.jitter: 200ms -> (none)",
// "dataset rows: 100 -> 101"; empty when the identities are the same. At most kMaxDifferences, then
// "and N more". Job files that differ in form only (order of keys, quotes, comments) are the same.
std::vector<std::string> DescribeDifferences(const RunIdentity& before, const RunIdentity& now);

inline constexpr size_t kMaxDifferences = 10;

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_IDENTITY_H_
