#include "simulator/quota_world.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/quota/admission.h"
#include "common/quota/costs.h"
#include "common/quota/memory_store.h"

namespace headrace::simulator {
namespace {

using quota::Costs;
using quota::Dimension;

int64_t CostOf(const Costs& costs, LimitKind kind) {
  return costs[static_cast<size_t>(kind)];  // both enumerations begin alike
}

// The one store, a round trip away.
class RemoteStore final : public quota::PoolStore {
 public:
  RemoteStore(Reactor* reactor, quota::PoolStore* store, absl::Duration round_trip,
              int64_t* questions)
      : reactor_(reactor), store_(store), round_trip_(round_trip), questions_(questions) {}

  Task<absl::StatusOr<std::vector<quota::ReserveAnswer>>> Reserve(
      std::string pool, std::vector<quota::ReserveRequest> requests,
      absl::Duration horizon) override {
    ++*questions_;
    co_await Sleep(reactor_, round_trip_ / 2, StopToken());
    absl::StatusOr<std::vector<quota::ReserveAnswer>> answers =
        co_await store_->Reserve(std::move(pool), std::move(requests), horizon);
    co_await Sleep(reactor_, round_trip_ / 2, StopToken());
    co_return answers;
  }
  void Settle(absl::string_view pool, quota::ReservationId id, quota::Settlement settlement,
              const Costs& actual) override {
    store_->Settle(pool, id, settlement, actual);
  }
  void Penalize(absl::string_view pool, const quota::Penalty& penalty) override {
    store_->Penalize(pool, penalty);
  }
  void Observe(absl::string_view pool, const quota::Observation& observation) override {
    store_->Observe(pool, observation);
  }
  Task<absl::Status> Reconfigure(quota::PoolSpec spec) override {
    return store_->Reconfigure(std::move(spec));
  }
  quota::PoolSnapshot Snapshot(absl::string_view pool) const override {
    return store_->Snapshot(pool);
  }
  std::optional<quota::ReserveAnswer> ReserveNow(absl::string_view pool,
                                                 const quota::ReserveRequest& request,
                                                 absl::Duration horizon) override {
    if (round_trip_ > absl::ZeroDuration()) return std::nullopt;
    return store_->ReserveNow(pool, request, horizon);
  }
  quota::PoolHint Hint(absl::string_view pool) const override { return store_->Hint(pool); }
  void Listen(absl::string_view pool, quota::PoolListener* listener) override {
    store_->Listen(pool, listener);
  }

 private:
  Reactor* const reactor_;
  quota::PoolStore* const store_;
  const absl::Duration round_trip_;
  int64_t* const questions_;
};

struct World {
  explicit World(const WorldOptions& o)
      : options(o), reactor(o.seed, /*shuffle=*/true), random(o.seed), start(reactor.Now()) {
    for (int i = 0; i < (o.store_per_worker ? o.workers : 1); ++i) {
      stores.push_back(o.make_store(&reactor, {o.pool}));
    }
    for (const LimitSpec& spec : o.provider) meters.push_back(MakeMeter(spec));
    used.resize(meters.size());
    for (int i = 0; i < o.workers; ++i) {
      quota::PoolStore* const store = stores[o.store_per_worker ? static_cast<size_t>(i) : 0].get();
      remotes.push_back(
          std::make_unique<RemoteStore>(&reactor, store, o.round_trip, &result.questions));
      workers.push_back(std::make_unique<quota::Admission>(
          &reactor, remotes.back().get(), o.pool.name, static_cast<uint32_t>(i + 1)));
    }
  }

  double Seconds() const { return absl::ToDoubleSeconds(reactor.Now() - start); }
  bool Over() const { return reactor.Now() - start >= options.duration; }
  double Normal() {
    return std::sqrt(-2 * std::log(1 - random.Unit())) * std::cos(6.283185307 * random.Unit());
  }
  Costs Draw() {
    const double size = options.median * std::exp(options.sigma * Normal());
    const int64_t tokens = std::clamp(std::llround(size), static_cast<long long>(options.least),
                                      static_cast<long long>(options.most));
    const int64_t output = std::llround(static_cast<double>(tokens) * options.output_share);
    return Costs{1, tokens, tokens - output, output, 1, 0, 0};
  }
  void Charge(MonoTime charged_at, size_t i, int64_t units) {
    meters[i]->Charge(reactor.Now(), charged_at, units);
    const absl::Duration since = charged_at - start;
    if (since >= options.warm_up && since < options.duration) {
      used[i] += static_cast<double>(units);
    }
  }

