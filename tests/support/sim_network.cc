#include "tests/support/sim_network.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "common/async/wait.h"

namespace headrace {
namespace {

bool IsFirst(const v1::WorkerMessage& message) { return message.has_hello(); }
bool IsFirst(const v1::CoordinatorMessage& message) { return message.has_welcome(); }

}  // namespace

// One direction of a stream: parcels on their way, in the order in which they will arrive.
template <typename T>
class SimNetwork::Pipe {
 public:
  struct Parcel {
    MonoTime due;
    std::optional<T> message;  // else the end of the stream
    absl::Status end;
  };

  explicit Pipe(Reactor* reactor) : reactor_(reactor), changed_(reactor) {}
  ~Pipe() { reactor_->Cancel(&timer_); }

  // Behind everything else, or where its time puts it.
  void Push(Parcel parcel, bool in_order) {
    parcel.due = std::max(parcel.due, in_order ? last_due_ : first_due_);
    if (in_order) last_due_ = parcel.due;
    if (first_due_ == MonoTime()) first_due_ = parcel.due;
    auto at = std::upper_bound(parcels_.begin(), parcels_.end(), parcel,
                               [](const Parcel& a, const Parcel& b) { return a.due < b.due; });
    parcels_.insert(at, std::move(parcel));
    Wake();
  }
  std::optional<Parcel> Pop(MonoTime held_until) {
    const MonoTime now = reactor_->Now();
    if (parcels_.empty() || std::max(parcels_.front().due, held_until) > now) return std::nullopt;
    std::optional<Parcel> first(std::move(parcels_.front()));
    parcels_.erase(parcels_.begin());
    return first;
  }
  // Something may have come, or will never come.
  void Wake() { changed_.Set(); }
  // Waits for the next parcel that is due after a Pop() that gave nothing.
  Event::Awaiter Wait(MonoTime held_until, StopToken stop) {
    changed_.Reset();
    if (!parcels_.empty()) {
      reactor_->Arm(
          &timer_, std::max(parcels_.front().due, held_until),
          [](void* self) { static_cast<Pipe*>(self)->Wake(); }, this);
    }
    return changed_.Wait(stop);
  }
  template <typename Visit>
  void Drop(Visit visit) {
    for (const Parcel& parcel : parcels_) {
      if (parcel.message.has_value()) visit(*parcel.message);
    }
    parcels_.clear();
  }

 private:
  Reactor* const reactor_;
  std::vector<Parcel> parcels_;
  MonoTime first_due_;  // nothing overtakes the first message
  MonoTime last_due_;
  Event changed_;
  Timer timer_;
};

struct SimNetwork::Link {
  Link(SimNetwork* n, SimStreamId i) : network(n), id(i), up(n->reactor_), down(n->reactor_) {}
  ~Link() {
    network->reactor_->Cancel(&worker_timer);
    network->reactor_->Cancel(&coordinator_timer);
    LoseDown();
  }

  void LoseDown() {
    down.Drop([this](const v1::CoordinatorMessage& m) { network->observer_->OnLost(id, m); });
  }
  void BreakWorker() {
    if (std::exchange(worker_broken, true)) return;
    LoseDown();
    down.Wake();
  }
  void BreakCoordinator() {
    coordinator_broken = true;
    up.Wake();
  }
  void BreakLater(absl::Duration at_worker, absl::Duration at_coordinator) {
    Reactor* reactor = network->reactor_;
    reactor->Arm(
        &worker_timer, reactor->Now() + at_worker,
        [](void* self) { static_cast<Link*>(self)->BreakWorker(); }, this);
    reactor->Arm(
        &coordinator_timer, reactor->Now() + at_coordinator,
        [](void* self) { static_cast<Link*>(self)->BreakCoordinator(); }, this);
  }
  // By the messages that an end receives.
  bool broken(const Pipe<v1::CoordinatorMessage>*) const { return worker_broken; }
  bool broken(const Pipe<v1::WorkerMessage>*) const { return coordinator_broken; }

  SimNetwork* const network;
  const SimStreamId id;
  Pipe<v1::WorkerMessage> up;
  Pipe<v1::CoordinatorMessage> down;
  bool worker_broken = false;
  bool coordinator_broken = false;
  Timer worker_timer;
  Timer coordinator_timer;
};

// One end.
template <typename Out, typename In>
class SimNetwork::Stream final : public rpc::MessageStream<Out, In> {
 public:
  Stream(std::shared_ptr<Link> link, Pipe<Out>* out, Pipe<In>* in)
      : link_(std::move(link)), out_(out), in_(in) {}

