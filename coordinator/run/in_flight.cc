#include "coordinator/run/in_flight.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace headrace {
namespace {

// A worker that was not heard for three beats has no part: others use it meanwhile.
constexpr absl::Duration kSilent = absl::Seconds(3);

int64_t ToUs(MonoTime time) { return time.nanos() / 1000; }

}  // namespace

InFlightControl::InFlightControl(const JobConfig& job, uint64_t job_id) : job_id_(job_id) {
  for (const PoolJob& pool : job.pools) {
    if (!FindsInFlight(job, pool)) continue;
    const int64_t most = pool.max_in_flight > 0 ? pool.max_in_flight : quota::KneeFinder::kMost;
    order_.push_back(pool.name);
    pools_.emplace(pool.name, Pool{.finder = quota::KneeFinder(most)});
  }
}

int64_t InFlightControl::Pool::PartOf(WorkerKey worker) const {
  const auto count = static_cast<int64_t>(reporters.size());
  const auto place = static_cast<int64_t>(std::distance(reporters.begin(), reporters.find(worker)));
  const int64_t part = finder.limit() / count + (place < finder.limit() % count ? 1 : 0);
  return std::max<int64_t>(1, part);
}

InFlightControl::Part InFlightControl::MakePart(const std::string& name, const Pool& pool,
                                                WorkerKey worker) const {
  Part part;
  part.worker = worker;
  part.limit.set_job_id(job_id_);
  part.limit.set_pool(name);
  part.limit.set_limit(pool.PartOf(worker));
  return part;
}

std::optional<InFlightControl::Part> InFlightControl::OnBeat(MonoTime now, WorkerKey worker,
                                                             const v1::PoolState& state) {
  const auto found = pools_.find(state.pool());
  if (found == pools_.end() || state.in_flight_limit() == 0) return std::nullopt;
  Pool& pool = found->second;
  if (state.shared()) {
    pool.elsewhere = FoundInFlight{state.pool(), state.in_flight_limit(), state.in_flight_limit(),
                                   state.in_flight_why()};
    return std::nullopt;
  }
  const std::vector<int64_t> numbers(state.in_flight_sample().begin(),
                                     state.in_flight_sample().end());
  pool.sample += quota::FlightSample::FromNumbers(numbers);
  pool.reporters[worker] = Reporter{now, state.in_flight_limit()};
  if (pool.PartOf(worker) == state.in_flight_limit()) return std::nullopt;
  return MakePart(found->first, pool, worker);
}

void InFlightControl::Forget(WorkerKey worker) {
  for (auto& [name, pool] : pools_) pool.reporters.erase(worker);
}

std::vector<InFlightControl::Part> InFlightControl::Tick(MonoTime now) {
  std::vector<Part> parts;
  for (auto& [name, pool] : pools_) {
    std::erase_if(pool.reporters,
                  [now](const auto& entry) { return now - entry.second.at > kSilent; });
    if (pool.reporters.empty()) continue;
    const std::string why = pool.finder.why();
    const bool changed = pool.finder.Step(ToUs(now), std::exchange(pool.sample, {}),
                                          static_cast<int64_t>(pool.reporters.size()));
    if (pool.finder.why() != why) {
      HR_LOG(kInfo) << "pool " << name << ": " << pool.finder.base()
                    << " calls in flight: " << pool.finder.why();
    }
    if (!changed) continue;
    for (const auto& [worker, reporter] : pool.reporters) {
      parts.push_back(MakePart(name, pool, worker));
    }
  }
  return parts;
}

std::vector<FoundInFlight> InFlightControl::Found() const {
  std::vector<FoundInFlight> all;
  for (const std::string& name : order_) {
    const Pool& pool = pools_.at(name);
    all.push_back(pool.elsewhere.value_or(
        FoundInFlight{name, pool.finder.limit(), pool.finder.base(), pool.finder.why()}));
  }
  return all;
}

}  // namespace headrace
