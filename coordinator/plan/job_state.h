// The state of every item of a job: pure, no I/O, no clock. The run store's logs are its journal:
// replaying their outcomes and deferrals gives the same state.
//
//   state        event                       next
//   pending      ok                          ok
//   pending      failed, class is final      failed
//   pending      failed, later pass may do   deferred(p) while passes are left, else failed
//   deferred(p)  the same, in pass p + 1     as from pending
//   ok, failed   any result                  unchanged: superseded
//   any          cancelled, not started      unchanged: the item is taken again
//
// Beside its state an item is taken or not: Take() takes in the given order of rows; Adopt() takes
// what a worker holds already when the coordinator has been restarted; Return() gives back what has
// to be read from the dataset again.
//
// Worked race: batch 7 is cut by its deadline, its item is granted again in batch 9, and then the
// late answer of batch 7 arrives. The item has no outcome yet, so the answer is accepted, and batch
// 9's result is superseded: first ok wins, and what was paid for is kept.
#ifndef HEADRACE_COORDINATOR_PLAN_JOB_STATE_H_
#define HEADRACE_COORDINATOR_PLAN_JOB_STATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/outcome/error_class.h"
#include "coordinator/plan/row_order.h"

namespace headrace {

class JobState {
 public:
  // `rows` and `models` at least 1; `passes` in [1, kMaxPasses]. `order` is of `rows` rows.
  static constexpr int kMaxPasses = 12;
  JobState(int64_t rows, int64_t models, int passes, RowOrder order = {});

  ItemId item(RowIndex row, ModelIndex model) const {
    return ItemId(row.value() * static_cast<uint64_t>(models_) + model.value());
  }
  RowIndex row(ItemId item) const {
    return RowIndex(item.value() / static_cast<uint64_t>(models_));
  }
  ModelIndex model(ItemId item) const {
    return ModelIndex(static_cast<uint32_t>(item.value() % static_cast<uint64_t>(models_)));
  }
  bool valid(ItemId item) const { return item.value() < static_cast<uint64_t>(total()); }

  // The next rows, at most `max`, of the model's present pass, in order; they count as taken until
  // Resolve() or until the process ends. Starts the next pass when the present one has nothing left
  // to take, nothing taken, and items were deferred. Empty: nothing to take now.
  std::vector<RowIndex> Take(ModelIndex model, size_t max);
  uint32_t pass(ModelIndex model) const { return per_model_[model.value()].pass; }
  // False when every row of the present pass has been taken.
  bool has_untaken(ModelIndex model) const;
  // Takes one item, out of order. False when it is resolved or taken already.
  bool Adopt(ItemId item);
  // Gives a taken item back: Take() finds it again.
  void Return(ItemId item);
  bool taken(ItemId item) const;
  // Items that are taken and neither resolved nor deferred.
  int64_t outstanding(ModelIndex model) const { return per_model_[model.value()].outstanding; }

  enum class Verdict {
    kOk,          // write the line to the results
    kFailed,      // write the line to the errors
    kDeferred,    // a later pass runs it again: no line
    kSuperseded,  // the item has an outcome already
  };
  // What an outcome means, and the state after it. The item need not be taken: what a worker brings
  // late counts too.
  Verdict Resolve(ItemId item, ErrorClass error_class);

  // For recovery, before the first Take.
  void RestoreOutcome(ItemId item, ErrorClass error_class);
  void RestoreDeferred(ItemId item, uint32_t passes);

  // All item states in a compact form; Restore gives the same states. DataLoss when `snapshot` is
  // not of a job of this shape.
  std::string Snapshot() const;
  absl::Status Restore(absl::string_view snapshot);

  bool resolved(ItemId item) const;
  uint32_t failed_passes(ItemId item) const;  // of a deferred item, else 0

  int64_t rows() const { return rows_; }
  int64_t models() const { return models_; }
  int64_t total() const { return rows_ * models_; }
  int64_t ok() const { return ok_; }
  int64_t failed() const { return failed_; }
  int64_t deferred() const { return deferred_; }
  int64_t superseded() const { return superseded_; }
  bool done() const { return ok_ + failed_ == total(); }
  bool done(ModelIndex model) const { return per_model_[model.value()].resolved == rows_; }
  int64_t ok(ModelIndex model) const { return per_model_[model.value()].ok; }
  int64_t resolved_of(ModelIndex model) const { return per_model_[model.value()].resolved; }
  int64_t failures(ErrorClass error_class) const {
    return failures_[static_cast<size_t>(error_class)];
  }

 private:
  enum : uint8_t { kPending = 0, kOkState = 1, kFailedState = 2, kFirstDeferred = 3 };

  struct PerModel {
    uint32_t pass = 1;
    int64_t cursor = 0;       // positions before it are taken, or not of this pass
    int64_t outstanding = 0;  // taken and neither resolved nor deferred
    int64_t resolved = 0;
    int64_t ok = 0;
    int64_t deferred = 0;        // items that wait for a later pass
    std::set<int64_t> returned;  // positions before the cursor, to be taken again
  };

  uint8_t Get(ItemId item) const;
  void Set(ItemId item, uint8_t state);
  static bool BelongsToPass(uint8_t state, uint32_t pass);
  void Count(ItemId item, uint8_t state, int64_t sign);

  const int64_t rows_;
  const int64_t models_;
  const int passes_;
  const RowOrder order_;
  std::vector<uint8_t> states_;  // two items a byte
  std::vector<PerModel> per_model_;
  absl::flat_hash_set<ItemId> adopted_;  // taken out of order; as many as workers hold
  std::array<int64_t, 256> failures_{};
  int64_t ok_ = 0;
  int64_t failed_ = 0;
  int64_t deferred_ = 0;
  int64_t superseded_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_PLAN_JOB_STATE_H_
