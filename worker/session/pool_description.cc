#include "worker/session/pool_description.h"

#include <optional>

#include "common/quota/profiles.h"

namespace headrace {

absl::StatusOr<quota::PoolSpec> ToPoolSpec(const v1::PoolSpec& pool) {
  quota::PoolDescription description;
  description.name = pool.name();
  description.profile = pool.profile();
  description.requests_per_minute = pool.requests_per_minute();
  description.tokens_per_minute = pool.tokens_per_minute();
  description.input_tokens_per_minute = pool.input_tokens_per_minute();
  description.output_tokens_per_minute = pool.output_tokens_per_minute();
  description.requests_per_day = pool.requests_per_day();
  description.tokens_per_day = pool.tokens_per_day();
  description.max_in_flight = pool.max_in_flight();
  description.auto_in_flight = pool.auto_in_flight();
  description.window = pool.window();
  description.requests_window = pool.requests_window();
  if (pool.has_guard_ms()) description.guard = absl::Milliseconds(pool.guard_ms());
  if (pool.has_burst_ms()) description.burst = absl::Milliseconds(pool.burst_ms());
  description.utilisation = pool.utilisation();
  if (pool.has_ramp_start()) description.ramp_start = pool.ramp_start();
  description.ramp_growth = pool.ramp_growth();
  return quota::MakePool(description);
}

uint64_t QuotaJobId(const v1::JobSpec& job) {
  if (job.run_key().empty()) return job.job_id();
  // FNV-1a of 64 bits.
  uint64_t id = 14695981039346656037u;
  for (const char c : job.run_key()) {
    id = (id ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return id;
}

quota::ChargeRules ChargeRulesOf(const v1::JobSpec& job, const v1::ModelSpec& model) {
  for (const v1::PoolSpec& pool : job.pools()) {
    if (pool.name() != model.pool()) continue;
    // "generic" says nothing of charging; the model's own endpoint may.
    quota::ChargeRules rules =
        quota::ChargeRulesOf(pool.profile() == "generic" ? "auto" : pool.profile(),
                             model.provider(), model.endpoint(), model.name());
    if (const auto charging = quota::ParseCharging(pool.charge())) rules.charging = *charging;
    return rules;
  }
  return quota::ChargeRulesOf("auto", model.provider(), model.endpoint(), model.name());
}

}  // namespace headrace
