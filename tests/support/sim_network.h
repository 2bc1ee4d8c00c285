// A network between simulated worker processes and their coordinator, in virtual time and from one
// seed. What real networks do, streams do here: messages are late, a stream breaks for its two ends
// at different times or for one only, a host is cut off for a while, nobody listens. What TCP never
// does inside a live stream (loss, repetition, another order) can be asked for too, because the
// session promises to bear it.
#ifndef HEADRACE_TESTS_SUPPORT_SIM_NETWORK_H_
#define HEADRACE_TESTS_SUPPORT_SIM_NETWORK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "coordinator/session/worker_session.h"
#include "worker/session/worker.h"

namespace headrace {

// Names one stream: of which worker process, and which of its streams.
struct SimStreamId {
  int process = 0;
  uint64_t stream = 0;
  friend auto operator<=>(const SimStreamId&, const SimStreamId&) = default;
};

struct SimNetworkOptions {
  std::pair<absl::Duration, absl::Duration> delay{absl::Milliseconds(1), absl::Milliseconds(20)};
  // Of single messages in a live stream; the first of each side is spared.
  double loss = 0;
  double repetition = 0;
  double reorder = 0;
  absl::Duration reorder_by = absl::Milliseconds(300);  // at most
};

class SimNetwork {
 public:
  // Sees every message twice: when its sender hands it over, and when its receiver takes it.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnSent(SimStreamId stream, const v1::WorkerMessage& message) = 0;
    virtual void OnSent(SimStreamId stream, const v1::CoordinatorMessage& message) = 0;
    virtual void OnDelivered(SimStreamId stream, const v1::WorkerMessage& message) = 0;
    virtual void OnDelivered(SimStreamId stream, const v1::CoordinatorMessage& message) = 0;
    // It will not be delivered.
    virtual void OnLost(SimStreamId stream, const v1::CoordinatorMessage& message) = 0;
  };
  enum class Verdict { kDeliver, kLose, kTwice };
  using AcceptFunction = absl::AnyInvocable<void(std::unique_ptr<CoordinatorStream>)>;

  struct Counts {
    int64_t lost = 0;
    int64_t repeated = 0;
    int64_t reordered = 0;
    int64_t broken = 0;  // streams
    int64_t held = 0;    // hosts, for a while
    int64_t refused = 0;
  };

  SimNetwork(Reactor* reactor, uint64_t seed, SimNetworkOptions options, Observer* observer);
  ~SimNetwork();

  // Faults of live streams on and off.
  void set_options(SimNetworkOptions options) { options_ = options; }
  // Decide about each message instead of chance, for scripts.
  void set_to_worker(absl::AnyInvocable<Verdict(int process, const v1::CoordinatorMessage&)> f) {
    to_worker_ = std::move(f);
  }
  void set_to_coordinator(absl::AnyInvocable<Verdict(int process, const v1::WorkerMessage&)> f) {
    to_coordinator_ = std::move(f);
  }

  // The coordinator listens; each stream that a worker opens is handed to `accept`.
  void Listen(AcceptFunction accept);
  // It is gone: its ends are broken at once, those of the workers within `notice`.
  void StopListening(absl::Duration notice);

  std::unique_ptr<WorkerStream> Dial(int process);

  // The open stream of a process breaks: for the worker and for the coordinator after these times.
  // Infinite: that end never notices (half open).
  void Break(int process, absl::Duration at_worker, absl::Duration at_coordinator);
  // Nothing passes for this long; then everything comes.
  void Hold(int process, absl::Duration duration);
  // The process is dead: its end is broken and it opens no more streams; the coordinator notices
  // after `notice`.
  void Kill(int process, absl::Duration notice);

  const Counts& counts() const { return counts_; }

 private:
  template <typename T>
  class Pipe;
  struct Link;
  template <typename Out, typename In>
  class Stream;
  struct Host {
    MonoTime held_until;
    bool dead = false;
    std::weak_ptr<Link> link;  // the newest
  };

  template <typename T>
  Verdict Judge(int process, const T& message);
  template <typename T>
  void Carry(Link* link, Pipe<T>* pipe, T message);
  MonoTime HeldUntil(int process) { return hosts_[process].held_until; }

  Reactor* const reactor_;
  Random random_;
  SimNetworkOptions options_;
  Observer* const observer_;
  absl::AnyInvocable<Verdict(int, const v1::CoordinatorMessage&)> to_worker_;
  absl::AnyInvocable<Verdict(int, const v1::WorkerMessage&)> to_coordinator_;
  AcceptFunction accept_;
  std::map<int, Host> hosts_;
  std::vector<std::weak_ptr<Link>> links_;
  uint64_t next_stream_ = 1;
  Counts counts_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_SUPPORT_SIM_NETWORK_H_