  Task<std::optional<In>> Read(StopToken stop) override {
    SimNetwork* const network = link_->network;
    while (!closed_) {
      if (link_->broken(in_)) {
        if (status_.ok()) status_ = absl::UnavailableError("the connection broke");
        break;
      }
      const MonoTime held_until = network->HeldUntil(link_->id.process);
      std::optional<typename Pipe<In>::Parcel> parcel = in_->Pop(held_until);
      if (parcel.has_value() && !parcel->message.has_value()) {
        status_ = parcel->end;
        closed_ = true;
        break;
      }
      if (parcel.has_value()) {
        network->observer_->OnDelivered(link_->id, *parcel->message);
        co_return std::move(parcel->message);
      }
      if (stop.stopped()) break;
      co_await in_->Wait(held_until, stop);
    }
    co_return std::nullopt;
  }
  Task<bool> Write(Out message) override {
    if (closed_ || link_->broken(in_)) {
      if (status_.ok()) status_ = absl::UnavailableError("the connection is broken");
      co_return false;
    }
    link_->network->Carry(link_.get(), out_, std::move(message));
    co_await Yield(link_->network->reactor_);
    co_return true;
  }
  Task<void> Close(absl::Status status) override {
    if (!closed_ && !link_->broken(in_)) {
      out_->Push({link_->network->reactor_->Now(), std::nullopt, std::move(status)}, true);
    }
    closed_ = true;
    in_->Wake();
    co_return;
  }
  absl::Status status() const override { return status_; }

 private:
  const std::shared_ptr<Link> link_;  // owned by both ends: either may go first
  Pipe<Out>* const out_;
  Pipe<In>* const in_;
  bool closed_ = false;
  absl::Status status_;
};

SimNetwork::SimNetwork(Reactor* reactor, uint64_t seed, SimNetworkOptions options,
                       Observer* observer)
    : reactor_(reactor), random_(seed), options_(options), observer_(observer) {}

SimNetwork::~SimNetwork() = default;

void SimNetwork::Listen(AcceptFunction accept) { accept_ = std::move(accept); }

void SimNetwork::StopListening(absl::Duration notice) {
  accept_ = nullptr;
  for (const std::weak_ptr<Link>& weak : links_) {
    if (std::shared_ptr<Link> link = weak.lock()) {
      link->BreakLater(random_.Between(absl::ZeroDuration(), notice), absl::ZeroDuration());
      link->BreakCoordinator();
    }
  }
  links_.clear();
}

std::unique_ptr<WorkerStream> SimNetwork::Dial(int process) {
  Host& host = hosts_[process];
  auto link = std::make_shared<Link>(this, SimStreamId{process, next_stream_++});
  auto worker_end = std::make_unique<Stream<v1::WorkerMessage, v1::CoordinatorMessage>>(
      link, &link->up, &link->down);
  if (host.dead || accept_ == nullptr) {
    ++counts_.refused;
    link->worker_broken = link->coordinator_broken = true;
    return worker_end;
  }
  host.link = link;
  std::erase_if(links_, [](const std::weak_ptr<Link>& weak) { return weak.expired(); });
  links_.push_back(link);
  accept_(std::make_unique<Stream<v1::CoordinatorMessage, v1::WorkerMessage>>(link, &link->down,
                                                                              &link->up));
  return worker_end;
}

void SimNetwork::Break(int process, absl::Duration at_worker, absl::Duration at_coordinator) {
  std::shared_ptr<Link> link = hosts_[process].link.lock();
  if (link == nullptr) return;
  ++counts_.broken;
  link->BreakLater(at_worker, at_coordinator);
}

void SimNetwork::Hold(int process, absl::Duration duration) {
  ++counts_.held;
  Host& host = hosts_[process];
  host.held_until = std::max(host.held_until, reactor_->Now() + duration);
}

void SimNetwork::Kill(int process, absl::Duration notice) {
  Host& host = hosts_[process];
  host.dead = true;
  if (std::shared_ptr<Link> link = host.link.lock()) {
    link->BreakLater(absl::ZeroDuration(), notice);
    link->BreakWorker();
  }
}

template <typename T>
SimNetwork::Verdict SimNetwork::Judge(int process, const T& message) {
  if constexpr (std::is_same_v<T, v1::WorkerMessage>) {
    if (to_coordinator_) return to_coordinator_(process, message);
  } else {
    if (to_worker_) return to_worker_(process, message);
  }
  if (IsFirst(message)) return Verdict::kDeliver;
  if (random_.Chance(options_.loss)) return Verdict::kLose;
  return random_.Chance(options_.repetition) ? Verdict::kTwice : Verdict::kDeliver;
}

template <typename T>
void SimNetwork::Carry(Link* link, Pipe<T>* pipe, T message) {
  observer_->OnSent(link->id, message);
  Verdict verdict = Judge(link->id.process, message);
  counts_.lost += verdict == Verdict::kLose;
  counts_.repeated += verdict == Verdict::kTwice;
  if constexpr (std::is_same_v<T, v1::CoordinatorMessage>) {
    // The other end is gone and this one does not know it yet.
    if (link->worker_broken) verdict = Verdict::kLose;
    if (verdict == Verdict::kLose) observer_->OnLost(link->id, message);
  }
  if (verdict == Verdict::kLose) return;
  const MonoTime now = reactor_->Now();
  auto arrival = [&] { return now + random_.Between(options_.delay.first, options_.delay.second); };
  if (verdict == Verdict::kTwice) {
    pipe->Push(
        {arrival() + random_.Between(absl::ZeroDuration(), options_.reorder_by), message, {}},
        false);
  }
  const bool late = !IsFirst(message) && random_.Chance(options_.reorder);
  counts_.reordered += late;
  const absl::Duration lateness =
      late ? random_.Between(absl::ZeroDuration(), options_.reorder_by) : absl::ZeroDuration();
  pipe->Push({arrival() + lateness, std::move(message), {}}, !late);
}

}  // namespace headrace
