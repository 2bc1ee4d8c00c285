// How many calls in flight pay, for the pools of a job that are in the memory of its workers: one
// KneeFinder for each pool, fed with what all workers see, and its number divided among them. Pools
// in Redis find theirs there; then this only remembers what the workers say of them.
//
//   each beat   a worker says what it saw since the last one, and how many it may have in flight
//   each tick   the finder makes a step with the sum; a new number goes to every worker, in parts
//   a beat that says another number than the worker's part is answered with the part: so messages
//   that were lost are made up for, and a worker that is new gets its own
#ifndef HEADRACE_COORDINATOR_RUN_IN_FLIGHT_H_
#define HEADRACE_COORDINATOR_RUN_IN_FLIGHT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/quota/flight_sample.h"
#include "common/quota/knee.h"
#include "coordinator/job/job.h"
#include "coordinator/plan/lease_table.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

// What was found for one pool.
struct FoundInFlight {
  std::string pool;
  int64_t limit = 0;  // of all workers together, now
  int64_t found = 0;  // without the probe that may be going on
  std::string why;
};

class InFlightControl {
 public:
  // A part of a number for one worker.
  struct Part {
    WorkerKey worker;
    v1::InFlightLimit limit;
  };

  InFlightControl(const JobConfig& job, uint64_t job_id);

  // One pool of a worker's beat. The part that the worker is to be told, if it says another number.
  std::optional<Part> OnBeat(MonoTime now, WorkerKey worker, const v1::PoolState& state);
  void Forget(WorkerKey worker);
  // Every second or so: what workers are to be told.
  std::vector<Part> Tick(MonoTime now);

  // Of the pools that seek their number, in the order of the job.
  std::vector<FoundInFlight> Found() const;

 private:
  struct Reporter {
    MonoTime at;
    int64_t limit = 0;  // that it says it has
  };
  struct Pool {
    quota::KneeFinder finder;
    quota::FlightSample sample{};  // since the last step
    std::map<WorkerKey, Reporter> reporters{};
    std::optional<FoundInFlight> elsewhere{};  // in Redis
    // The worker's part. The parts come to the number, but each is one at least.
    int64_t PartOf(WorkerKey worker) const;
  };

  Part MakePart(const std::string& name, const Pool& pool, WorkerKey worker) const;

  const uint64_t job_id_;
  std::vector<std::string> order_;
  std::map<std::string, Pool> pools_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_IN_FLIGHT_H_
