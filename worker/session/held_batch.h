// A batch that this worker holds: the grant, its scope, and the way of its outcomes to the outbox.
#ifndef HEADRACE_WORKER_SESSION_HELD_BATCH_H_
#define HEADRACE_WORKER_SESSION_HELD_BATCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "headrace/v1/session.pb.h"
#include "worker/batch/batch_scope.h"
#include "worker/batch/item_loop.h"
#include "worker/session/outbox.h"

namespace headrace {

class HeldBatch final : private ItemRunner, private OutcomeSink {
 public:
  struct Hooks {
    absl::string_view worker;
    Event* budget = nullptr;  // set while there is room for more results
    Outbox* outbox = nullptr;
    void (*on_item_finished)(void* context, ModelRuntime* model) = nullptr;
    void* context = nullptr;
  };

  // `model`, `gate`, `random` and the hooks outlive it.
  HeldBatch(Reactor* reactor, v1::Grant grant, MonoTime lease_end, const v1::JobSpec& job,
            ModelRuntime* model, Gate* gate, Random* random, StopToken kill, Hooks hooks);
  ~HeldBatch() override;

  // Runs every item; results go to the outbox as they end.
  Task<void> Run();
  // After Run(): what the coordinator must hear about the rest.
  v1::BatchDone Done() const { return done_; }

  // Of the whole batch, or of single items.
  void Cancel(const v1::Cancel& cancel);
  void CancelAll(StopReason reason) { scope_.Cancel(std::move(reason)); }
  void Drain(StopReason reason) { scope_.Drain(std::move(reason)); }
  // Its lease has come back under a newer epoch, `grant`: it goes on under that one. What is not in
  // it any more is cancelled.
  void TakeUp(const v1::Grant& grant, MonoTime lease_end);
  // Up to `count` items that were not started leave the batch.
  v1::ReturnedItems GiveBack(size_t count);
  // The lease lasts until then, if not longer. When it is over nothing more starts, because the
  // batch may have gone to another worker; calls under way may end, because they are paid for.
  void Renew(MonoTime lease_end);

  BatchId id() const { return BatchId(grant_.batch_id()); }
  Epoch epoch() const { return Epoch(grant_.epoch()); }
  uint64_t job_id() const { return grant_.job_id(); }
  ModelRuntime* model() const { return model_; }
  // With the items that have no result yet, for a coordinator that does not know the batch.
  v1::HeldBatch ToHeld(bool with_items) const;

 private:
  Task<bool> Ready(StopToken stop) override;
  Task<ItemOutcome> Run(size_t index, StopToken start, StopToken call) override;
  MonoTime StartDeadline() override;
  void OnOutcome(size_t index, ItemOutcome outcome) override;
  void LoseLease();

  Reactor* const reactor_;
  v1::Grant grant_;  // the first one, under the newest epoch
  const std::string run_key_;
  ModelRuntime* const model_;
  const Hooks hooks_;
  v1::BatchDone done_;
  std::vector<bool> ended_;  // items whose result is in the outbox, or that were given back
  MonoTime lease_end_;
  Timer lease_timer_;
  ItemLoop loop_;
  const absl::Duration deadline_;  // from the lease
  const BatchScopeOptions options_;
  MonoTime start_deadline_;  // moves as it is learned how long a call takes
  BatchScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_HELD_BATCH_H_
