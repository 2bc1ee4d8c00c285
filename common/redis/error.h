// What a failed command means for its caller: one table from the server's words to what to do.
#ifndef HEADRACE_COMMON_REDIS_ERROR_H_
#define HEADRACE_COMMON_REDIS_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace headrace::redis {

// "ran": whether the server may have executed the command.
enum class Error {
  kNone,

  // From here, with no answer of a server.
  kUnreachable,  // no connection until the deadline; never ran
  kLost,         // sent, then the connection broke or the server stalled; may have run
  kDeadline,     // the caller's time was up; ran: see Outcome::may_have_run
  kStopped,      // the caller's stop token; ran: as above
  kOverloaded,   // too many commands wait here already; never ran

  // The server's word. Such a command did not run, apart from kServer.
  kNoScript,       // EVALSHA of a script the server does not hold
  kMoved,          // cluster: the slot lives elsewhere
  kAsk,            // cluster: this one key may live elsewhere, during a migration
  kTryAgain,       // cluster: the keys of one command are split by a migration
  kCrossSlot,      // cluster: keys of different slots in one command; a bug of ours
  kNotMaster,      // READONLY, MASTERDOWN: ask who the master is
  kNotReady,       // LOADING, CLUSTERDOWN, NOREPLICAS, MISCONF: the server cannot serve now
  kOutOfMemory,    // OOM: no writes until somebody makes room
  kBusy,           // BUSY: a script runs for too long
  kConfiguration,  // user, password, rights, database: a person must change something
  kServer,         // any other error, e.g. of a script; what came before it in a script has run
};

absl::string_view ErrorName(Error error);

// The class of a server's error reply ("READONLY You can't ..."). Errors inside scripts count as
// well: Redis before 7 wraps them into "ERR Error running script ...: -READONLY ...".
Error ClassifyErrorReply(absl::string_view text);

// Another try, after asking anew where the server is, may succeed soon, and repeats nothing.
bool IsWorthRediscovery(Error error);

// What to change, for kConfiguration, from the server's text; empty when the text says it itself.
std::string ConfigurationAdvice(absl::string_view text);

// kUnreachable, kLost, kNotMaster, kNotReady, kTryAgain, kBusy: Unavailable. kDeadline:
// DeadlineExceeded. kStopped: Cancelled. kOverloaded, kOutOfMemory: ResourceExhausted.
// kConfiguration: FailedPrecondition. The rest: Internal.
absl::Status ErrorStatus(Error error, absl::string_view text);

// Where a MOVED or ASK sends us: "MOVED 3999 127.0.0.1:6381".
struct Redirect {
  bool ask = false;
  uint16_t slot = 0;
  std::string host;  // empty: the host that answered
  uint16_t port = 0;
};
// Empty when `text` is neither, or malformed.
std::optional<Redirect> ParseRedirect(absl::string_view text);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_ERROR_H_
