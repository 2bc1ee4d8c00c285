// Results on their way to the coordinator: gathered into chunks, kept until acknowledged.
#ifndef HEADRACE_WORKER_SESSION_OUTBOX_H_
#define HEADRACE_WORKER_SESSION_OUTBOX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "headrace/v1/session.pb.h"

namespace headrace {

struct OutboxOptions {
  size_t chunk_results = 64;  // a chunk is closed at this many results, or
  // this many bytes, or by Flush() after the flush interval.
  size_t chunk_bytes = size_t{256} << 10;
  size_t max_chunk_bytes = size_t{16} << 20;  // of one that holds a single large result
  size_t max_unacked_bytes = size_t{32} << 20;  // beyond this no item is started
};

// Pure state, no I/O. Chunks are numbered from 1 without gaps; a reconnect rewinds to the first one
// that is not acknowledged, and the coordinator's item states make the repetition harmless.
class Outbox {
 public:
  explicit Outbox(OutboxOptions options) : options_(options) {}

  void set_max_unacked_bytes(size_t bytes) { options_.max_unacked_bytes = bytes; }
  void set_max_chunk_bytes(size_t bytes) { options_.max_chunk_bytes = bytes; }

  // A result with a longer line must not be added.
  size_t max_line_bytes() const {
    return options_.max_chunk_bytes - std::min(options_.max_chunk_bytes, kAroundLineBytes);
  }
  // At most max_chunk_bytes on the wire.
  void Add(v1::ItemResult result);
  // The end of a batch, after its results.
  void Add(v1::BatchDone done);
  void Add(v1::ReturnedItems returned);
  // Closes the open chunk, if it holds anything.
  void Flush();

  // The next chunk to send; stays kept until Ack(). nullptr when there is none.
  const v1::Results* NextToSend();
  void Ack(uint64_t chunk_seq);
  // Sends again, from the first chunk that is not acknowledged.
  void Rewind() { sent_ = 0; }

  // The first chunk that is not acknowledged, and the next to be closed.
  uint64_t first_unacked() const {
    return chunks_.empty() ? next_seq_ : next_seq_ - chunks_.size();
  }
  uint64_t next_seq() const { return next_seq_; }
  // Calls `visit(const v1::ItemResult&)` for each result that is not acknowledged.
  template <typename Visit>
  void ForEachUnacked(Visit visit) const {
    for (const Chunk& chunk : chunks_) {
      for (const v1::ItemResult& result : chunk.message.results()) visit(result);
    }
    for (const v1::ItemResult& result : open_.results()) visit(result);
  }

  bool has_open() const {
    return open_.results_size() > 0 || open_.done_size() > 0 || open_.returned_size() > 0;
  }
  // Chunks that were sent in this session and are not acknowledged.
  bool has_sent() const { return sent_ > 0; }
  bool has_unsent() const { return sent_ < chunks_.size(); }
  bool empty() const { return !has_open() && chunks_.empty(); }
  bool over_budget() const { return unacked_bytes_ >= options_.max_unacked_bytes; }
  size_t unacked_bytes() const { return unacked_bytes_; }
  // Of the chunks that are not acknowledged.
  size_t largest_chunk_bytes() const {
    size_t largest = 0;
    for (const Chunk& chunk : chunks_) largest = std::max(largest, chunk.bytes);
    return largest;
  }

 private:
  struct Chunk {
    v1::Results message;
    size_t bytes = 0;
  };

  // What a chunk of one result holds besides its line: numbers, a message of at most 2,000 bytes.
  static constexpr size_t kAroundLineBytes = size_t{16} << 10;

  // Closes the open chunk when `bytes` more would not fit; then counts them.
  void MakeRoom(size_t bytes);

  OutboxOptions options_;
  v1::Results open_;
  size_t open_bytes_ = 0;
  uint64_t next_seq_ = 1;
  std::deque<Chunk> chunks_;  // closed, not acknowledged
  size_t sent_ = 0;           // the first chunks_ that were sent in this session
  size_t unacked_bytes_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_OUTBOX_H_
