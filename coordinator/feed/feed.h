// The items of one model on their way from the dataset to grants: read ahead by the dataset thread,
// in the order of rows, never more than a named number of them in memory.
#ifndef HEADRACE_COORDINATOR_FEED_FEED_H_
#define HEADRACE_COORDINATOR_FEED_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/async/blocking_thread.h"
#include "common/async/scope.h"
#include "common/async/task.h"
#include "common/base/ids.h"
#include "coordinator/dataset/dataset.h"
#include "coordinator/plan/job_state.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

class Feed {
 public:
  struct Hooks {
    // Items can be taken that could not before, or the feed has run dry.
    absl::AnyInvocable<void()> on_ready;
    // A row gives no request; `item` names the row and its id.
    absl::AnyInvocable<void(v1::Item item, std::string error)> on_bad_row;
    // The dataset cannot be read on.
    absl::AnyInvocable<void(absl::Status)> on_error;
  };

  // Reads `depth` items ahead at most. A row whose item is larger than `max_item_bytes` on the wire
  // is a bad row. Everything outlives the feed; `scope` owns its reads.
  Feed(ModelIndex model, size_t depth, size_t max_item_bytes, const Dataset* dataset,
       JobState* state, BlockingThread* thread, TaskScope* scope, Hooks hooks);
  ~Feed();

  // Starts reading ahead if there is room; called after each Take and when items were resolved.
  void Refill();

  // Up to `max` items in order, given-back ones first, and no more of them than `max_bytes` on the
  // wire, but at least one. Items that were resolved meanwhile are left out.
  std::vector<v1::Item> Take(size_t max, size_t max_bytes);
  // Items that come back from a lease: they are next.
  void GiveBack(std::vector<v1::Item> items);

  size_t ready() const { return ready_.size(); }
  // No read is under way and all rows of the present pass were taken.
  bool dry() const { return !reading_ && !state_->has_untaken(model_); }
  uint32_t pass() const { return state_->pass(model_); }

 private:
  struct Rows {
    absl::Status status;
    std::vector<RenderedRow> rows;
  };
  Rows ReadRows(const std::vector<RowIndex>& wanted);
  static Task<void> ReadAhead(Feed* self, std::vector<RowIndex> wanted);

  const ModelIndex model_;
  const size_t depth_;
  const size_t max_item_bytes_;
  const Dataset* const dataset_;
  JobState* const state_;
  BlockingThread* const thread_;
  TaskScope* const scope_;
  Hooks hooks_;
  std::deque<v1::Item> ready_;
  bool reading_ = false;
  // Used by the dataset thread only, one read at a time.
  std::unique_ptr<RowCursor> cursor_;
  uint64_t next_row_ = 0;  // that the cursor can read
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_FEED_FEED_H_
