// What a run directory tells a new start of a job: item states, batch ids, and the workers that may
// hold batches.
#ifndef HEADRACE_TESTS_SUPPORT_JOB_RECOVERY_H_
#define HEADRACE_TESTS_SUPPORT_JOB_RECOVERY_H_

#include <string>
#include <vector>

#include "coordinator/plan/job_state.h"
#include "coordinator/run/job_runner.h"
#include "coordinator/store/run_store.h"

namespace headrace {

class JobRecovery final : public RecoveryVisitor {
 public:
  explicit JobRecovery(JobState* state) : state_(state) {}

  void OnOutcome(ItemId item, ErrorClass error_class) override {
    state_->RestoreOutcome(item, error_class);
  }
  void OnDeferred(const DeferredItem& item) override {
    state_->RestoreDeferred(item.item, item.passes);
  }
  absl::Status OnSnapshot(absl::string_view snapshot) override { return state_->Restore(snapshot); }
  void OnBatchIdsReserved(BatchId up_to) override { next_batch = BatchId(up_to.value() + 1); }
  void OnWorker(absl::string_view worker_id, absl::string_view boot_nonce) override {
    workers.push_back({std::string(worker_id), std::string(boot_nonce)});
  }

  BatchId next_batch{1};
  std::vector<WorkerName> workers;

 private:
  JobState* const state_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_JOB_RECOVERY_H_
