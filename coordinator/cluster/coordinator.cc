#include "coordinator/cluster/coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/base/log.h"

namespace headrace {
namespace {

// Leases and waits are looked at this often; a lease is long against it.
constexpr absl::Duration kTick = absl::Seconds(1);
// How long those who come and go are gathered before all others are told how many they are: a
// thousand that join together would be told half a million times. Chosen, not measured.
constexpr absl::Duration kTellSharers = absl::Milliseconds(50);
// A process that is away is remembered for this many leases, so that its chunks are known when it
// comes back. Chosen, not measured.
constexpr int kLeasesRemembered = 10;
constexpr absl::Duration kFarewellStep = absl::Milliseconds(2);

uint32_t Millis(absl::Duration duration) {
  return static_cast<uint32_t>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

Coordinator::Coordinator(Reactor* reactor, SessionOptions session)
    : reactor_(reactor),
      options_(std::move(session)),
      streams_(reactor, StopToken()),
      ticks_(reactor, StopToken()) {}

Coordinator::~Coordinator() = default;

// ---------------------------------------------------------------------------------------------
// Jobs

void Coordinator::AddJob(JobRunner* job, double weight) {
  if (!std::exchange(ticking_, true)) ticks_.Spawn(TickLoop(this));
  put_off_.erase(job->id());
  TellSharers();
  jobs_.push_back(job);
  turn_of_job_.push_back(turns_.Add(weight));
  for (auto& [key, worker] : workers_) {
    if (worker.session == nullptr) continue;
    SendJob(worker.session, *job);
    job->OnHello(key, worker.name, {});
  }
}

void Coordinator::RemoveJob(JobRunner* job, bool over) {
  const auto at = std::find(jobs_.begin(), jobs_.end(), job);
  HR_CHECK(at != jobs_.end());
  turn_of_job_.erase(turn_of_job_.begin() + (at - jobs_.begin()));
  jobs_.erase(at);
  if (!over) {
    put_off_.insert(job->id());
    return;
  }
  for (auto& [key, worker] : workers_) {
    if (worker.session != nullptr) SendJobDone(worker.session, job->id());
  }
}

JobRunner* Coordinator::FindJob(uint64_t id) const {
  for (JobRunner* job : jobs_) {
    if (job->id() == id) return job;
  }
  return nullptr;
}

void Coordinator::SendJob(WorkerSession* session, const JobRunner& job) {
  v1::CoordinatorMessage message;
  *message.mutable_job() = job.Spec();
  session->Send(std::move(message));
}

void Coordinator::SendJobDone(WorkerSession* session, uint64_t job) {
  v1::CoordinatorMessage message;
  message.mutable_job_done()->set_job_id(job);
  session->Send(std::move(message));
}

void Coordinator::SendLeave(WorkerSession* session) {
  v1::CoordinatorMessage message;
  message.mutable_leave()->set_reason(*dismissed_);
  session->Send(std::move(message));
}

// ---------------------------------------------------------------------------------------------
// Sessions

void Coordinator::AddStream(std::unique_ptr<CoordinatorStream> stream) {
  SessionHost* host = this;
  auto session = std::make_unique<WorkerSession>(reactor_, SessionId(next_session_++),
                                                 std::move(stream), options_, host);
  streams_.Spawn(RunSession(this, std::move(session)));
}

Task<void> Coordinator::RunSession(Coordinator* self, std::unique_ptr<WorkerSession> session) {
  co_await session->Run(self->close_sessions_.token());
}

Coordinator::Worker* Coordinator::Register(WorkerSession* session, const v1::Hello& hello) {
  const WorkerName name{hello.worker_id(), hello.boot_nonce()};
  Worker* found = nullptr;
  std::vector<WorkerKey> gone;
  for (auto& [key, worker] : workers_) {
    if (worker.name.id != name.id) continue;
    if (worker.name == name) {
      found = &worker;
    } else {
      gone.push_back(key);
    }
  }
  for (WorkerKey key : gone) {
    WorkerSession* old = workers_.at(key).session;
    if (old != nullptr) {
      HR_LOG(kWarning) << "worker " << name.id << " has connected a second time";
      old->End(absl::AbortedError(absl::StrCat("another process has connected as worker ", name.id,
                                               "; each worker needs an id of its own")));
    }
    Forget(key, /*left=*/false);
  }
  if (found == nullptr) {
    const WorkerKey key(next_worker_++);
    found = &workers_[key];
    found->key = key;
    found->name = name;
    found->chunks = ChunkLedger(hello.first_unacked_chunk(), hello.next_chunk());
  } else if (found->session != nullptr) {
    by_session_.erase(found->session->id());
    // Not aborted: hellos may overtake each other, and the process is the only one of its name.
    found->session->End(absl::UnavailableError("the worker has opened a newer session"));
  }
  found->session = session;
  found->build = hello.build();
  found->max_in_flight = hello.max_in_flight();
  found->last_heard = reactor_->Now();
  by_session_[session->id()] = found->key;
  return found;
}

void Coordinator::OnSessionOpen(WorkerSession* session, const v1::Hello& hello) {
  Worker* worker = Register(session, hello);
  HR_LOG(kInfo) << "worker " << worker->name.id << " has joined"
                << (hello.held().empty() ? ""
                                         : absl::StrCat(" with ", hello.held_size(), " batches"));
  SendSharers(worker, CountSharers());
  TellSharersSoon();
  for (JobRunner* job : jobs_) SendJob(session, *job);
  std::map<uint64_t, std::vector<v1::HeldBatch>> held;
  for (const v1::HeldBatch& batch : hello.held()) held[batch.job_id()].push_back(batch);
  for (const auto& [job, batches] : held) {
    if (FindJob(job) == nullptr && !put_off_.contains(job)) SendJobDone(session, job);
  }
  // A copy: a job that hears of the worker may end, and leave the list.
  const std::vector<JobRunner*> jobs = jobs_;
  for (JobRunner* job : jobs) job->OnHello(worker->key, worker->name, held[job->id()]);
  session->SendAck(worker->chunks.acked());
  if (dismissed_.has_value()) SendLeave(session);
}

void Coordinator::OnSessionClosed(WorkerSession* session) {
  auto it = by_session_.find(session->id());
  if (it == by_session_.end()) return;  // replaced by a newer one, or gone
  Worker* worker = FindWorker(it->second);
  by_session_.erase(it);
  if (worker == nullptr) return;
  worker->session = nullptr;
  worker->last_heard = reactor_->Now();
  if (!close_sessions_.stopped()) {
    HR_LOG(kInfo) << "worker " << worker->name.id << " is away";
  }
  // A job that is stopping waits for connected workers only.
  const std::vector<JobRunner*> jobs = jobs_;
  for (JobRunner* job : jobs) job->Tick();
}

void Coordinator::OnBye(WorkerSession* session, const v1::Bye& bye) {
  auto it = by_session_.find(session->id());
  if (it == by_session_.end()) return;
  Worker* worker = FindWorker(it->second);
  HR_LOG(kInfo) << "worker " << worker->name.id << " has left: " << bye.reason();
  by_session_.erase(it);
  Forget(worker->key, /*left=*/true);
  TellSharersSoon();
}

void Coordinator::Forget(WorkerKey key, bool left) {
  Worker* worker = FindWorker(key);
  if (worker->session != nullptr) by_session_.erase(worker->session->id());
  workers_.erase(key);
  const std::vector<JobRunner*> jobs = jobs_;
  for (JobRunner* job : jobs) job->LoseWorker(key, left);
}

Coordinator::Worker* Coordinator::FindWorker(WorkerKey key) {
  auto it = workers_.find(key);
  return it == workers_.end() ? nullptr : &it->second;
}

std::vector<const Coordinator::Worker*> Coordinator::workers() const {
  std::vector<const Worker*> all;
  for (const auto& [key, worker] : workers_) all.push_back(&worker);
  return all;
}

std::vector<const WorkerSession*> Coordinator::sessions() const {
  std::vector<const WorkerSession*> all;
  for (const auto& [key, worker] : workers_) {
    if (worker.session != nullptr) all.push_back(worker.session);
  }
  return all;
}

// ---------------------------------------------------------------------------------------------
// Messages

void Coordinator::OnCredits(WorkerSession* session) { PumpGrants(); }

void Coordinator::OnResults(WorkerSession* session, v1::Results results) {
  auto it = by_session_.find(session->id());
  if (it == by_session_.end()) return;  // of a process that is gone
  const WorkerKey key = it->second;
  ChunkLedger& chunks = FindWorker(key)->chunks;
  const uint64_t seq = results.chunk_seq();
  switch (chunks.Arrive(seq)) {
    case ChunkLedger::Arrival::kRepeated:
      session->SendAck(chunks.acked());
      return;
    case ChunkLedger::Arrival::kGap: {
      v1::CoordinatorMessage message;
      message.mutable_resync();
      session->Send(std::move(message));
      return;
    }
    case ChunkLedger::Arrival::kNew:
      break;
  }
  const bool fresh = chunks.fresh(seq);
  std::map<uint64_t, v1::Results> by_job;
  for (v1::ItemResult& result : *results.mutable_results()) {
    *by_job[result.job_id()].add_results() = std::move(result);
  }
  for (v1::BatchDone& done : *results.mutable_done()) {
    *by_job[done.job_id()].add_done() = std::move(done);
  }
  for (v1::ReturnedItems& returned : *results.mutable_returned()) {
    *by_job[returned.job_id()].add_returned() = std::move(returned);
  }
  // Acknowledged when every job has its part on the disk. What is of no job is of no use to
  // anybody.
  auto parts = std::make_shared<size_t>(1);
  auto part_durable = [this, key, seq, parts] {
    if (--*parts == 0) OnDurable(key, seq);
  };
  for (auto& [job_id, part] : by_job) {
    JobRunner* job = FindJob(job_id);
    if (put_off_.contains(job_id)) ++*parts;  // never acknowledged
    if (job == nullptr) continue;
    ++*parts;
    job->OnResults(key, std::move(part), fresh, part_durable);
  }
  part_durable();
}

void Coordinator::OnDurable(WorkerKey key, uint64_t seq) {
  Worker* worker = FindWorker(key);
  if (worker == nullptr || !worker->chunks.Durable(seq)) return;
  if (worker->session != nullptr) worker->session->SendAck(worker->chunks.acked());
}

void Coordinator::OnBeat(WorkerSession* session, const v1::Beat& beat) {
  auto it = by_session_.find(session->id());
  if (it == by_session_.end()) return;
  Worker* worker = FindWorker(it->second);
  worker->last_heard = reactor_->Now();
  v1::CoordinatorMessage renewals;
  v1::Renew* renew = renewals.mutable_renew();
  renew->set_ttl_ms(Millis(options_.lease));
  renew->set_beat(beat.seq());
  for (const v1::HeldBatch& held : beat.held()) {
    JobRunner* job = FindJob(held.job_id());
    if (job != nullptr && job->Renew(worker->key, held)) {
      v1::HeldBatch* renewed = renew->add_held();
      renewed->set_job_id(held.job_id());
      renewed->set_batch_id(held.batch_id());
      renewed->set_epoch(held.epoch());
      continue;
    }
    v1::CoordinatorMessage message;
    v1::Cancel* cancel = message.mutable_cancel();
    cancel->set_job_id(held.job_id());
    cancel->set_batch_id(held.batch_id());
    cancel->set_epoch(held.epoch());
    cancel->set_stop_code(static_cast<uint32_t>(StopCode::kLeaseLost));
    cancel->set_reason("the lease is lost");
    session->Send(std::move(message));
  }
  for (JobRunner* job : jobs_) job->OnBeat(worker->key);
  for (const v1::PoolState& state : beat.pools()) {
    JobRunner* job = FindJob(state.job_id());
    if (job != nullptr) job->OnPoolState(worker->key, state);
  }
  // Also without a batch: a worker that hears nothing for long takes its stream for half open.
  session->Send(std::move(renewals));

  for (uint64_t job : beat.jobs()) {
    if (FindJob(job) == nullptr && !put_off_.contains(job)) SendJobDone(session, job);
  }
  for (JobRunner* job : jobs_) {
    const auto& known = beat.jobs();
    if (std::find(known.begin(), known.end(), job->id()) == known.end()) SendJob(session, *job);
    if (job->stopping().has_value()) {
      v1::CoordinatorMessage message;
      message.mutable_drain()->set_job_id(job->id());
      message.mutable_drain()->set_reason(job->stopping()->reason);
      session->Send(std::move(message));
    } else {
      job->SplitFor(worker->key, CreditsOf(*session, *job));
    }
  }
  if (dismissed_.has_value()) SendLeave(session);
}

bool Coordinator::connected(WorkerKey key) const {
  auto it = workers_.find(key);
  return it != workers_.end() && it->second.session != nullptr;
}

void Coordinator::Send(WorkerKey key, v1::CoordinatorMessage message) {
  Worker* worker = FindWorker(key);
  if (worker != nullptr && worker->session != nullptr) worker->session->Send(std::move(message));
}

void Coordinator::Broadcast(const v1::CoordinatorMessage& message) {
  for (auto& [key, worker] : workers_) {
    if (worker.session != nullptr) worker.session->Send(message);
  }
}

uint32_t Coordinator::CountSharers() const {
  // A worker that is away starts no calls once its leases are over by its own clock.
  const MonoTime silent = reactor_->Now() - options_.lease;
  uint32_t sharers = 0;
  for (const auto& [key, worker] : workers_) {
    if (worker.session != nullptr || worker.last_heard >= silent) ++sharers;
  }
  return sharers;
}

void Coordinator::SendSharers(Worker* worker, uint32_t sharers) {
  worker->told_sharers = sharers;
  v1::CoordinatorMessage message;
  message.mutable_sharers()->set_workers(sharers);
  worker->session->Send(std::move(message));
}

void Coordinator::TellSharersSoon() {
  if (!std::exchange(telling_, true)) ticks_.Spawn(TellAfterAWhile(this));
}

Task<void> Coordinator::TellAfterAWhile(Coordinator* self) {
  Sleep wait(self->reactor_, kTellSharers, self->stop_ticks_.token());
  const bool waited = co_await wait;
  self->telling_ = false;
  if (waited) self->TellSharers();
}

void Coordinator::TellSharers() {
  const uint32_t sharers = CountSharers();
  for (auto& [key, worker] : workers_) {
    if (worker.session != nullptr && worker.told_sharers != sharers) SendSharers(&worker, sharers);
  }
}

// ---------------------------------------------------------------------------------------------
// Grants

ModelCredits Coordinator::CreditsOf(const WorkerSession& session, const JobRunner& job) const {
  ModelCredits credits(job.job().models.size());
  for (size_t model = 0; model < credits.size(); ++model) {
    credits[model] = session.credits(job.id(), static_cast<uint32_t>(model));
  }
  return credits;
}

bool Coordinator::GrantOne(Worker* worker) {
  std::vector<bool> tried(jobs_.size(), false);
  auto position_of = [this](size_t turn) {
    return static_cast<size_t>(std::find(turn_of_job_.begin(), turn_of_job_.end(), turn) -
                               turn_of_job_.begin());
  };
  while (true) {
    // The job whose turn it is, then the others.
    const std::optional<size_t> turn = turns_.Next([&](size_t t) {
      const size_t at = position_of(t);
      return at < jobs_.size() && !tried[at];
    });
    if (!turn.has_value()) return false;
    const size_t at = position_of(*turn);
    tried[at] = true;
    JobRunner* job = jobs_[at];
    std::optional<v1::Grant> grant = job->NextGrant(worker->key, CreditsOf(*worker->session, *job));
    if (!grant.has_value()) continue;
    turns_.Serve(*turn, grant->items_size());
    worker->session->SendGrant(*std::move(grant));
    return true;
  }
}

std::vector<Coordinator::Worker*> Coordinator::ConnectedFrom(WorkerKey after) {
  std::vector<Worker*> order;
  auto add = [&order](Worker& worker) {
    if (worker.session != nullptr) order.push_back(&worker);
  };
  const auto start = workers_.upper_bound(after);
  for (auto it = start; it != workers_.end(); ++it) add(it->second);
  for (auto it = workers_.begin(); it != start; ++it) add(it->second);
  return order;
}

void Coordinator::PumpGrants() {
  // Granting makes feeds read, and a feed that reads at once calls back.
  if (pumping_) {
    pump_again_ = true;
    return;
  }
  pumping_ = true;
  do {
    pump_again_ = false;
    // One batch each in turn, from the one after the last that was served.
    bool granted = true;
    while (granted) {
      granted = false;
      for (Worker* worker : ConnectedFrom(last_served_)) {
        if (!GrantOne(worker)) continue;
        granted = true;
        last_served_ = worker->key;
      }
    }
  } while (pump_again_);
  pumping_ = false;
}

// ---------------------------------------------------------------------------------------------
// Time and ends

Task<void> Coordinator::TickLoop(Coordinator* self) {
  while (true) {
    Sleep wait(self->reactor_, kTick, self->stop_ticks_.token());
    const bool waited = co_await wait;
    if (!waited) co_return;
    self->Tick();
  }
}

void Coordinator::Tick() {
  const std::vector<JobRunner*> jobs = jobs_;
  for (JobRunner* job : jobs) job->Tick();
  const MonoTime long_ago = reactor_->Now() - kLeasesRemembered * options_.lease;
  std::vector<WorkerKey> gone;
  for (const auto& [key, worker] : workers_) {
    if (worker.session == nullptr && worker.last_heard < long_ago) gone.push_back(key);
  }
  for (WorkerKey key : gone) Forget(key, /*left=*/false);
  TellSharers();
}

Task<void> Coordinator::DismissWorkers(std::string reason, absl::Duration patience) {
  dismissed_ = std::move(reason);
  for (auto& [key, worker] : workers_) {
    if (worker.session != nullptr) SendLeave(worker.session);
  }
  const MonoTime until = reactor_->Now() + patience;
  while (streams_.live() > 0 && reactor_->Now() < until) {
    // The last session ends this wait; the steps only bound it.
    Sleep step(reactor_, kFarewellStep, StopToken());
    co_await step;
  }
}

Task<void> Coordinator::CloseSessions(std::string reason) {
  close_sessions_.RequestStop({StopCode::kShutdown, std::move(reason)});
  co_await streams_.WaitIdle();
}

Task<void> Coordinator::Shutdown() {
  stop_ticks_.RequestStop(StopCode::kShutdown);
  co_await CloseSessions("the coordinator ends");
  co_await streams_.Join();
  co_await ticks_.Join();
}

}  // namespace headrace
