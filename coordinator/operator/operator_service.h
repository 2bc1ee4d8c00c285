// The gRPC adapter of an Operator: no logic. gRPC's threads only post; the calls run on the
// reactor.
#ifndef HEADRACE_COORDINATOR_OPERATOR_OPERATOR_SERVICE_H_
#define HEADRACE_COORDINATOR_OPERATOR_OPERATOR_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/base/mutex.h"
#include "common/rpc/credentials.h"
#include "coordinator/operator/operator.h"
#include "headrace/v1/operator.grpc.pb.h"

namespace headrace {

class OperatorService final : public v1::OperatorService::CallbackService {
 public:
  // Calls under way at once; more are refused with RESOURCE_EXHAUSTED. Chosen, not measured.
  static constexpr int kMaxCalls = 64;

  // `reactor`, `op` and `token` outlive it.
  OperatorService(Reactor* reactor, Operator* op, const rpc::TokenCheck* token);
  ~OperatorService() override;

  // Asks the calls under way to end. Thread-safe; does nothing when none was made.
  void AskToStop();

  // Stops the calls under way and waits for them, those too whose callers are gone. After gRPC has
  // ended. Blocking, and not on the reactor's thread, which must run meanwhile if any call was
  // made. Idempotent.
  void Stop();

 private:
  template <typename Request, typename Response>
  class Call;

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

  // The token and the number of calls. OK counts one more call, which EndCall() takes back.
  grpc::Status BeginCall(const grpc::CallbackServerContext& context);
  void EndCall();
  bool AnyCall();
  void WaitForCalls();
  void WaitForTurn();

  Reactor* const reactor_;
  Operator* const operator_;
  const rpc::TokenCheck* const token_;
  Mutex mutex_;
  CondVar changed_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool any_call_ ABSL_GUARDED_BY(mutex_) = false;
  bool turned_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ = false;
  TaskScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_OPERATOR_OPERATOR_SERVICE_H_
