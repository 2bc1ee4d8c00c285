// The open reservations of a pool, in the order of their send times, and the last closed ones, so
// that a repeated question or settlement is recognised.
#ifndef HEADRACE_COMMON_QUOTA_LEDGER_H_
#define HEADRACE_COMMON_QUOTA_LEDGER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/quota/flows.h"
#include "common/quota/quota.h"

namespace headrace::quota {

struct Reservation {
  ReservationId id{};
  FlowKey flow{};
  Costs reserved{};
  int64_t send_at_us = 0;
  Costs shares{};       // of each limit in use when it was made: settled at the same price
  bool voided = false;  // its charge was taken back when a gate was set
  Dimension binding = Dimension::kRequests;
};

class Ledger {
 public:
  // How many closed reservations are remembered; a duplicate that arrives after so many others is
  // taken as new. Chosen: seconds of a fast pool.
  static constexpr size_t kMaxClosed = 8192;

  // Reservations are added in the order of their send times, apart from those behind voided ones.
  void Add(const Reservation& reservation);
  // Invalidated by Add().
  Reservation* Find(ReservationId id);
  // Removes an open reservation and remembers its id.
  void Close(ReservationId id);
  // Remembers an id that was never open.
  void RememberClosed(ReservationId id, int64_t send_at_us);
  // The send time of a closed reservation.
  std::optional<int64_t> FindClosed(ReservationId id) const;

  Reservation* Oldest() { return head_ < 0 ? nullptr : &slots_[head_].reservation; }
  Reservation* Newest() { return tail_ < 0 ? nullptr : &slots_[tail_].reservation; }
  // The one before `reservation`, nullptr at the start.
  Reservation* Before(Reservation* reservation);

  int64_t open() const { return static_cast<int64_t>(index_.size()); }
  size_t closed() const { return closed_.size(); }

 private:
  struct Slot {
    Reservation reservation;
    int32_t previous = -1;
    int32_t next = -1;  // of the list, or of the free slots
  };

  std::vector<Slot> slots_;
  int32_t head_ = -1;
  int32_t tail_ = -1;
  int32_t free_ = -1;
  absl::flat_hash_map<ReservationId, int32_t> index_;
  absl::flat_hash_map<ReservationId, int64_t> closed_;
  std::deque<ReservationId> closed_order_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_LEDGER_H_
