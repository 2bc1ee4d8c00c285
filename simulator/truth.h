// What really happened at the simulated provider: the numbers that a client's own report is checked
// against.
#ifndef HEADRACE_SIMULATOR_TRUTH_H_
#define HEADRACE_SIMULATOR_TRUTH_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/time.h"
#include "simulator/exchange.h"
#include "simulator/faults.h"
#include "simulator/quota_mechanics.h"

namespace headrace::simulator {

// Counters since the start or the last reset. Only calls of generation endpoints and embeddings
// count as requests.
struct Truth {
  int64_t requests = 0;   // complete requests received
  int64_t in_flight = 0;  // received and not ended
  int64_t peak_in_flight = 0;
  int64_t streams = 0;  // of those in flight, answers that are streamed
  int64_t peak_streams = 0;
  int64_t peak_served = 0;                   // at a time, where there are so many servers
  int64_t admitted = 0;                      // passed the quota
  int64_t completions = 0;                   // answered in full with 200 and a whole answer
  int64_t repeats = 0;                       // an identity seen again, for whatever reason
  int64_t duplicates = 0;                    // an identity answered in full again: paid twice
  int64_t rejections[kLimitKindCount] = {};  // 429 of the quota, by dimension
  int64_t never_fits = 0;                    // of those, requests larger than a limit
  int64_t bad_requests = 0;                  // 400, 401, 404, 413 for what the request really is
  int64_t cancelled[4] = {};                 // by Gone
  int64_t input_tokens = 0;                  // of completions
  int64_t output_tokens = 0;
  int64_t events_sent = 0;  // stream tokens rendered
  int64_t barriers_released = 0;
  int64_t barriers_timed_out = 0;
  int64_t connections = 0;  // open
  int64_t peak_connections = 0;
  int64_t connections_total = 0;
  int64_t h2_connections_total = 0;
  std::array<int64_t, static_cast<size_t>(Fault::kCount)> faults{};

  struct Second {
    int64_t second = -1;   // since the start
    int64_t requests = 0;  // admitted
    int64_t tokens = 0;    // charged at admission
    int64_t rejected = 0;
  };
  std::vector<Second> seconds;  // oldest first, at most kMaxSeconds

  int64_t total_rejections() const;
};

inline constexpr size_t kMaxSeconds = 3600;
// Identities that are remembered; later ones are not checked for repeats. Chosen, not measured:
// 24 bytes each.
inline constexpr size_t kMaxIdentities = 4'000'000;

// Keeps the truth. One thread.
class TruthKeeper {
 public:
  explicit TruthKeeper(MonoTime start) : start_(start) {}

  Truth& counters() { return truth_; }

  // Notes one more request of an identity; returns how often it was seen before.
  uint32_t SeeIdentity(uint64_t identity);
  void CompleteIdentity(uint64_t identity);
  void BeginCall();
  void EndCall();
  void Admitted(MonoTime now, int64_t tokens);
  void Rejected(MonoTime now, LimitKind kind, bool never);

  Truth Snapshot() const;
  // Zeroes all but what is open now.
  void Reset(MonoTime now);

 private:
  struct Seen {
    uint32_t times = 0;
    uint32_t completions = 0;
  };
  Truth::Second& At(MonoTime now);

  MonoTime start_;
  Truth truth_;
  std::vector<Truth::Second> ring_;  // by second modulo kMaxSeconds, grows on demand
  absl::flat_hash_map<uint64_t, Seen> identities_;
};

// The answer of GET /truth.
std::string TruthJson(const Truth& truth);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_TRUTH_H_
