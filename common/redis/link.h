// Keeps one connection to wherever a locator points, for as long as it runs: connects, waits until
// the connection ends, asks the locator again, with capped and jittered pauses between failures.
//
//   state      | event                         | next
//   down       | connected                     | up: calls that wait are sent
//   down       | a person must change something| refused: calls fail at once, tries go on slowly
//   refused    | connected                     | up
//   up         | connection lost, or Drop()    | down
#ifndef HEADRACE_COMMON_REDIS_LINK_H_
#define HEADRACE_COMMON_REDIS_LINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/async/backoff.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/random.h"
#include "common/redis/connection.h"
#include "common/redis/locator.h"

namespace headrace::redis {

struct LinkOptions {
  Login login;
  ConnectionOptions connection;
  // Between failed connections. A connection that held for kStable is replaced after the jitter
  // alone, which keeps the workers of a fleet from coming back at the same moment.
  BackoffOptions backoff = {.first_delay = absl::Milliseconds(50),
                            .max_delay = absl::Seconds(2),
                            .jitter = absl::Milliseconds(100)};
  size_t max_waiting = 10'000;  // calls that wait for a connection
};

class Link {
 public:
  static constexpr absl::Duration kStable = absl::Seconds(5);

  // *reactor, *random and *traffic outlive the link.
  Link(Reactor* reactor, std::unique_ptr<Locator> locator, LinkOptions options, Random* random,
       Traffic* traffic);

  // Runs in a scope until `stop`. Shared, because calls may still use a link that its owner has
  // replaced.
  static Task<void> Run(std::shared_ptr<Link> self, StopToken stop);

  // As Connection::Call, but waits for a connection until `wait_until` or `deadline` (kUnreachable
  // then, with what is wrong with it); kConfiguration at once while the server refuses us, kStopped
  // after Run().
  // *generation is set to that of the connection used; see Drop().
  static Task<Outcome> Call(std::shared_ptr<Link> self, const std::string* wire, bool asking,
                            MonoTime wait_until, MonoTime deadline, StopToken stop,
                            uint64_t* generation);

  // Gives up the connection of `generation`, unless another has taken its place: replies under way
  // still come, and the next call waits for a fresh one from the locator.
  void Drop(uint64_t generation, absl::string_view why);

  // True when up, refused or at the end of Run(); false when stopped first.
  Event::Awaiter WaitDecided(StopToken stop) { return decided_.Wait(stop); }

  bool up() const { return connection_ != nullptr && connection_->usable(); }
  bool refused() const { return refused_; }
  MonoTime since() const { return since_; }  // of up or of not up
  const std::string& place() const { return place_; }
  const std::string& last_error() const { return last_error_; }
  MonoTime last_error_at() const { return last_error_at_; }
  size_t pending() const { return waiting_ + (up() ? connection_->pending() : 0); }

 private:
  Task<absl::Status> Connect(StopToken stop);
  void NoteUp();
  void NoteDown(absl::string_view why);
  void NoteFailure(const absl::Status& status);
  Outcome Refusal() const;

  Reactor* const reactor_;
  const std::unique_ptr<Locator> locator_;
  const LinkOptions options_;
  Random* const random_;
  Traffic* const traffic_;

  std::shared_ptr<Connection> connection_;  // null unless up; calls under way share it
  bool refused_ = false;
  bool stopped_ = false;
  uint64_t generation_ = 0;  // of connection_, or of the last one
  Event decided_;            // up, refused or stopped
  MonoTime since_;
  std::string place_;
  std::string last_error_;
  MonoTime last_error_at_;
  size_t waiting_ = 0;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_LINK_H_