  const WorldOptions options;
  VirtualReactor reactor;
  Random random;
  const MonoTime start;
  std::vector<std::unique_ptr<quota::PoolStore>> stores;
  std::vector<std::unique_ptr<Meter>> meters;
  std::vector<double> used;
  std::vector<std::unique_ptr<RemoteStore>> remotes;
  std::vector<std::unique_ptr<quota::Admission>> workers;
  WorldResult result;
};

// The provider's word on one call, at its arrival. Empty: taken.
std::optional<absl::Duration> Refusal(World* world, const Costs& costs) {
  const MonoTime now = world->reactor.Now();
  std::optional<absl::Duration> wait;
  for (const std::unique_ptr<Meter>& meter : world->meters) {
    const Fit fit = meter->Check(now, CostOf(costs, meter->spec().kind));
    if (!fit.fits) wait = std::max(wait.value_or(absl::ZeroDuration()), fit.retry_after);
  }
  for (size_t i = 0; i < world->meters.size(); ++i) {
    const LimitKind kind = world->meters[i]->spec().kind;
    if (!wait) {
      world->Charge(now, i, CostOf(costs, kind));
    } else if (kind == LimitKind::kRequests && world->options.counts_failed) {
      world->Charge(now, i, 1);
    }
  }
  return wait;
}

// What an answer says about the limits. Called where the call was taken.
void ReadHeaders(World* world, quota::Admission* admission, const quota::Ticket& ticket,
                 MonoTime sent_at) {
  for (const std::unique_ptr<Meter>& meter : world->meters) {
    const LimitKind kind = meter->spec().kind;
    if (kind == LimitKind::kInFlight) continue;
    const LimitState state = meter->State(world->reactor.Now());
    quota::Observation observation;
    observation.dimension = static_cast<Dimension>(kind);
    observation.limit = state.limit;
    observation.used = state.used;
    observation.reset = state.reset;
    observation.sent_at = sent_at;
    observation.expected = ticket.expected[static_cast<size_t>(kind)];
    if (world->result.first_signal == 0 && world->options.outsider > 0 &&
        world->reactor.Now() - world->start > world->options.outsider_from &&
        *observation.used > observation.expected + state.limit / 200) {
      world->result.first_signal = world->Seconds();
    }
    admission->Observe(observation);
  }
}

Task<void> Call(World* world, quota::Admission* admission, uint64_t job) {
  const WorldOptions& options = world->options;
  const Costs actual = world->Draw();
  Costs reserved = actual;
  const double factor = 1 + options.over_estimate * world->random.Unit();
  for (size_t i = 1; i < 4; ++i) {
    reserved[i] = std::llround(static_cast<double>(actual[i]) * factor);
  }
  quota::Ticket ticket = co_await admission->Admit(job, 0, 1, reserved, StopToken());
  if (ticket.kind == quota::Ticket::Kind::kNeverFits) {
    ++world->result.never;
    co_return;
  }
  HR_CHECK(ticket.kind == quota::Ticket::Kind::kAdmitted) << ticket.text;
  const MonoTime sent_at = world->reactor.Now();
  Send send{.at = world->Seconds(), .costs = reserved, .job = job};
  absl::Duration delay = world->random.Between(options.shortest_delay, options.longest_delay);
  if (world->random.Chance(options.stall_chance)) {
    delay += world->random.Between(absl::Milliseconds(200), absl::Seconds(1));
  }
  co_await Sleep(&world->reactor, delay, StopToken());
  const MonoTime arrived = world->reactor.Now();
  const std::optional<absl::Duration> refusal = Refusal(world, reserved);
  send.arrived = world->Seconds();
  send.accepted = !refusal;
  if (options.record) world->result.sends.push_back(send);
  if (refusal) {
    ++world->result.rejected;
    world->result.last_rejection = world->Seconds();
    quota::Penalty penalty;
    penalty.retry_after = std::max(*refusal, absl::Milliseconds(1));
    penalty.sent_at = sent_at;
    admission->Penalize(penalty);
    admission->Settle(ticket, quota::Settlement::kRejected, Costs{});
    co_return;
  }
  if (options.headers) ReadHeaders(world, admission, ticket, sent_at);
  co_await Sleep(&world->reactor, options.latency * (0.5 + world->random.Unit()), StopToken());
  ++world->result.accepted;
  for (size_t i = 0; i < world->meters.size(); ++i) {
    const LimitKind kind = world->meters[i]->spec().kind;
    if (kind == LimitKind::kInFlight) {
      world->Charge(world->reactor.Now(), i, -1);
    } else if (options.provider_refunds) {
      world->Charge(arrived, i, CostOf(actual, kind) - CostOf(reserved, kind));
    }
  }
  admission->Settle(ticket, quota::Settlement::kCharged,
                    options.provider_refunds ? actual : reserved);
}

Task<void> Stream(World* world, quota::Admission* admission, uint64_t job) {
  // Workers do not all start in the same moment.
  co_await Sleep(&world->reactor, absl::Seconds(1) * world->random.Unit(), StopToken());
  while (!world->Over()) co_await Call(world, admission, job);
}

// Takes its share in 50 steps a second, whether it fits or not.
Task<void> Outsider(World* world) {
  const WorldOptions& options = world->options;
  constexpr absl::Duration kStep = absl::Milliseconds(20);
  co_await Sleep(&world->reactor, options.outsider_from, StopToken());
  double steps = 0;
  std::vector<double> taken(world->meters.size(), 0);
  while (!world->Over() && world->reactor.Now() - world->start < options.outsider_until) {
    ++steps;
    for (size_t i = 0; i < world->meters.size(); ++i) {
      const LimitSpec& spec = world->meters[i]->spec();
      if (spec.kind == LimitKind::kInFlight) continue;
      const double due = std::floor(options.outsider * static_cast<double>(spec.limit) * steps *
                                    absl::FDivDuration(kStep, absl::Minutes(1)));
      const auto units = static_cast<int64_t>(due - taken[i]);
      taken[i] = due;
      const MonoTime now = world->reactor.Now();
      if (units > 0 && world->meters[i]->Check(now, units).fits) {
        world->meters[i]->Charge(now, now, units);
      }
    }
    co_await Sleep(&world->reactor, kStep, StopToken());
  }
}

Task<void> Join(World* world, TaskScope* scope) {
  co_await scope->Join();
  for (const std::unique_ptr<quota::Admission>& worker : world->workers) {
    co_await worker->Shutdown();
  }
  for (const std::unique_ptr<quota::PoolStore>& store : world->stores) co_await store->Stop();
}

}  // namespace

std::unique_ptr<quota::PoolStore> MakeMemoryStore(Reactor* reactor,
                                                  const std::vector<quota::PoolSpec>& specs) {
  return std::make_unique<quota::MemoryPoolStore>(reactor, specs);
}

WorldResult RunWorld(const WorldOptions& options) {
  World world(options);
  TaskScope scope(&world.reactor, StopToken());
  for (int i = 0; i < options.streams; ++i) {
    quota::Admission* worker = world.workers[static_cast<size_t>(i % options.workers)].get();
    scope.Spawn(Stream(&world, worker, static_cast<uint64_t>(i % options.jobs)));
  }
  if (options.outsider > 0) scope.Spawn(Outsider(&world));
  world.reactor.Run(Join(&world, &scope));
  WorldResult result = std::move(world.result);
  for (const std::unique_ptr<quota::Admission>& worker : world.workers) {
    result.asked += worker->asked();
  }
  result.left_open = world.stores[0]->Snapshot(options.pool.name).in_flight;
  const double minutes = absl::ToDoubleMinutes(options.duration - options.warm_up);
  for (size_t i = 0; i < world.meters.size(); ++i) {
    const LimitSpec& spec = world.meters[i]->spec();
    if (spec.kind == LimitKind::kInFlight) continue;
    result.used =
        std::max(result.used, world.used[i] / (static_cast<double>(spec.limit) * minutes));
  }
  return result;
}

}  // namespace headrace::simulator
