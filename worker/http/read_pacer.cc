#include "worker/http/read_pacer.h"

#include <algorithm>

namespace headrace::http {
namespace {

// Over which the read rate is measured. Chosen: long enough to count, short against a second.
constexpr absl::Duration kWindow = absl::Milliseconds(10);

}  // namespace

absl::Duration ReadPacer::tick() const {
  // The read rate stays at kPacedReadsPerSecond whatever the number of connections, until the tick
  // is at its maximum: few connections lose little time.
  return std::min(max_tick_, paced_count_ * absl::Seconds(1) / kPacedReadsPerSecond);
}

bool ReadPacer::AfterRead(Client* client, MonoTime now) {
  if (max_tick_ <= absl::ZeroDuration()) return false;
  ++window_reads_;
  if (now - window_start_ >= kWindow) {
    busy_ = window_reads_ > kQuietReadsPerSecond * absl::ToDoubleSeconds(now - window_start_);
    window_start_ = now;
    window_reads_ = 0;
  }
  const bool frequent = now - client->last_read_ < max_tick_;
  client->last_read_ = now;
  if (!frequent || !(busy_ || paced_count_ > 0)) return false;
  client->idle_ticks_ = 0;
  paced_.PushBack(client);
  ++paced_count_;
  if (!timer_.armed()) {
    reactor_->Arm(
        &timer_, now + tick(), [](void* self) { static_cast<ReadPacer*>(self)->OnTick(); }, this);
  }
  return true;
}

void ReadPacer::Remove(Client* client) {
  if (!client->paced()) return;
  client->Unlink();
  --paced_count_;
}

void ReadPacer::OnTick() {
  const MonoTime now = reactor_->Now();
  // Clients leave the list while it is walked: each turn of the loop takes one from the front and
  // puts it back at the end if it stays.
  for (int left = paced_count_; left > 0 && !paced_.empty(); --left) {
    Client* client = paced_.front();
    client->Unlink();
    paced_.PushBack(client);
    client->last_read_ = now;
    if (client->OnReadTick(now)) {
      client->idle_ticks_ = 0;
    } else if (client->paced() && ++client->idle_ticks_ >= kIdleTicks) {
      Remove(client);
      client->OnPacingEnds();
    }
  }
  if (paced_count_ == 0) return;
  reactor_->Arm(
      &timer_, now + tick(), [](void* self) { static_cast<ReadPacer*>(self)->OnTick(); }, this);
}

}  // namespace headrace::http
