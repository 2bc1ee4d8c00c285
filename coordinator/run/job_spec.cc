#include <cstdint>
#include <limits>
#include <string>

#include "coordinator/run/job_runner.h"

namespace headrace {
namespace {

int64_t Millis(absl::Duration duration) { return absl::ToInt64Milliseconds(duration); }

void SetModel(const ModelJob& model, v1::ModelSpec* spec) {
  spec->set_name(model.name);
  spec->set_label(model.label);
  spec->set_provider(model.provider);
  spec->set_endpoint(model.endpoint);
  if (!model.api_key.env.empty()) spec->mutable_api_key()->set_env(model.api_key.env);
  if (!model.api_key.file.empty()) spec->mutable_api_key()->set_file(model.api_key.file);
  spec->set_pool(model.pool);
  spec->set_params_json(model.params_json);
  spec->set_stream(model.stream);
  spec->set_weight(model.weight);
  spec->set_price_input_usd_per_million(model.price_input_usd.value_or(0));
  spec->set_price_output_usd_per_million(model.price_output_usd.value_or(0));
  spec->set_price_cached_usd_per_million(model.price_cached_usd.value_or(0));
  spec->set_connect_timeout_ms(Millis(model.connect_timeout));
  spec->set_first_byte_timeout_ms(Millis(model.first_byte_timeout));
  spec->set_silence_timeout_ms(Millis(model.silence_timeout));
  spec->set_progress_timeout_ms(Millis(model.progress_timeout));
  spec->set_total_timeout_ms(Millis(model.total_timeout));
  spec->set_ca_file(model.ca_file);
  for (const auto& [name, value] : model.headers) (*spec->mutable_headers())[name] = value;
}

}  // namespace

v1::JobSpec ToJobSpec(const JobConfig& job, const JobRunnerOptions& options) {
  v1::JobSpec spec;
  spec.set_job_id(options.job_id);
  spec.set_run_key(options.run_key);
  spec.set_name(job.name);
  spec.set_job_weight(job.job_weight);
  for (const ModelJob& model : job.models) SetModel(model, spec.add_models());
  for (const PoolJob& pool : job.pools) {
    v1::PoolSpec* p = spec.add_pools();
    p->set_name(pool.name);
    p->set_requests_per_minute(pool.requests_per_minute);
    p->set_tokens_per_minute(pool.tokens_per_minute);
    p->set_input_tokens_per_minute(pool.input_tokens_per_minute);
    p->set_output_tokens_per_minute(pool.output_tokens_per_minute);
    p->set_max_in_flight(pool.max_in_flight);
    p->set_auto_in_flight(FindsInFlight(job, pool));
    p->set_profile(pool.profile);
    p->set_requests_per_day(pool.requests_per_day);
    p->set_tokens_per_day(pool.tokens_per_day);
    p->set_window(pool.window);
    p->set_requests_window(pool.requests_window);
    if (pool.guard) p->set_guard_ms(Millis(*pool.guard));
    if (pool.burst) p->set_burst_ms(Millis(*pool.burst));
    p->set_utilisation(pool.utilisation);
    if (pool.ramp_start) p->set_ramp_start(*pool.ramp_start);
    p->set_ramp_growth(pool.ramp_growth);
    p->set_charge(pool.charge);
  }
  spec.set_on_failure(std::string(OnFailureName(job.on_failure)));
  // A share is of the whole job, which only the coordinator sees.
  spec.set_max_failed(job.max_failed.share.has_value() ? std::numeric_limits<int64_t>::max()
                                                       : job.max_failed.count);
  spec.set_batch_deadline_ms(Millis(job.batch_deadline));
  spec.set_attempts(static_cast<uint32_t>(job.attempts));
  spec.set_first_delay_ms(Millis(job.first_delay));
  spec.set_max_delay_ms(Millis(job.max_delay));
  spec.set_jitter_ms(Millis(job.jitter));
  spec.set_max_retry_after_ms(Millis(job.max_retry_after));
  spec.set_max_in_flight(static_cast<uint32_t>(job.max_in_flight));
  spec.set_config_errors_to_stop(static_cast<uint32_t>(options.config_errors_to_stop));
  spec.set_hedge(job.hedge_stragglers);
  return spec;
}

}  // namespace headrace
