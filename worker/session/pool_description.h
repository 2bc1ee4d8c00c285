// A pool of the wire as the quota system describes it.
#ifndef HEADRACE_WORKER_SESSION_POOL_DESCRIPTION_H_
#define HEADRACE_WORKER_SESSION_POOL_DESCRIPTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/quota/costs.h"
#include "common/quota/quota.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

// InvalidArgument, naming the pool, where a number or a word of it means nothing to this build.
absl::StatusOr<quota::PoolSpec> ToPoolSpec(const v1::PoolSpec& pool);

// The job to those who share a pool with it: the same to all of its workers and over its restarts,
// and another than those of other coordinators, which count their jobs from 1 too.
uint64_t QuotaJobId(const v1::JobSpec& job);

// What calls of `model` are charged, by the profile of its pool in `job`.
quota::ChargeRules ChargeRulesOf(const v1::JobSpec& job, const v1::ModelSpec& model);

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_POOL_DESCRIPTION_H_
