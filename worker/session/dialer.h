// Keeps a worker in session with its coordinator: opens a stream, serves it, and opens the next one
// when it breaks, for ever or until the worker may end. A coordinator that is not there yet, or
// that is being restarted, is waited for.
#ifndef HEADRACE_WORKER_SESSION_DIALER_H_
#define HEADRACE_WORKER_SESSION_DIALER_H_

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/random.h"
#include "worker/session/worker.h"

namespace headrace {

struct DialerOptions {
  std::string address;  // for people
  // The wait before the n-th attempt is uniform in [0, first * 2^n), up to the maximum: workers
  // that lost the same coordinator come back spread out.
  absl::Duration first_delay = absl::Milliseconds(250);
  absl::Duration max_delay = absl::Seconds(5);
  // Without any session for this long, the dialer gives up. Infinite: never.
  absl::Duration give_up_after = absl::InfiniteDuration();
  // After `drain`: calls under way may end within the first half of this, and what they brought is
  // delivered within all of it.
  absl::Duration grace = absl::Seconds(30);
  uint64_t seed = 0;
};

// Opens a stream to the coordinator; it need not be connected yet.
using StreamFactory = absl::AnyInvocable<std::unique_ptr<WorkerStream>()>;

// Ends when the coordinator lets the worker go or the worker has drained (OK), with a status that
// no further session would change (see Worker::Serve), DeadlineExceeded after `give_up_after`, or
// Unavailable when results were left undelivered at the end of the grace period. `worker` must then
// be shut down by the caller.
Task<absl::Status> ServeWithReconnects(Reactor* reactor, Worker* worker, StreamFactory factory,
                                       DialerOptions options, StopToken drain);

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_DIALER_H_
