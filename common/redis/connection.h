// One connection to one Redis server: pipelined commands, each with its own reply.
//
// The protocol is hiredis' reader and the socket is ours. hiredis' own asynchronous context is not
// used: that of 0.14 (Debian 12) has no timeouts and no TLS, connects by blocking name lookups, and
// ends the process by an assertion when a server says something unasked.
//
// Replies come in the order of the commands, so a connection whose order is in doubt is of no use:
// a server that stalls past the command timeout, a reply nobody asked for or bytes that are no
// RESP2 end it, and every command on it is lost. A caller that gives up earlier leaves its place in
// the order behind, and its reply is dropped when it comes.
#ifndef HEADRACE_COMMON_REDIS_CONNECTION_H_
#define HEADRACE_COMMON_REDIS_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/async/wait.h"
#include "common/base/secret.h"
#include "common/base/time.h"
#include "common/net/connector.h"
#include "common/redis/outcome.h"
#include "common/redis/protocol.h"

namespace headrace::redis {

// What is said first on each fresh connection.
struct Login {
  std::string user;  // empty: the default user
  Secret password;   // empty: no AUTH
  int db = 0;
  std::string client_name;  // for CLIENT LIST; empty: none
  bool must_be_master = true;
};

struct ConnectionOptions {
  absl::Duration connect_timeout = absl::Seconds(2);  // name, TCP, TLS and login together
  absl::Duration command_timeout = absl::Seconds(1);  // from a command to its reply
  size_t max_pending = 10'000;                        // commands without a reply
  size_t max_unsent_bytes = 16 << 20;
};

// What connections have carried; shared by those of one client.
struct Traffic {
  int64_t commands = 0;  // logins not counted: one round trip each
  int64_t writes = 0;    // system calls that sent any number of commands
  int64_t connects = 0;
  int64_t timeouts = 0;  // connections given up because the server stalled
  int64_t lost = 0;      // commands that were sent and got no reply
};

class Connection final : private FdHandler, private EndOfTurn {
 public:
  // Connects, logs in and checks the role. Unavailable when there is no server, it is not the
  // master or not ready; DeadlineExceeded after connect_timeout; FailedPrecondition when a person
  // must change something (password, rights, database, address of a Sentinel); Cancelled.
  // *reactor and *traffic outlive the connection.
  static Task<absl::StatusOr<std::shared_ptr<Connection>>> Open(
      Reactor* reactor, std::shared_ptr<net::Connector> connector, Login login,
      ConnectionOptions options, Traffic* traffic, StopToken stop);
  ~Connection() override;

  // Sends `*wire` (AppendCommand; one command) and waits for its reply. With `asking`, ASKING goes
  // right before it. Errors: kUnreachable when it surely was not sent, kLost, kDeadline, kStopped,
  // kOverloaded, and the server's word. Shared, because a call and the connection's owner may each
  // be the last to need it.
  static Task<Outcome> Call(std::shared_ptr<Connection> self, const std::string* wire, bool asking,
                            MonoTime deadline, StopToken stop);

  // Sends a command to whose replies `on_push` listens: for subscriptions. From then on every reply
  // goes there; Call() must not be used any more. Called on the reactor; must not destroy the
  // connection.
  void Listen(absl::AnyInvocable<void(Reply)> on_push) { on_push_ = std::move(on_push); }
  void Send(const std::vector<std::string>& argv);

  // No new commands; ends when those that wait have their replies.
  void Retire(absl::string_view why);
  void Close(absl::string_view why);

  bool usable() const { return !ended_.is_set(); }
  // Ends when the connection is closed or retired; false when stopped first.
  Event::Awaiter WaitEnded(StopToken stop) { return ended_.Wait(stop); }
  // Why it ended; may be empty.
  const std::string& end_text() const { return end_text_; }

  size_t pending() const { return pending_.size(); }
  // When the last bytes came.
  MonoTime last_heard() const { return last_heard_; }

 private:
  // Where a reply goes; in the frame of a call.
  struct Slot {
    explicit Slot(Reactor* reactor) : done(reactor) {}
    Event done;
    Outcome outcome;
  };
  struct Pending {
    Slot* slot = nullptr;  // null: nobody waits for this reply any more
    MonoTime since;
    uint64_t first_byte = 0;  // of the command, counted from the connection's start
  };

  Connection(Reactor* reactor, std::shared_ptr<net::Connector> connector, net::Transport transport,
             ConnectionOptions options, Traffic* traffic);

  Task<absl::Status> LogIn(Login login, MonoTime deadline, StopToken stop);
  // Appends one command; its number.
  uint64_t Append(absl::string_view wire, Slot* slot);
  void Abandon(uint64_t number);

  void OnFdReady(uint32_t events) override;
  void OnEndOfTurn() override;
  void OnTimer();
  void Read();
  void Flush();
  void WatchOutput(bool on);
  // Takes in the replies that the reader holds; false when the connection had to be closed.
  bool TakeReplies();
  bool TakeReply(Reply reply);
  void End(absl::string_view why);

  Reactor* const reactor_;
  const std::shared_ptr<net::Connector> connector_;  // of the TLS context that transport_ uses
  net::Transport transport_;
  const ConnectionOptions options_;
  Traffic* const traffic_;

  ReplyReader reader_;
  absl::AnyInvocable<void(Reply)> on_push_;
  std::deque<Pending> pending_;  // in the order of the commands
  uint64_t first_number_ = 0;    // of pending_.front()
  std::string out_;              // not sent yet, from out_begin_ on
  size_t out_begin_ = 0;
  uint64_t sent_bytes_ = 0;
  bool open_ = true;
  bool logged_in_ = false;
  bool watched_ = false;
  bool output_watched_ = false;
  bool read_again_ = false;
  MonoTime last_heard_;
  Timer timer_;  // of the oldest command; may be early
  Event ended_;
  std::string end_text_;
};

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_CONNECTION_H_
