// What a job asks of the coordinator that runs it.
#ifndef HEADRACE_COORDINATOR_RUN_JOB_CLUSTER_H_
#define HEADRACE_COORDINATOR_RUN_JOB_CLUSTER_H_

#include "coordinator/plan/lease_table.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

class JobCluster {
 public:
  virtual ~JobCluster() = default;
  // Something can be granted that could not before.
  virtual void PumpGrants() = 0;
  virtual bool connected(WorkerKey worker) const = 0;
  // Best effort: a message that is lost is made up for at the worker's next beat or hello.
  virtual void Send(WorkerKey worker, v1::CoordinatorMessage message) = 0;
  virtual void Broadcast(const v1::CoordinatorMessage& message) = 0;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_RUN_JOB_CLUSTER_H_
