#include "common/quota/ledger.h"

#include "common/base/log.h"

namespace headrace::quota {

void Ledger::Add(const Reservation& reservation) {
  int32_t slot = free_;
  if (slot >= 0) {
    free_ = slots_[slot].next;
  } else {
    slot = static_cast<int32_t>(slots_.size());
    slots_.emplace_back();
  }
  const bool is_new = index_.emplace(reservation.id, slot).second;
  HR_CHECK(is_new) << "reservation " << reservation.id << " is open already";
  slots_[slot] = Slot{reservation, tail_, -1};
  (tail_ < 0 ? head_ : slots_[tail_].next) = slot;
  tail_ = slot;
}

Reservation* Ledger::Find(ReservationId id) {
  const auto it = index_.find(id);
  return it == index_.end() ? nullptr : &slots_[it->second].reservation;
}

void Ledger::Close(ReservationId id) {
  const auto it = index_.find(id);
  HR_CHECK(it != index_.end()) << "reservation " << id << " is not open";
  const int32_t index = it->second;
  Slot& slot = slots_[index];
  (slot.previous < 0 ? head_ : slots_[slot.previous].next) = slot.next;
  (slot.next < 0 ? tail_ : slots_[slot.next].previous) = slot.previous;
  slot.next = free_;
  free_ = index;
  index_.erase(it);
  RememberClosed(id, slot.reservation.send_at_us);
}

void Ledger::RememberClosed(ReservationId id, int64_t send_at_us) {
  if (!closed_.emplace(id, send_at_us).second) return;
  closed_order_.push_back(id);
  if (closed_order_.size() <= kMaxClosed) return;
  closed_.erase(closed_order_.front());
  closed_order_.pop_front();
}

std::optional<int64_t> Ledger::FindClosed(ReservationId id) const {
  const auto it = closed_.find(id);
  if (it == closed_.end()) return std::nullopt;
  return it->second;
}

Reservation* Ledger::Before(Reservation* reservation) {
  const auto it = index_.find(reservation->id);
  HR_CHECK(it != index_.end());
  const int32_t previous = slots_[it->second].previous;
  return previous < 0 ? nullptr : &slots_[previous].reservation;
}

}  // namespace headrace::quota
