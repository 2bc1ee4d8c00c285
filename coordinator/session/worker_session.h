// One worker's session as the coordinator sees it: handshake, credits, messages in and out. What it
// means is decided by the SessionHost behind it.
#ifndef HEADRACE_COORDINATOR_SESSION_WORKER_SESSION_H_
#define HEADRACE_COORDINATOR_SESSION_WORKER_SESSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/ids.h"
#include "common/rpc/limits.h"
#include "common/rpc/message_stream.h"
#include "headrace/v1/session.pb.h"

namespace headrace {

using CoordinatorStream = rpc::MessageStream<v1::CoordinatorMessage, v1::WorkerMessage>;

// A number of the coordinator's own, never reused.
using SessionId = StrongId<struct SessionIdTag>;

class WorkerSession;

class SessionHost {
 public:
  virtual ~SessionHost() = default;
  // After the handshake: send what the worker needs to know.
  virtual void OnSessionOpen(WorkerSession* session, const v1::Hello& hello) = 0;
  // The worker can take more items.
  virtual void OnCredits(WorkerSession* session) = 0;
  // A chunk; to be acknowledged with session->SendAck when everything in it is on disk.
  virtual void OnResults(WorkerSession* session, v1::Results results) = 0;
  virtual void OnBeat(WorkerSession* session, const v1::Beat& beat) = 0;
  // The worker leaves for good; what it still holds will not come.
  virtual void OnBye(WorkerSession* session, const v1::Bye& bye) = 0;
  // The session is over; its pointer is dead afterwards.
  virtual void OnSessionClosed(WorkerSession* session) = 0;
};

struct SessionOptions {
  absl::Duration lease = absl::Seconds(60);
  absl::Duration beat = absl::Seconds(1);
  // Of one Results message. The worker replaces a result that does not fit by a failure that says
  // so (never_fits): the stream that brought it would break, again and again.
  uint64_t max_chunk_bytes = rpc::kMaxMessageBytes - rpc::kMessageOverheadBytes;
  uint64_t max_unacked_bytes = uint64_t{32} << 20;
  std::string boot_id;
  // A worker that says nothing for this long, not even beats, is cut off: its stream is half open.
  absl::Duration silence = absl::Seconds(60);
};

class WorkerSession {
 public:
  // `host` outlives it.
  WorkerSession(Reactor* reactor, SessionId id, std::unique_ptr<CoordinatorStream> stream,
                SessionOptions options, SessionHost* host);

  // Speaks the session until the worker leaves, the stream breaks, or `stop`. Awaited once.
  Task<void> Run(StopToken stop);
  // Ends the session; the worker sees `status`. The first one wins.
  void End(absl::Status status);

  SessionId id() const { return id_; }
  const std::string& worker_id() const { return worker_id_; }
  const std::string& build() const { return build_; }
  const rpc::Peer& peer() const { return stream_->peer(); }
  uint32_t max_in_flight() const { return max_in_flight_; }
  const v1::Beat& last_beat() const { return last_beat_; }
  MonoTime last_heard() const { return last_heard_; }

  // Items of a model that the worker can take now.
  uint64_t credits(uint64_t job_id, uint32_t model) const;
  // Queues `grant`; it must be within the credits.
  void SendGrant(v1::Grant grant);
  void Send(v1::CoordinatorMessage message);
  // All chunks up to and including `seq` are durable.
  void SendAck(uint64_t seq);

 private:
  Task<absl::Status> Handshake(v1::Hello* hello);
  Task<void> WriteLoop();
  Task<void> WatchSilence();
  void OnMessage(v1::WorkerMessage message);
  void OnWant(const v1::Want& want);

  Reactor* const reactor_;
  const SessionId id_;
  const std::unique_ptr<CoordinatorStream> stream_;
  const SessionOptions options_;
  SessionHost* const host_;
  std::string worker_id_;
  std::string build_;
  uint32_t max_in_flight_ = 0;
  v1::Beat last_beat_;
  MonoTime last_heard_;
  struct Credits {
    uint64_t wanted = 0;  // both over the whole session
    uint64_t granted = 0;
    MonoTime last_grant;
  };
  std::map<std::pair<uint64_t, uint32_t>, Credits> credits_;  // by job and model
  std::deque<v1::CoordinatorMessage> out_;  // grants within credits, and a bounded rest
  Event outgoing_;
  absl::Status end_status_;  // what the worker is told
  StopSource end_;
  TaskScope scope_;
};

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_SESSION_WORKER_SESSION_H_
