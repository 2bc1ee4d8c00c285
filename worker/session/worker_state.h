// What worker.cc and session.cc share: a job as the worker knows it, and one session.
#ifndef HEADRACE_WORKER_SESSION_WORKER_STATE_H_
#define HEADRACE_WORKER_SESSION_WORKER_STATE_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/session/worker.h"

namespace headrace {

struct Worker::Job {
  v1::JobSpec spec;
  std::unique_ptr<quota::PoolStore> store;
  std::map<std::string, std::unique_ptr<quota::Admission>> pools;
  std::vector<std::unique_ptr<ModelRuntime>> models;
  bool shared_pools = false;  // with the other workers, by other means than dividing them
  bool draining = false;  // by the coordinator's word, for this session: no more items are wanted
  bool retiring = false;  // the job is over; it goes when its batches have ended
};

struct Worker::Session {
  Session(Reactor* reactor, WorkerStream* s, StopToken drain, StopToken end)
      : stream(s),
        last_progress(reactor->Now()),
        last_heard(reactor->Now()),
        scope(reactor, StopToken()),
        drain_token(drain),
        broken(end),
        interrupt(broken.token()) {
    on_drain.Arm(
        drain,
        [](void* self) {
          auto* session = static_cast<Session*>(self);
          session->interrupt.RequestStop(session->drain_token.reason());
        },
        this);
  }

  WorkerStream* const stream;
  v1::Welcome welcome;
  bool want_dirty = false;
  std::optional<v1::Beat> beat;
  bool ending = false;     // the worker may go
  MonoTime last_progress;  // when a chunk was last acknowledged, or nothing was left to be
  MonoTime last_heard;     // anything of the coordinator
  // When the hello and the beats were made: leases run from there. Those of the last lease.
  std::deque<std::pair<uint64_t, MonoTime>> beat_times;
  TaskScope scope;
  StopToken drain_token;
  StopSource broken;     // the session is of no use any more
  StopSource interrupt;  // ends a read, also at the drain
  StopCallback on_drain;
};

}  // namespace headrace

#endif  // HEADRACE_WORKER_SESSION_WORKER_STATE_H_
