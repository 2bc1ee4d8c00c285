#include "coordinator/operator/operator_service.h"

#include <utility>

#include "common/rpc/grpc_stream.h"

namespace headrace {

// One call. Belongs to the reactor's thread, and goes when gRPC is done with it and its work has
// ended, whichever comes last: gRPC's end must not wait for work whose caller is gone.
template <typename Request, typename Response>
class OperatorService::Call final : public grpc::ServerUnaryReactor {
 public:
  using Method = Task<absl::StatusOr<Response>> (*)(Operator* op, Request request, StopToken stop);

  static grpc::ServerUnaryReactor* Begin(OperatorService* service,
                                         grpc::CallbackServerContext* context,
                                         const Request& request, Response* response,
                                         Method method) {
    const grpc::Status begun = service->BeginCall(*context);
    if (!begun.ok()) {
      grpc::ServerUnaryReactor* refusal = context->DefaultReactor();
      refusal->Finish(begun);
      return refusal;
    }
    Call* call = new Call(service, response);
    service->reactor_->Post([call, request, method]() mutable {
      OperatorService* owner = call->service_;
      if (owner->scope_.Spawn(Run(call, std::move(request), method))) return;
      call->FinishOnce(absl::UnavailableError("the coordinator is ending"));
      call->EndWork();
    });
    return call;
  }

 private:
  Call(OperatorService* service, Response* response) : service_(service), response_(response) {}

  static Task<void> Run(Call* call, Request request, Method method) {
    OperatorService* service = call->service_;
    absl::StatusOr<Response> answer =
        co_await method(service->operator_, std::move(request), service->scope_.token());
    if (answer.ok() && !call->finished_) *call->response_ = *std::move(answer);
    call->FinishOnce(answer.status());
    call->EndWork();
  }

  void FinishOnce(const absl::Status& status) {
    if (!std::exchange(finished_, true)) Finish(rpc::ToGrpc(status));
  }
  void EndWork() {
    working_ = false;
    DeleteIfOver();
  }
  void DeleteIfOver() {
    if (working_ || !done_) return;
    OperatorService* service = service_;
    delete this;
    service->EndCall();
  }

  void OnCancel() override {
    service_->reactor_->Post([this] { FinishOnce(absl::CancelledError("the caller is gone")); });
  }
  void OnDone() override {
    service_->reactor_->Post([this] {
      done_ = true;
      DeleteIfOver();
    });
  }

  OperatorService* const service_;
  Response* const response_;  // gRPC's, until Finish()
  bool working_ = true;
  bool finished_ = false;
  bool done_ = false;
};

OperatorService::OperatorService(Reactor* reactor, Operator* op, const rpc::TokenCheck* token)
    : reactor_(reactor), operator_(op), token_(token), scope_(reactor, StopToken()) {}

OperatorService::~OperatorService() { Stop(); }

void OperatorService::AskToStop() {
  if (!AnyCall()) return;
  reactor_->Post([this] { scope_.RequestStop({StopCode::kShutdown, "the coordinator ends"}); });
}

bool OperatorService::AnyCall() {
  MutexLock lock(&mutex_);
  return any_call_;
}

void OperatorService::Stop() {
  if (std::exchange(stopped_, true) || !AnyCall()) return;
  AskToStop();
  WaitForCalls();
  // The frame of the last call is destroyed at the end of the turn that ended it.
  WaitForTurn();
}

void OperatorService::WaitForCalls() {
  MutexLock lock(&mutex_);
  while (calls_ > 0) changed_.Wait(&mutex_);
}

void OperatorService::WaitForTurn() {
  reactor_->Post([this] {
    MutexLock lock(&mutex_);
    turned_ = true;
    changed_.NotifyAll();
  });
  MutexLock lock(&mutex_);
  while (!turned_) changed_.Wait(&mutex_);
}

grpc::Status OperatorService::BeginCall(const grpc::CallbackServerContext& context) {
  const grpc::Status known = token_->Check(context);
  if (!known.ok()) return known;
  MutexLock lock(&mutex_);
  if (calls_ >= kMaxCalls) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "too many calls of operators are under way; try again");
  }
  ++calls_;
  any_call_ = true;
  return grpc::Status::OK;
}

void OperatorService::EndCall() {
  MutexLock lock(&mutex_);
  --calls_;
  changed_.NotifyAll();
}

grpc::ServerUnaryReactor* OperatorService::SubmitJob(grpc::CallbackServerContext* context,
                                                     const v1::SubmitJobRequest* request,
                                                     v1::SubmitJobResponse* response) {
  return Call<v1::SubmitJobRequest, v1::SubmitJobResponse>::Begin(
      this, context, *request, response, [](Operator* op, v1::SubmitJobRequest r, StopToken stop) {
        return op->Submit(std::move(r), stop);
      });
}

grpc::ServerUnaryReactor* OperatorService::CancelJob(grpc::CallbackServerContext* context,
                                                     const v1::CancelJobRequest* request,
                                                     v1::CancelJobResponse* response) {
  return Call<v1::CancelJobRequest, v1::CancelJobResponse>::Begin(
      this, context, *request, response, [](Operator* op, v1::CancelJobRequest r, StopToken stop) {
        return op->Cancel(std::move(r), stop);
      });
}

grpc::ServerUnaryReactor* OperatorService::GetStatus(grpc::CallbackServerContext* context,
                                                     const v1::GetStatusRequest* request,
                                                     v1::GetStatusResponse* response) {
  return Call<v1::GetStatusRequest, v1::GetStatusResponse>::Begin(
      this, context, *request, response,
      [](Operator* op, v1::GetStatusRequest /*r*/, StopToken /*stop*/)
          -> Task<absl::StatusOr<v1::GetStatusResponse>> { co_return op->Status(); });
}

}  // namespace headrace
