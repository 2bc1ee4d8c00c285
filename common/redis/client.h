// The Redis client that shared quota pools stand on: commands and scripts in, outcomes out, whether
// the server is one process, a master that Sentinels name, or a cluster.
//
//   StatusOr<std::unique_ptr<Client>> client = Client::Make(&reactor, *ParseUrl(text), {});
//   (*client)->Start();
//   Outcome outcome = co_await (*client)->Eval(&script, keys, args, {.deadline = now + 1 s});
//   if (!outcome.ok()) ... outcome.error says what to do, outcome.text says it to people
//   co_await (*client)->Stop();
//
// Commands of concurrent callers are pipelined on one connection per server. What is tried again
// here, always within the caller's deadline:
//
//   NOSCRIPT                                   EVAL with the text, once
//   READONLY, MASTERDOWN, LOADING, CLUSTERDOWN,
//   NOREPLICAS, MISCONF                        after asking anew where the master is, with back-off
//   MOVED, ASK, TRYAGAIN                       at the node they name; TRYAGAIN after a pause
//   no connection, not sent                    on the next connection
//   sent, then lost (kLost)                    only calls that are `idempotent`
//
// None of them, apart from the last, can run a command twice.
//
// Threads: everything on the reactor's. The client must be stopped before it is destroyed, and
// outlive its calls.
#ifndef HEADRACE_COMMON_REDIS_CLIENT_H_
#define HEADRACE_COMMON_REDIS_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/backoff.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "common/redis/cluster.h"
#include "common/redis/connection.h"
#include "common/redis/link.h"
#include "common/redis/outcome.h"
#include "common/redis/script.h"
#include "common/redis/subscription.h"
#include "common/redis/url.h"

namespace headrace::redis {

struct ClientOptions {
  absl::Duration connect_timeout = absl::Seconds(2);  // name, TCP, TLS and login together
  // From a command to its reply. A server that is slower counts as stalled: every command on that
  // connection is lost and another connection is made.
  absl::Duration command_timeout = absl::Seconds(1);
  BackoffOptions backoff = {.first_delay = absl::Milliseconds(50),
                            .max_delay = absl::Seconds(2),
                            .jitter = absl::Milliseconds(100)};
  size_t max_pending = 10'000;           // calls that wait, for a reply or for a connection
  std::string client_name = "headrace";  // in CLIENT LIST; no spaces
  uint64_t seed = 0;                     // of the jitter; 0: from the operating system
};

struct CallOptions {
  MonoTime deadline = MonoTime::Max();
  StopToken stop{};
  // Running it twice does the same as once: it is sent again after its reply was lost.
  bool idempotent = false;
};

// What people ask about the connection.
struct Health {
  bool connected = false;    // of a cluster: to every master
  bool refused = false;      // a person must change something; last_error says what
  absl::Duration since;      // how long it has been so
  std::string place;         // "host:port" or a socket's path; of a cluster, its nodes
  std::string last_error;    // in words; empty when there was none
  absl::Duration error_age;  // since last_error
  size_t pending = 0;        // calls that wait
  int64_t calls = 0;         // Run() and Eval()
  int64_t round_trips = 0;   // commands sent for them: round_trips / calls is 1 when all is well
  int64_t writes = 0;        // system calls that sent them: fewer, when calls are concurrent
  int64_t connects = 0;
  int64_t timeouts = 0;      // connections given up because the server stalled
  int64_t lost = 0;          // commands that were sent and got no reply
  int64_t script_loads = 0;  // EVAL after NOSCRIPT
  int64_t redirects = 0;     // MOVED and ASK
};

class Client {
 public:
  // Reads the password from its source. Errors are those of ReadSecret, InvalidArgument for options
  // or certificates that are no good. *reactor must outlive the client.
  static absl::StatusOr<std::unique_ptr<Client>> Make(Reactor* reactor, Url url,
                                                      ClientOptions options);
  ~Client();

  // Begins to connect.
  void Start();
  // Closes the connections; calls under way end with kStopped or kLost.
  Task<void> Stop();

  // Waits until the server has been reached. FailedPrecondition at once when a person must change
  // something, Unavailable with the last error at the deadline, Cancelled when stopped. For the
  // start of a role: calls wait by themselves.
  Task<absl::Status> WaitConnected(MonoTime deadline, StopToken stop);

  // One command with its arguments, which may be any bytes. In a cluster it goes to the slot of
  // argv[1]; one of no argument to any slot. Not for commands that change the connection:
  // SUBSCRIBE, MULTI, SELECT, BLPOP.
  Task<Outcome> Run(std::vector<std::string> argv, CallOptions options);

  // EVALSHA, and EVAL when the server does not hold the script. All keys must be named and, in a
  // cluster, have one hash tag. *script must live until the end of the call.
  Task<Outcome> Eval(const Script* script, std::vector<std::string> keys,
                     std::vector<std::string> args, CallOptions options);

  // Listens to `channels` on a connection of its own until Cancel() or Stop(); PUBLISH is a Run().
  // Shared: the reader and the client's own coroutine may each be the last to need it.
  std::shared_ptr<Subscription> Subscribe(std::vector<std::string> channels);

  Health health() const;
  // Without secrets.
  const std::string& url() const { return url_text_; }

 private:
  Client(Reactor* reactor, Url url, ClientOptions options);

  absl::Status Prepare();
  // A locator of this URL for another connection.
  absl::StatusOr<std::unique_ptr<Locator>> MakeLocator();
  Task<Outcome> Execute(const std::string* wire, uint16_t slot, CallOptions options);
  Task<Outcome> ExecuteOnLink(const std::string* wire, CallOptions options);
  Task<Outcome> ExecuteInCluster(const std::string* wire, uint16_t slot, CallOptions options);
  void CountLinks(Health* health) const;

  Reactor* const reactor_;
  const Url url_;
  const std::string url_text_;
  const ClientOptions options_;
  Random random_;
  Traffic traffic_;
  int64_t calls_ = 0;
  int64_t script_loads_ = 0;
  int64_t redirects_ = 0;
  LinkOptions link_options_;
  Login sentinel_login_;
  std::shared_ptr<Link> link_;        // unless a cluster; calls under way share it
  std::unique_ptr<Cluster> cluster_;  // of a cluster
  TaskScope scope_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_CLIENT_H_
