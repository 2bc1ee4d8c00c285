// A batch that this worker holds: the grant, its scope, and the way of its outcomes to the outbox.
#ifndef HEADRACE_WORKER_SESSION_HELD_BATCH_H_
#define HEADRACE_WORKER_SESSION_HELD_BATCH_H_

#include <cstdint>
#include <string>

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
  HeldBatch(Reactor* reactor, v1::Grant grant, const v1::JobSpec& job, ModelRuntime* model,
            Gate* gate, Random* random, StopToken kill, Hooks hooks);

  // Runs every item; results go to the outbox as they end.
  Task<void> Run();
  // After Run(): what the coordinator must hear about the rest.
  v1::BatchDone Done() const { return done_; }

  void Cancel(const v1::Cancel& cancel);

  BatchId id() const { return BatchId(grant_.batch_id()); }
  Epoch epoch() const { return Epoch(grant_.epoch()); }
  v1::HeldBatch ToHeld() const;

 private:
  Task<bool> Ready(StopToken stop) override;
  Task<ItemOutcome> Run(size_t index, StopToken start, StopToken call) override;
  void OnOutcome(size_t index, ItemOutcome outcome) override;

  const v1::Grant grant_;
  const std::string run_key_;
  ModelRuntime* const model_;
  const Hooks hooks_;
  v1::BatchDone done_;
  ItemLoop loop_;
  const BatchScopeOptions options_;
  BatchScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_HELD_BATCH_H_
