// What the tests of admission share: pools, costs, and attempts that run on a virtual reactor.
#ifndef HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_
#define HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/quota/admission.h"
#include "common/quota/memory_store.h"
#include "common/quota/quota.h"

namespace headrace::quota {

inline DimensionSpec PerMinute(Dimension dimension, int64_t limit) {
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.limit = limit;
  return spec;
}

inline DimensionSpec Slots(int64_t limit) {
  DimensionSpec spec;
  spec.dimension = Dimension::kInFlight;
  spec.mechanics = Mechanics::kGauge;
  spec.limit = limit;
  return spec;
}

inline PoolSpec Pool(std::vector<DimensionSpec> dimensions, double utilisation = 1) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = std::move(dimensions);
  spec.utilisation = utilisation;
  return spec;
}

inline Costs Tokens(int64_t tokens) { return Costs{1, tokens, 0, 0, 1}; }

// One reactor, one pool "p", one worker.
struct Worker {
  explicit Worker(PoolSpec spec, AdmissionOptions options = {}, uint64_t seed = 0,
                  bool shuffle = false)
      : reactor(seed, shuffle),
        store(&reactor, {std::move(spec)}),
        admission(&reactor, &store, "p", 1, options) {}

  double SecondsSince(MonoTime start) const { return absl::ToDoubleSeconds(reactor.Now() - start); }

  VirtualReactor reactor;
  MemoryPoolStore store;
  Admission admission;
};

}  // namespace headrace::quota

#endif  // HEADRACE_TESTS_UNIT_COMMON_QUOTA_HARNESS_H_
