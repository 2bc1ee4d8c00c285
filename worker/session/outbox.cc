#include "worker/session/outbox.h"

#include <utility>

namespace headrace {
namespace {

// What a result needs on the wire besides its line and message. An upper bound by the field sizes.
constexpr size_t kResultOverheadBytes = 128;

}  // namespace

void Outbox::Add(v1::ItemResult result) {
  const size_t bytes = result.line().size() + result.message().size() + kResultOverheadBytes;
  if (open_bytes_ + bytes > options_.chunk_bytes) Flush();
  open_bytes_ += bytes;
  unacked_bytes_ += bytes;
  *open_.add_results() = std::move(result);
  if (static_cast<size_t>(open_.results_size()) >= options_.chunk_results) Flush();
}

void Outbox::Add(v1::BatchDone done) { *open_.add_done() = std::move(done); }

void Outbox::Add(v1::ReturnedItems returned) { *open_.add_returned() = std::move(returned); }

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
