#include "coordinator/run/job_totals.h"

#include <algorithm>

namespace headrace {
namespace {

double Cost(const ModelJob& model, const v1::ItemResult& result) {
  const int64_t cached = std::max<int64_t>(result.cached_tokens(), 0);
  const int64_t prompt = std::max<int64_t>(result.prompt_tokens(), 0) - cached;
  const int64_t completion = std::max<int64_t>(result.completion_tokens(), 0);
  const double input = model.price_input_usd.value_or(0);
  return (static_cast<double>(prompt) * input +
          static_cast<double>(cached) * model.price_cached_usd.value_or(input) +
          static_cast<double>(completion) * model.price_output_usd.value_or(0)) /
         1e6;
}

}  // namespace

JobTotals::JobTotals(const JobConfig& job) : models(job.models.size()) {
  for (size_t i = 0; i < models.size(); ++i) {
    models[i].priced =
        job.models[i].price_input_usd.has_value() || job.models[i].price_output_usd.has_value();
  }
}

void JobTotals::CountSuperseded(const JobConfig& job, uint32_t model,
                                const v1::ItemResult& result) {
  ++superseded;
  superseded_tokens += std::max<int64_t>(result.prompt_tokens(), 0) +
                       std::max<int64_t>(result.completion_tokens(), 0);
  const double cost = Cost(job.models[model], result);
  models[model].cost_usd += cost;
  cost_usd += cost;
}

void JobTotals::Count(const JobConfig& job, uint32_t model, const v1::ItemResult& result,
                      bool final) {
  attempts += result.attempts();
  retries += std::max<int64_t>(int64_t{result.attempts()} - 1, 0);
  throttled += result.throttled();
  possibly_billed += result.possibly_billed();
  ModelTotals& m = models[model];
  if (result.prompt_tokens() >= 0) m.prompt_tokens += result.prompt_tokens();
  if (result.completion_tokens() >= 0) m.completion_tokens += result.completion_tokens();
  if (result.cached_tokens() >= 0) m.cached_tokens += result.cached_tokens();
  const double cost = Cost(job.models[model], result);
  m.cost_usd += cost;
  cost_usd += cost;
  if (result.error_class() != 0) {
    if (final) ++m.failed;
    return;
  }
  ++m.ok;
  if (result.prompt_tokens() < 0 || result.completion_tokens() < 0) ++m.without_usage;
  queue_us.Record(result.queue_us());
  network_us.Record(result.network_us());
  total_us.Record(result.total_us());
  if (result.first_token_us() >= 0) first_token_us.Record(result.first_token_us());
}

}  // namespace headrace
