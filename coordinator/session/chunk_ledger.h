// Which chunks of one worker process have come and which are durable: each is taken once and in
// order, and acknowledged in order. Pure state; outlives the sessions of its worker.
#ifndef HEADRACE_COORDINATOR_SESSION_CHUNK_LEDGER_H_
#define HEADRACE_COORDINATOR_SESSION_CHUNK_LEDGER_H_

#include <cstdint>
#include <set>

namespace headrace {

class ChunkLedger {
 public:
  // `first` is the first chunk that will come. Those before `fresh_from` may have come to an
  // earlier coordinator.
  ChunkLedger(uint64_t first, uint64_t fresh_from)
      : acked_(first > 0 ? first - 1 : 0), arrived_(acked_), fresh_from_(fresh_from) {}

  enum class Arrival {
    kNew,       // take it; Durable() when it is on the disk
    kRepeated,  // it was taken before
    kGap,       // one before it is missing: the worker must send again from there
  };
  Arrival Arrive(uint64_t seq) {
    if (seq <= arrived_) return Arrival::kRepeated;
    if (seq > arrived_ + 1) return Arrival::kGap;
    arrived_ = seq;
    return Arrival::kNew;
  }
  // False: an earlier coordinator may have counted what is in it.
  bool fresh(uint64_t seq) const { return seq >= fresh_from_; }

  // True when the acknowledged chunks have become more.
  bool Durable(uint64_t seq) {
    durable_.insert(seq);
    const uint64_t before = acked_;
    while (!durable_.empty() && *durable_.begin() == acked_ + 1) {
      ++acked_;
      durable_.erase(durable_.begin());
    }
    return acked_ != before;
  }
  // All chunks up to and including this one are durable.
  uint64_t acked() const { return acked_; }

 private:
  uint64_t acked_;
  uint64_t arrived_;
  uint64_t fresh_from_;
  std::set<uint64_t> durable_;  // beyond acked_
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_SESSION_CHUNK_LEDGER_H_
