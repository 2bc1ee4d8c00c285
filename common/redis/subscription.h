// Messages of channels, on a connection of their own, as hints: some may be lost, at a reconnection
// or when the reader is slow, and the reader is told so and reads again what it cares about.
#ifndef HEADRACE_COMMON_REDIS_SUBSCRIPTION_H_
#define HEADRACE_COMMON_REDIS_SUBSCRIPTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/channel.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/random.h"
#include "common/redis/link.h"
#include "common/redis/locator.h"

namespace headrace::redis {

struct Hint {
  std::string channel{};  // empty when only `missed` is told
  std::string payload{};
  // Messages may have been lost before this one. Also true, with no channel, whenever the
  // subscription has been made, the first time included: from then on messages come.
  bool missed = false;
};

class Subscription {
 public:
  // Messages that wait for Next(); more are dropped, and `missed` says so. Chosen.
  static constexpr size_t kMaxHints = 1024;
  // A connection on which nothing came is asked for a sign of life after this, and given up after
  // twice as long. Chosen: as for idle connections in common/net.
  static constexpr absl::Duration kQuiet = absl::Seconds(15);

  Subscription(Reactor* reactor, std::unique_ptr<Locator> locator, LinkOptions options,
               std::vector<std::string> channels, Random* random);

  // Runs in a scope until `stop` or Cancel(). Shared by the reader and by Run().
  static Task<void> Run(std::shared_ptr<Subscription> self, StopToken stop);

  // The next hint; empty when stopped, or at the end. One reader.
  static Task<std::optional<Hint>> Next(std::shared_ptr<Subscription> self, StopToken stop);

  // For a subscription that is never run: Next() returns nothing.
  void Close() { hints_.Close(); }
  // Ends it; Next() returns what has come, then nothing.
  void Cancel() { cancel_.RequestStop(StopCode::kOwnerDone); }

  bool live() const { return live_; }
  const std::string& last_error() const { return last_error_; }

 private:
  // One connection, until it ends; why it ended.
  Task<absl::Status> Listen(StopToken stop);
  void OnPush(Connection* connection, Reply reply);
  void Deliver(Hint hint);

  Reactor* const reactor_;
  const std::unique_ptr<Locator> locator_;
  const LinkOptions options_;
  const std::vector<std::string> channels_;
  Random* const random_;
  Traffic traffic_;  // these are no round trips of calls
  StopSource cancel_;
  Channel<Hint> hints_;
  size_t subscribed_ = 0;  // channels that the server has confirmed on this connection
  bool live_ = false;
  bool dropped_ = false;  // since the last hint that was taken
  std::string last_error_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_SUBSCRIPTION_H_
