#include "coordinator/operator/operator_client.h"

#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/async/backoff.h"
#include "common/base/units.h"
#include "common/rpc/credentials.h"
#include "common/rpc/grpc_stream.h"

namespace headrace {
namespace {

// Of one call that was sent. A coordinator that is alive answers at once; a job's data set is read
// whole before its submission is answered.
constexpr absl::Duration kCallTimeout = absl::Seconds(30);
constexpr absl::Duration kSubmitTimeout = absl::Hours(1);

}  // namespace

OperatorClient::OperatorClient(std::shared_ptr<grpc::Channel> channel,
                               std::shared_ptr<rpc::LiveToken> token, absl::Duration patience)
    : stub_(v1::OperatorService::NewStub(std::move(channel))),
      token_(std::move(token)),
      patience_(patience) {}

template <typename Response, typename Request>
absl::StatusOr<Response> OperatorClient::Call(Method<Response, Request> method,
                                              const Request& request, absl::Duration timeout) {
  BackoffOptions backoff;
  backoff.first_delay = absl::Milliseconds(100);
  backoff.max_delay = absl::Seconds(1);
  Random random(RandomSeed());
  const absl::Time give_up = absl::Now() + patience_;
  for (int retry = 0;; ++retry) {
    grpc::ClientContext context;
    rpc::AddToken(token_->Get(), &context);
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    Response response;
    const absl::Status status = rpc::FromGrpc(((*stub_).*method)(&context, request, &response));
    if (status.ok()) return response;
    if (absl::IsUnimplemented(status)) {
      return absl::FailedPreconditionError(
          "what answers there is no coordinator of this version: it does not know the call");
    }
    if (absl::IsDeadlineExceeded(status)) {
      return absl::UnavailableError(
          absl::StrCat("no answer within ", headrace::FormatDuration(timeout)));
    }
    if (!absl::IsUnavailable(status)) return status;
    const absl::Duration wait = BackoffDelay(backoff, retry, std::nullopt, &random);
    if (absl::Now() + wait >= give_up) return status;
    absl::SleepFor(wait);
  }
}

absl::StatusOr<v1::SubmitJobResponse> OperatorClient::Submit(std::string job_yaml) {
  v1::SubmitJobRequest request;
  request.set_job_yaml(std::move(job_yaml));
  return Call<v1::SubmitJobResponse>(&v1::OperatorService::Stub::SubmitJob, request,
                                     kSubmitTimeout);
}

absl::StatusOr<v1::CancelJobResponse> OperatorClient::Cancel(std::string job, std::string reason) {
  v1::CancelJobRequest request;
  request.set_job(std::move(job));
  request.set_reason(std::move(reason));
  return Call<v1::CancelJobResponse>(&v1::OperatorService::Stub::CancelJob, request, kCallTimeout);
}

absl::StatusOr<v1::GetStatusResponse> OperatorClient::Status() {
  return Call<v1::GetStatusResponse>(&v1::OperatorService::Stub::GetStatus, v1::GetStatusRequest(),
                                     kCallTimeout);
}

}  // namespace headrace
