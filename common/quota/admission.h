// What the item loop sees of a pool: wait for admission, then settle. One Admission object per
// worker and pool; it asks the store in batches for all waiting attempts, so that nobody polls.
#ifndef HEADRACE_COMMON_QUOTA_ADMISSION_H_
#define HEADRACE_COMMON_QUOTA_ADMISSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/quota/flight_meter.h"
#include "common/quota/pool_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

struct AdmissionOptions {
  absl::Duration horizon = absl::Seconds(2);      // how far ahead send times are booked
  int max_batch = 64;                             // attempts per question to the store
  absl::Duration late = absl::Milliseconds(500);  // a send later than this is booked anew
};

// The leave to send one attempt.
struct Ticket {
  enum class Kind { kAdmitted, kStopped, kNeverFits, kClosed, kError };
  Kind kind = Kind::kStopped;
  ReservationId id;
  Costs reserved{};
  Costs expected{};  // what the provider should count as used with it, see ReserveAnswer::used
  absl::Duration waited;
  std::string text;  // for kNeverFits, kClosed, kError
  uint64_t job_id = 0;
  uint32_t model = 0;
};

class Admission {
 public:
  // `store` and `reactor` outlive it. Reservation ids count from a place in 64 bits that
  // `id_seed` gives, so those of workers with different random seeds do not meet.
  Admission(Reactor* reactor, PoolStore* store, std::string pool, uint64_t id_seed,
            AdmissionOptions options = {});
  ~Admission();

  // Suspends until the attempt may be sent; does not suspend when it may be sent at once and
  // nothing else waits. Attempts of one (job, model) go in the order of asking; several of them
  // share the pool by weight: jobs by `job_weight`, the models of a job by `weight`. An admitted
  // ticket must be settled exactly once. A stop while waiting gives back what was booked. With
  // `call`, a stop of `stop` for a deadline leaves those who have their send time, at most a
  // horizon ahead, as what they give back is often lost; a stop of `call` ends them too.
  Task<Ticket> Admit(uint64_t job_id, uint32_t model, double weight, Costs costs, StopToken stop,
                     double job_weight = 1, std::optional<StopToken> call = std::nullopt);

  void Settle(const Ticket& ticket, Settlement settlement, const Costs& actual);
  void Penalize(const Penalty& penalty);
  // What an answer said about one limit. Gathered, so that the pool is told at most once a second,
  // unless the limit itself has changed.
  void Observe(const Observation& observation);

  // A call that was admitted goes out, and has ended: for the samples.
  void BeginCall();
  void EndCall(const FlightEnd& end);
  // What calls have shown since the last sample.
  FlightSample TakeSample();

  // Attempts that wait: asked for and not answered, or booked for a later time.
  int64_t waiting() const;
  // Sends that were booked and had to be booked anew: too late, or a gate was set in between.
  int64_t rebooked() const;
  // Questions to the store: reservations asked in batches or one by one.
  int64_t asked() const;
  PoolSnapshot Snapshot() const;
  // Where it is found by trying: how many may be in flight now; else 0.
  int64_t in_flight_limit() const;

  // Ends the dispatcher; all Admit() calls must have ended or be stopped. Needed before destruction
  // unless no attempt ever had to wait.
  Task<void> Shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_ADMISSION_H_
