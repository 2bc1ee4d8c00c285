#include "common/redis/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/redis/protocol.h"

namespace headrace::redis {
namespace {

// Between two questions for the slots. Chosen: a failover takes seconds.
constexpr absl::Duration kRefreshPause = absl::Milliseconds(100);
// A link to a node that owns nothing is kept for this long after its last use, for migrations.
constexpr absl::Duration kKeepUnused = absl::Seconds(60);

}  // namespace

struct Cluster::Node {
  Node(std::shared_ptr<Link> l, StopToken parent) : link(std::move(l)), stop(parent) {}

  const std::shared_ptr<Link> link;
  StopSource stop;
  MonoTime last_used;
};

Cluster::Cluster(Reactor* reactor, Url url, LinkOptions options, Random* random, Traffic* traffic,
                 TaskScope* scope)
    : reactor_(reactor),
      url_(std::move(url)),
      options_(std::move(options)),
      random_(random),
      traffic_(traffic),
      scope_(scope),
      owners_(kSlotCount, nullptr),
      wanted_(reactor),
      known_(reactor) {}

Cluster::~Cluster() = default;

Task<void> Cluster::Run(StopToken stop) {
  int failures = 0;
  while (!stop.stopped()) {
    wanted_.Reset();
    absl::Status learned = co_await Learn(stop);
    if (stop.stopped()) break;
    absl::Duration pause = kRefreshPause;
    if (learned.ok()) {
      failures = 0;
    } else {
      if (learned.message() != error_.message()) HR_LOG(kWarning) << learned.message();
      pause = std::max(pause, BackoffDelay(options_.backoff, failures++, std::nullopt, random_));
      error_at_ = reactor_->Now();
    }
    error_ = std::move(learned);
    has_slots_ || refused() ? known_.Set() : known_.Reset();
    co_await Sleep(reactor_,
                   pause + random_->Between(absl::ZeroDuration(), options_.backoff.jitter), stop);
    if (error_.ok()) co_await wanted_.Wait(stop);
  }
  known_.Set();
}

Task<absl::Status> Cluster::Learn(StopToken stop) {
  absl::Status error = absl::UnavailableError("Redis Cluster: no node to ask");
  for (const HostPort& host : AskableNodes()) {
    absl::StatusOr<std::vector<SlotRange>> ranges = co_await Ask(host, stop);
    if (stop.stopped()) co_return absl::CancelledError("stopped");
    if (ranges.ok() && !ranges->empty()) {
      Adopt(*ranges);
      co_return absl::OkStatus();
    }
    error = ranges.ok()
                ? absl::UnavailableError(
                      absl::StrCat("Redis Cluster at ", host.ToString(), ": no slots are assigned"))
                : Annotate(ranges.status(), absl::StrCat("Redis Cluster at ", host.ToString()));
  }
  co_return error;
}

Task<absl::StatusOr<std::vector<SlotRange>>> Cluster::Ask(HostPort host, StopToken stop) {
  absl::StatusOr<Place> place = MakePlace(reactor_, url_, host);
  if (!place.ok()) co_return place.status();
  absl::StatusOr<std::shared_ptr<Connection>> connection =
      co_await Connection::Open(reactor_, std::move(place->connector), options_.login,
                                options_.connection, &own_traffic_, stop);
  if (!connection.ok()) co_return connection.status();
  std::string wire;
  AppendCommand({"CLUSTER", "SLOTS"}, &wire);
  const Outcome outcome =
      co_await Connection::Call(*connection, &wire, /*asking=*/false,
                                reactor_->Now() + options_.connection.command_timeout, stop);
  if (outcome.error == Error::kServer) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("no cluster: write redis://... (", outcome.text, ")"));
  }
  if (!outcome.ok()) co_return outcome.status();
  co_return ParseSlots(outcome.reply, host.host);
}

void Cluster::Adopt(const std::vector<SlotRange>& ranges) {
  std::fill(owners_.begin(), owners_.end(), nullptr);
  std::set<const Node*> used;
  for (const SlotRange& range : ranges) {
    Node* const node = Ensure(range.master);
    if (node == nullptr) continue;
    used.insert(node);
    std::fill(owners_.begin() + range.first, owners_.begin() + range.last + 1, node);
  }
  has_slots_ = !used.empty();
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    Node* const node = it->second.get();
    const bool keep = used.contains(node) || node->link->pending() > 0 ||
                      reactor_->Now() - node->last_used < kKeepUnused;
    if (!keep) node->stop.RequestStop(StopCode::kOwnerDone);
    it = keep ? std::next(it) : nodes_.erase(it);
  }
}

Cluster::Node* Cluster::Ensure(const HostPort& host) {
  auto it = nodes_.find(host);
  if (it != nodes_.end()) return it->second.get();
  if (nodes_.size() >= kMaxNodes) return nullptr;
  absl::StatusOr<Place> place = MakePlace(reactor_, url_, host);
  if (!place.ok()) {
    HR_LOG(kWarning) << "Redis Cluster: " << place.status().message();
    return nullptr;
  }
  auto link = std::make_shared<Link>(reactor_, std::make_unique<FixedLocator>(*std::move(place)),
                                     options_, random_, traffic_);
  auto node = std::make_shared<Node>(std::move(link), scope_->token());
  node->last_used = reactor_->Now();
  if (!scope_->Spawn(RunNode(node))) return nullptr;
  return nodes_.emplace(host, std::move(node)).first->second.get();
}

Task<void> Cluster::RunNode(std::shared_ptr<Node> node) {
  co_await Link::Run(node->link, node->stop.token());
}

std::shared_ptr<Link> Cluster::LinkFor(uint16_t slot) {
  Node* const node = owners_[slot];
  if (node == nullptr) return nullptr;
  node->last_used = reactor_->Now();
  return node->link;
}

std::shared_ptr<Link> Cluster::LinkTo(const HostPort& host) {
  Node* const node = Ensure(host);
  if (node == nullptr) return nullptr;
  node->last_used = reactor_->Now();
  return node->link;
}

HostPort Cluster::Target(const Redirect& redirect, absl::string_view place) const {
  HostPort target{redirect.host, redirect.port};
  if (!target.host.empty()) return target;
  for (const auto& [host, node] : nodes_) {
    if (host.ToString() == place) target.host = host.host;
  }
  return target;
}

void Cluster::SetOwner(uint16_t slot, const HostPort& host) {
  Node* const node = Ensure(host);
  if (node != nullptr) owners_[slot] = node;
}

std::vector<std::shared_ptr<Link>> Cluster::Owners() const {
  std::set<const Node*> seen;
  std::vector<std::shared_ptr<Link>> links;
  for (const Node* node : owners_) {
    if (node != nullptr && seen.insert(node).second) links.push_back(node->link);
  }
  return links;
}

std::vector<HostPort> Cluster::AskableNodes() {
  std::vector<HostPort> hosts;
  for (const auto& [host, node] : nodes_) {
    // One that is up answers soon.
    if (node->link->up()) hosts.push_back(host);
  }
  std::shuffle(hosts.begin(), hosts.end(), *random_);
  std::vector<HostPort> seeds = url_.hosts;
  std::shuffle(seeds.begin(), seeds.end(), *random_);
  for (const HostPort& host : seeds) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  for (const auto& [host, node] : nodes_) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace headrace::redis
