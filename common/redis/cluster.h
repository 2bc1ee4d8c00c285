// The nodes of a Redis Cluster: a link to each master, and which of them owns which slot.
#ifndef HEADRACE_COMMON_REDIS_CLUSTER_H_
#define HEADRACE_COMMON_REDIS_CLUSTER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/redis/link.h"
#include "common/redis/slot_map.h"
#include "common/redis/slots.h"
#include "common/redis/url.h"

namespace headrace::redis {

// Learns the slots from any node, and again whenever something looks wrong: a redirection, a node
// that cannot be reached. What it knows may always be old: MOVED puts it right.
class Cluster {
 public:
  // More nodes than this are not kept. Chosen: pools of one account live on one node anyway.
  static constexpr size_t kMaxNodes = 256;

  // All pointers outlive the cluster; *scope runs the links.
  Cluster(Reactor* reactor, Url url, LinkOptions options, Random* random, Traffic* traffic,
          TaskScope* scope);
  ~Cluster();

  // Learns the slots, and keeps learning, until `stop`.
  Task<void> Run(StopToken stop);

  // The link to the owner of `slot`; null when nobody is known to own it.
  std::shared_ptr<Link> LinkFor(uint16_t slot);
  // The link to a node, also one that is not known yet; null when there are too many.
  std::shared_ptr<Link> LinkTo(const HostPort& host);

  // What a MOVED said. A redirection without a host is to the host of `place`, which answered.
  HostPort Target(const Redirect& redirect, absl::string_view place) const;
  void SetOwner(uint16_t slot, const HostPort& host);

  // The slots are asked for again soon. Many requests make one question.
  void Refresh() { wanted_.Set(); }
  // True when there are slots, or a person must change something; false when stopped first.
  Event::Awaiter WaitKnown(StopToken stop) { return known_.Wait(stop); }

  bool has_slots() const { return has_slots_; }
  // Of the last question, when it failed.
  const absl::Status& error() const { return error_; }
  MonoTime error_at() const { return error_at_; }
  bool refused() const { return absl::IsFailedPrecondition(error_); }

  // The links to the owners of slots.
  std::vector<std::shared_ptr<Link>> Owners() const;
  // Where the slots, or anything else, can be asked for: the known nodes and those of the URL, in
  // an order that changes.
  std::vector<HostPort> AskableNodes();

 private:
  struct Node;

  static Task<void> RunNode(std::shared_ptr<Node> node);
  Task<absl::Status> Learn(StopToken stop);
  Task<absl::StatusOr<std::vector<SlotRange>>> Ask(HostPort host, StopToken stop);
  Node* Ensure(const HostPort& host);
  void Adopt(const std::vector<SlotRange>& ranges);

  Reactor* const reactor_;
  const Url url_;
  const LinkOptions options_;
  Random* const random_;
  Traffic* const traffic_;
  TaskScope* const scope_;
  Traffic own_traffic_;  // of the questions for slots

  std::map<HostPort, std::shared_ptr<Node>> nodes_;  // shared with RunNode()
  std::vector<Node*> owners_;                        // by slot; null: unknown
  bool has_slots_ = false;
  absl::Status error_;
  MonoTime error_at_;
  Event wanted_;
  Event known_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_CLUSTER_H_
