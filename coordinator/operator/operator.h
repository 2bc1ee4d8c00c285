// What people and scripts may ask of a coordinator. The coordinator's job table implements it;
// gRPC (operator_service.h) carries it.
#ifndef HEADRACE_COORDINATOR_OPERATOR_OPERATOR_H_
#define HEADRACE_COORDINATOR_OPERATOR_OPERATOR_H_

#include "absl/status/statusor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "headrace/v1/operator.pb.h"

namespace headrace {

// All calls are made on the reactor thread. A call whose caller went away still runs to its end;
// `stop` is stopped when the server ends.
class Operator {
 public:
  virtual ~Operator() = default;

  // Starts a job, or finds it when one of that name and content runs. FailedPrecondition when one
  // of that name runs with other content, InvalidArgument with the problems of the job file in
  // words.
  virtual Task<absl::StatusOr<v1::SubmitJobResponse>> Submit(v1::SubmitJobRequest request,
                                                             StopToken stop) = 0;
  // Asks a job to end, and answers with its state. NotFound for an unknown name or id.
  virtual Task<absl::StatusOr<v1::CancelJobResponse>> Cancel(v1::CancelJobRequest request,
                                                             StopToken stop) = 0;
  // Never waits.
  virtual absl::StatusOr<v1::GetStatusResponse> Status() = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_OPERATOR_OPERATOR_H_
