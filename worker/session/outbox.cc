#include "worker/session/outbox.h"

#include <utility>

namespace headrace {
namespace {

// The tag and the length of a part on the wire, and of the chunk's own number: an upper bound.
constexpr size_t kPartOverheadBytes = 16;

}  // namespace

void Outbox::MakeRoom(size_t bytes) {
  if (open_bytes_ + bytes > options_.chunk_bytes) Flush();
  open_bytes_ += bytes;
  unacked_bytes_ += bytes;
}

void Outbox::Add(v1::ItemResult result) {
  MakeRoom(result.ByteSizeLong() + kPartOverheadBytes);
  *open_.add_results() = std::move(result);
  // A large result goes alone: what comes next might not fit beside it.
  const bool full = static_cast<size_t>(open_.results_size()) >= options_.chunk_results ||
                    open_bytes_ >= options_.chunk_bytes;
  if (full) Flush();
}

void Outbox::Add(v1::BatchDone done) {
  MakeRoom(done.ByteSizeLong() + kPartOverheadBytes);
  *open_.add_done() = std::move(done);
}

void Outbox::Add(v1::ReturnedItems returned) {
  MakeRoom(returned.ByteSizeLong() + kPartOverheadBytes);
  *open_.add_returned() = std::move(returned);
}

void Outbox::Flush() {
  if (!has_open()) return;
  open_.set_chunk_seq(next_seq_++);
  chunks_.push_back({std::move(open_), open_bytes_});
  open_ = {};
  open_bytes_ = 0;
}

const v1::Results* Outbox::NextToSend() {
  if (sent_ == chunks_.size()) return nullptr;
  return &chunks_[sent_++].message;
}

void Outbox::Ack(uint64_t chunk_seq) {
  while (!chunks_.empty() && chunks_.front().message.chunk_seq() <= chunk_seq) {
    unacked_bytes_ -= chunks_.front().bytes;
    chunks_.pop_front();
    if (sent_ > 0) --sent_;
  }
}

}  // namespace headrace
