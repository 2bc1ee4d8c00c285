// What a JobTable tells operators of its jobs and workers.
#include "coordinator/jobs/job_table.h"

namespace headrace {
namespace {

// Ended jobs that status lists; older ones are on the disk. Chosen, not measured.
constexpr size_t kMaxEndedListed = 100;

}  // namespace

absl::StatusOr<v1::GetStatusResponse> JobTable::Status() {
  v1::GetStatusResponse response;
  response.set_coordinator_boot_id(options_.boot_id);
  response.set_build(options_.build);
  response.set_uptime_ms(absl::ToInt64Milliseconds(reactor_->Now() - begun_));
  response.set_state(stopping_ ? "draining" : "serving");
  size_t ended = 0;
  for (const auto& [id, entry] : jobs_) ended += entry->end.has_value() ? 1 : 0;
  for (const auto& [id, entry] : jobs_) {
    if (entry->end.has_value() && ended-- > kMaxEndedListed) continue;
    *response.add_jobs() = StatusOf(*entry);
  }
  for (const Coordinator::Worker* worker : coordinator_->workers()) {
    *response.add_workers() = StatusOf(*worker);
  }
  return response;
}

v1::JobStatus JobTable::StatusOf(const Entry& entry) const {
  v1::JobStatus status;
  status.set_job_id(entry.id);
  status.set_name(entry.name);
  status.set_output_dir(entry.output_dir);
  status.set_eta_ms(-1);
  const ProgressSnapshot& progress = entry.progress;
  status.set_total(progress.total);
  status.set_ok(progress.ok);
  status.set_failed(progress.failed);
  status.set_deferred(progress.deferred);
  status.set_retries(progress.retries);
  status.set_throttled(progress.throttled);
  status.set_cost_usd(progress.cost_usd.value_or(0));
  if (entry.end.has_value()) {
    status.set_state(entry.end->state);
    status.set_reason(entry.end->reason);
    status.set_exit_code(static_cast<int32_t>(entry.end->exit_code));
    return status;
  }
  if (entry.run == nullptr || entry.run->runner() == nullptr) {
    status.set_state(entry.cancelled ? "stopping" : "opening");
    status.set_reason(entry.cancel_reason);
    return status;
  }
  const JobRunner& runner = *entry.run->runner();
  status.set_total(runner.state().total());
  status.set_ok(runner.state().ok());
  status.set_failed(runner.state().failed());
  status.set_deferred(runner.state().deferred());
  status.set_items_per_minute(progress.items_per_minute);
  if (progress.eta.has_value()) status.set_eta_ms(absl::ToInt64Milliseconds(*progress.eta));
  status.set_waiting_for(progress.waiting_for);
  status.set_limited_by(progress.limited_by);
  status.set_batches(static_cast<uint32_t>(runner.leases().live()));
  status.set_leased_items(runner.leased_items());
  status.set_superseded(runner.totals().superseded);
  for (const FoundInFlight& found : runner.found_in_flight()) {
    v1::PoolInFlight* pool = status.add_in_flight();
    pool->set_pool(found.pool);
    pool->set_limit(found.limit);
    pool->set_found(found.found);
    pool->set_why(found.why);
  }
  if (runner.stopping().has_value()) {
    status.set_state("stopping");
    status.set_reason(runner.stopping()->reason);
  } else if (runner.learning()) {
    status.set_state("learning");
  } else {
    status.set_state(coordinator_->sessions().empty() ? "waiting" : "running");
  }
  return status;
}

v1::WorkerStatus JobTable::StatusOf(const Coordinator::Worker& worker) const {
  v1::WorkerStatus status;
  status.set_worker_id(worker.name.id);
  status.set_connected(worker.session != nullptr);
  status.set_build(worker.build);
  status.set_max_in_flight(worker.max_in_flight);
  MonoTime heard = worker.last_heard;
  if (worker.session != nullptr) {
    const v1::Beat& beat = worker.session->last_beat();
    heard = worker.session->last_heard();
    status.set_in_flight(beat.in_flight());
    status.set_unacked_bytes(beat.unacked_bytes());
    status.set_peer(worker.session->peer().address);
    status.set_waiting_for(beat.waiting_for());
  }
  status.set_last_heard_ms(absl::ToInt64Milliseconds(reactor_->Now() - heard));
  for (JobRunner* job : coordinator_->jobs()) {
    for (BatchId batch : job->leases().OfWorker(worker.key)) {
      status.set_batches(status.batches() + 1);
      status.set_leased_items(status.leased_items() +
                              static_cast<int64_t>(job->leases().Find(batch)->open.size()));
    }
  }
  return status;
}

}  // namespace headrace
