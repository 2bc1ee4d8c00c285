// Faults of a simulated cluster by chance, from its seed.
#ifndef HEADRACE_TESTS_SUPPORT_SIM_CHAOS_H_
#define HEADRACE_TESTS_SUPPORT_SIM_CHAOS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/async/task.h"
#include "tests/support/sim_cluster.h"

namespace headrace {

enum class SimFault {
  kBreakStream,  // both ends notice within a second
  kHalfOpen,     // one end notices long after the other
  kPause,        // a worker is cut off for less than a lease
  kFreeze,       // longer than a lease; its calls go on
  kFreezeCalls,  // longer than a lease, and its calls stand still
  kKillWorker,   // and it is started again
  kTwin,         // a second process under the same id
  kDrainWorker,  // SIGTERM, and another one joins later
  kJoin,         // a new worker
  kCrash,        // kill -9 of the coordinator, by chance with the machine
  kRestart,      // SIGTERM of the coordinator
  kSyncError,    // EIO
  kFullDisk,     // for a while
  kClockJump,    // of the wall clock
  kWeather,      // of the provider
  kNumFaults,
};
inline constexpr int kNumSimFaults = static_cast<int>(SimFault::kNumFaults);
const char* SimFaultName(SimFault fault);

// A world of a random shape. Some are gentle: nothing in them is a reason to pay for an answer
// twice, and SimCluster checks that none is.
SimClusterOptions RandomWorld(uint64_t seed);
bool IsGentle(uint64_t seed);

// Faults for a while, then peace, in which the jobs must end. What was injected is added to
// `injected`.
Task<void> Chaos(SimCluster* cluster, std::map<SimFault, int64_t>* injected);

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_CHAOS_H_
