#include "tests/integration/quota/redis_trial.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/log.h"
#include "common/quota/admission.h"
#include "tests/integration/quota/script_store.h"

namespace headrace::quota {
namespace {

// One worker: a store and its admission.
struct Client {
  Client(Reactor* reactor, const std::string& url, PoolSpec spec, int number,
         RedisStoreOptions options)
      : store(Open(reactor, url, std::move(spec), std::move(options))),
        admission(reactor, store.get(), "p", static_cast<uint32_t>(number)) {}
  std::unique_ptr<RedisPoolStore> store;
  Admission admission;
};

// Sends until `until`, `hold` each.
Task<void> Stream(Reactor* reactor, Client* client, MonoTime until, absl::Duration hold,
                  Sends* sends, StopToken stop) {
  while (reactor->Now() < until && !stop.stopped()) {
    const Ticket ticket =
        co_await client->admission.Admit(1, 0, 1, Costs{1, 100, 0, 0, 1, 0, 0}, stop);
    if (ticket.kind != Ticket::Kind::kAdmitted) {
      if (ticket.kind != Ticket::Kind::kStopped) ++sends->failed;
      co_return;
    }
    sends->at.push_back(reactor->Now());
    sends->most_in_flight = std::max(sends->most_in_flight, ++sends->in_flight);
    co_await Sleep(reactor, hold, StopToken());
    --sends->in_flight;
    client->admission.Settle(ticket, Settlement::kCharged, ticket.reserved);
  }
}

Task<void> StopAt(Reactor* reactor, MonoTime at, TaskScope* scope) {
  co_await Sleep(reactor, at, StopToken());
  scope->RequestStop(StopReason{StopCode::kOwnerDone, {}});
}

Task<void> Notices(Reactor* reactor, std::vector<std::unique_ptr<Client>>* clients, Trial* trial,
                   StopToken stop) {
  while (true) {
    for (const auto& client : *clients) {
      const std::string notice = client->store->Snapshot("p").notice;
      if (!notice.empty()) trial->notice = notice;
    }
    const bool slept = co_await Sleep(reactor, absl::Milliseconds(20), stop);
    if (!slept) break;
  }
}

}  // namespace

PoolSpec Requests(int64_t per_minute) {
  PoolSpec spec;
  spec.name = "p";
  spec.utilisation = 1;
  spec.dimensions = {Limit(Dimension::kRequests, Mechanics::kBucket, per_minute)};
  return spec;
}

PoolSpec Slots(int64_t slots) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = {Limit(Dimension::kInFlight, Mechanics::kGauge, slots)};
  return spec;
}

RedisStoreOptions Quick(std::string worker) {
  RedisStoreOptions options;
  options.worker = std::move(worker);
  options.learn = absl::Milliseconds(200);
  options.outage_after = absl::Milliseconds(700);
  options.call_timeout = absl::Milliseconds(400);
  options.beat = absl::Milliseconds(300);
  return options;
}

std::unique_ptr<RedisPoolStore> Open(Reactor* reactor, const std::string& url, PoolSpec spec,
                                     RedisStoreOptions options) {
  redis::ClientOptions client_options;
  client_options.command_timeout = absl::Milliseconds(300);
  client_options.backoff.max_delay = absl::Milliseconds(200);
  auto client = redis::Client::Make(reactor, *redis::ParseUrl(url), client_options);
  HR_CHECK(client.ok()) << client.status();
  return std::make_unique<RedisPoolStore>(
      reactor, std::make_unique<ClientPoolServer>(*std::move(client)),
      std::vector<SharedPool>{{std::move(spec), "a"}}, std::move(options));
}

Task<void> RunTrial(Reactor* reactor, Trial* trial) {
  const std::string url = trial->url.empty() ? trial->server->url() : trial->url;
  std::vector<std::unique_ptr<Client>> clients;
  trial->start = reactor->Now();
  for (int i = 0; i < trial->clients; ++i) {
    RedisStoreOptions options = Quick(absl::StrCat("w", i));
    options.seed = static_cast<uint64_t>(i) + 1;
    options.least_workers = trial->clients;
    clients.push_back(std::make_unique<Client>(reactor, url, trial->spec, i + 1, options));
  }
  const MonoTime until = reactor->Now() + absl::Seconds(trial->seconds);
  TaskScope scope(reactor, StopToken());
  scope.Spawn(StopAt(reactor, until, &scope));
  scope.Spawn(Notices(reactor, &clients, trial, scope.token()));
  for (const auto& client : clients) {
    for (int i = 0; i < trial->streams; ++i) {
      scope.Spawn(Stream(reactor, client.get(), until, trial->hold, &trial->sends, scope.token()));
    }
  }
  if (trial->fault != nullptr) scope.Spawn(trial->fault(reactor, trial->server));
  co_await scope.Join();
  for (const auto& client : clients) {
    co_await client->admission.Shutdown();
    const RedisStoreStats stats = client->store->stats();
    trial->stats.calls += stats.calls;
    trial->stats.failed += stats.failed;
    trial->stats.reserved += stats.reserved;
    co_await client->store->Stop();
  }
}

// The most that was sent in any time of `width`.
int64_t MostWithin(std::vector<MonoTime> at, absl::Duration width) {
  std::sort(at.begin(), at.end());
  size_t most = 0;
  for (size_t from = 0, to = 0; to < at.size(); ++to) {
    while (at[to] - at[from] > width) ++from;
    most = std::max(most, to - from + 1);
  }
  return static_cast<int64_t>(most);
}

int64_t SentBetween(const Trial& trial, double from, double to) {
  return std::count_if(trial.sends.at.begin(), trial.sends.at.end(), [&](MonoTime at) {
    const double seconds = absl::ToDoubleSeconds(at - trial.start);
    return from <= seconds && seconds < to;
  });
}

}  // namespace headrace::quota
