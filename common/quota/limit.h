// One limit of a pool that is not a number of slots: how fast it may be used, how much of it in any
// window, and what of it is open now.
//
//   mechanics  pacing (bucket.h)  window (ring.h)
//   kBucket    yes                no
//   kWindow    yes                `window` and guard
//   kDay       no                 24 hours
#ifndef HEADRACE_COMMON_QUOTA_LIMIT_H_
#define HEADRACE_COMMON_QUOTA_LIMIT_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/quota/bucket.h"
#include "common/quota/quota.h"
#include "common/quota/ring.h"
#include "common/quota/shares.h"

namespace headrace::quota {

// Where a limit stops a request: not before `at_us`.
struct Fitting {
  int64_t at_us = 0;
  Dimension binding = Dimension::kRequests;
};

class RateLimit {
 public:
  // `spec` was validated and is no gauge.
  RateLimit(const DimensionSpec& spec, double utilisation);

  Dimension dimension() const { return bucket_.dimension(); }
  // The largest cost that can ever be admitted.
  int64_t largest() const { return std::max(whole_limit_, limit()); }
  int64_t limit() const { return bucket_.limit(); }
  bool paced() const { return paced_; }
  bool windowed() const { return ring_.has_value(); }
  bool daily() const { return !paced_; }
  const Bucket& bucket() const { return bucket_; }
  const Ring& ring() const { return *ring_; }  // needs windowed()
  Ramp& ramp() { return ramp_; }
  const Ramp& ramp() const { return ramp_; }
  GrowingShare& cap() { return cap_; }

  // Starts cold: as after a while at the full rate. A day starts unused, or a restart would cost
  // one.
  void Fill(int64_t now_us);
  // Takes over the state of `old`, the same dimension before a change; nothing is gained by it.
  void TakeOver(int64_t now_us, int64_t gate_until_us, const RateLimit& old);
  // Time passes. Before every other call below.
  void Advance(int64_t now_us);

  // The share of the limit in use, when the pool's own share is `pool_share`.
  int64_t Share(int64_t pool_share) const;
  // The same at a later time, for people.
  int64_t ShareAt(int64_t now_us, int64_t pool_share) const;
  // Delays `fitting` to when a request fits by pacing, and by window.
  void Pace(int64_t gate_until_us, Fitting* fitting) const;
  void FitWindow(int64_t cost, Fitting* fitting) const;
  // Charges a request that is sent at `at_us`, not before both of these.
  void Take(int64_t at_us, int64_t gate_until_us, int64_t cost, int64_t share);
  // Moves the charge of a request that was sent at `at_us` from `before` to `after`. A window that
  // it has left takes no correction.
  void Correct(int64_t at_us, int64_t before, int64_t after, int64_t share);

  // What `cost` takes of the pool's time.
  int64_t PoolUs(int64_t cost, int64_t share) const;
  // What the provider should count of ours for a request at `at_us`, itself included.
  int64_t Used(int64_t at_us, int64_t share) const;
  // Charges `units` that somebody else used.
  void ChargeOutside(int64_t now_us, int64_t units, int64_t share);

 private:
  int64_t Room(int64_t at_us) const;

  bool paced_;
  int64_t whole_limit_;  // 0: limit() is the whole one
  Bucket bucket_;        // of a day: only its numbers
  std::optional<Ring> ring_;
  Ramp ramp_;
  GrowingShare cap_;              // of the limit, by the provider's own word
  int64_t outside_until_us_ = 0;  // a window after somebody else was last seen in it
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_LIMIT_H_
