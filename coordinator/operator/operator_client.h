// An operator's end of a coordinator: blocking calls, for commands.
#ifndef HEADRACE_COORDINATOR_OPERATOR_OPERATOR_CLIENT_H_
#define HEADRACE_COORDINATOR_OPERATOR_OPERATOR_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/token.h"
#include "headrace/v1/operator.grpc.pb.h"

namespace headrace {

// Every call asks again while the coordinator cannot be reached, until `patience` is over; asking
// twice is asking once. Errors: Unavailable when it was not reached, Unauthenticated when it
// refuses the token, FailedPrecondition when it is too old to know the call, and its own answers.
class OperatorClient {
 public:
  OperatorClient(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<rpc::LiveToken> token,
                 absl::Duration patience);

  absl::StatusOr<v1::SubmitJobResponse> Submit(std::string job_yaml);
  absl::StatusOr<v1::CancelJobResponse> Cancel(std::string job, std::string reason);
  absl::StatusOr<v1::GetStatusResponse> Status();

 private:
  template <typename Response, typename Request>
  using Method = grpc::Status (v1::OperatorService::Stub::*)(grpc::ClientContext*, const Request&,
                                                             Response*);
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(Method<Response, Request> method, const Request& request,
                                absl::Duration timeout);

  const std::unique_ptr<v1::OperatorService::Stub> stub_;
  const std::shared_ptr<rpc::LiveToken> token_;
  const absl::Duration patience_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_OPERATOR_OPERATOR_CLIENT_H_
