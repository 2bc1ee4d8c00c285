#include "coordinator/progress/progress_meter.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace headrace {
namespace {

constexpr absl::Duration kRateWindow = absl::Minutes(1);
// A rate of a shorter time than this would be noise. Chosen, not measured.
constexpr absl::Duration kShortestRate = absl::Seconds(10);

std::optional<absl::Duration> Quantile(const Histogram& micros, double q) {
  if (micros.count() == 0) return std::nullopt;
  return absl::Microseconds(micros.Quantile(q));
}

struct PoolSum {
  int64_t tokens = 0;
  int64_t requests = 0;
  std::string limited_by;
  int64_t gated_ms = 0;
};

void AddPools(const JobRunner& runner, const std::map<std::string, PoolSum>& sums,
              ProgressSnapshot* out) {
  // In the first minute of a process, what was counted is of a shorter time.
  const double minutes =
      absl::ToDoubleMinutes(std::clamp(out->elapsed, kShortestRate, kRateWindow));
  for (const PoolJob& pool : runner.job().pools) {
    PoolProgress progress;
    progress.name = pool.name;
    progress.tokens_limit = pool.tokens_per_minute;
    progress.requests_limit = pool.requests_per_minute;
    auto it = sums.find(pool.name);
    if (it != sums.end()) {
      progress.tokens_per_minute = static_cast<double>(it->second.tokens) / minutes;
      progress.requests_per_minute = static_cast<double>(it->second.requests) / minutes;
      if (!it->second.limited_by.empty() && out->limited_by.empty()) {
        out->limited_by = absl::StrCat(it->second.limited_by, " of pool ", pool.name);
      }
      if (it->second.gated_ms > 0 && out->in_flight == 0) {
        out->waiting_for =
            absl::StrCat("the provider, which asks to wait ",
                         headrace::FormatDuration(absl::Milliseconds(it->second.gated_ms)),
                         " (pool ", pool.name, ")");
      }
    }
    for (const FoundInFlight& found : runner.found_in_flight()) {
      if (found.pool != pool.name) continue;
      progress.in_flight_limit = found.limit;
      progress.in_flight_why = found.why;
    }
    out->pools.push_back(std::move(progress));
  }
}

void AddItems(const JobRunner& runner, ProgressSnapshot* out) {
  const JobState& state = runner.state();
  const JobConfig& job = runner.job();
  out->total = state.total();
  out->ok = state.ok();
  out->failed = state.failed();
  out->done = out->ok + out->failed;
  out->deferred = state.deferred();
  for (size_t i = 0; i < job.models.size(); ++i) {
    const ModelIndex model(static_cast<uint32_t>(i));
    ModelProgress progress;
    progress.label = job.models[i].label;
    progress.total = state.rows();
    progress.done = state.resolved_of(model);
    progress.failed = progress.done - state.ok(model);
    out->models.push_back(std::move(progress));
    out->pass = std::max(out->pass, state.pass(model));
  }
  for (const ErrorClassInfo& info : AllErrorClasses()) {
    const int64_t items = state.failures(info.error_class);
    if (items > 0) out->failures.push_back({info.error_class, items});
  }
  std::sort(out->failures.begin(), out->failures.end(),
            [](const FailureCount& a, const FailureCount& b) {
              return a.items != b.items ? a.items > b.items : a.error_class < b.error_class;
            });
}

}  // namespace

double ProgressMeter::ItemsPerMinute(MonoTime now, int64_t done) {
  points_.push_back({now, done});
  while (points_.size() > 2 && now - points_.front().when > kRateWindow) points_.pop_front();
  const absl::Duration span = now - points_.front().when;
  if (span <= absl::ZeroDuration()) return 0;
  return static_cast<double>(done - points_.front().done) / absl::ToDoubleMinutes(span);
}

ProgressSnapshot ProgressMeter::Sample(MonoTime now, bool finished) {
  const JobRunner& runner = *runner_;
  const JobTotals& totals = runner.totals();
  ProgressSnapshot out;
  out.job = runner.job().name;
  out.elapsed = now - begun_;
  out.finished = finished;
  out.passes = static_cast<uint32_t>(runner.job().passes);
  AddItems(runner, &out);
  out.items_per_minute = ItemsPerMinute(now, out.done);
  const int64_t left = out.total - out.done;
  if (!finished && left > 0 && out.items_per_minute > 0) {
    out.eta = absl::Minutes(static_cast<double>(left) / out.items_per_minute);
  }

  std::map<std::string, PoolSum> pools;
  int64_t throttled = 0;
  for (const WorkerSession* session : cluster_->sessions()) {
    const v1::Beat& beat = session->last_beat();
    ++out.workers;
    out.in_flight += beat.in_flight();
    out.gate_waiting += beat.gate_waiting();
    throttled += static_cast<int64_t>(beat.throttled_total());
    if (out.in_flight == 0 && out.waiting_for.empty()) out.waiting_for = beat.waiting_for();
    for (const v1::PoolState& pool : beat.pools()) {
      if (pool.job_id() != runner.id()) continue;
      PoolSum& sum = pools[pool.pool()];
      // Pools in memory are each worker's part; of shared ones everybody tells the same numbers.
      if (pool.shared()) {
        sum.tokens = std::max(sum.tokens, pool.tokens_last_minute());
        sum.requests = std::max(sum.requests, pool.requests_last_minute());
      } else {
        sum.tokens += pool.tokens_last_minute();
        sum.requests += pool.requests_last_minute();
      }
      sum.gated_ms = std::max(sum.gated_ms, pool.gated_ms());
      if (sum.limited_by.empty()) sum.limited_by = pool.limited_by();
    }
  }
  out.max_in_flight = runner.job().max_in_flight;
  const std::vector<FoundInFlight> found_in_flight = runner.found_in_flight();
  if (!found_in_flight.empty() && found_in_flight.size() == runner.job().pools.size()) {
    int64_t sum = 0;
    for (const FoundInFlight& found : found_in_flight) sum += found.limit;
    out.auto_in_flight = true;
    out.max_in_flight = std::min(sum, out.max_in_flight);
  }
  if (finished || out.in_flight > 0) out.waiting_for.clear();
  AddPools(runner, pools, &out);
  // Without a worker nobody tells: the last numbers stay, also in the last line of a run.
  if (out.workers > 0 || pools_.empty()) {
    pools_ = out.pools;
  } else {
    out.pools = pools_;
  }
  if (out.limited_by.empty() && out.gate_waiting > 0) out.limited_by = "max_in_flight";
  if (!finished && out.workers == 0) out.waiting_for = "a worker";
  if (!finished && !runner.store().waiting_for().empty()) {
    out.waiting_for = runner.store().waiting_for();
  }
  if (!finished && runner.learning() && out.in_flight == 0) {
    out.waiting_for = absl::StrCat(runner.awaited_workers(),
                                   " workers of the earlier start, which may hold batches");
  }

  out.queue_p50 = Quantile(totals.queue_us, 0.5);
  out.queue_p95 = Quantile(totals.queue_us, 0.95);
  out.network_p50 = Quantile(totals.network_us, 0.5);
  out.network_p95 = Quantile(totals.network_us, 0.95);
  // The workers count at once, the totals when an item ends; workers that have left count no more.
  out.throttled = std::max(totals.throttled, throttled);
  out.retries = totals.retries;
  for (const ModelTotals& model : totals.models) {
    if (model.priced) out.cost_usd = totals.cost_usd;
  }
  out.max_cost_usd = runner.job().max_cost_usd;
  return out;
}

}  // namespace headrace
