// What a pool in Redis costs: server time of a call of its script, round trips for each call to the
// provider, and how both grow with workers and jobs.
//
//   redis_quota_bench URL [SECONDS]     SECONDS (default 4) for each row; empties that Redis
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/quota/admission.h"
#include "common/quota/pool_script.h"
#include "common/quota/redis_store.h"

namespace headrace::quota {
namespace {

constexpr absl::Duration kLatency = absl::Milliseconds(200);  // of a call to the provider
constexpr int64_t kFast = 60'000;                             // requests per minute
constexpr int64_t kUsual = 2'000;
constexpr int kMicroCalls = 5'000;

DimensionSpec Limit(Dimension dimension, Mechanics mechanics, int64_t limit) {
  DimensionSpec spec;
  spec.dimension = dimension;
  spec.mechanics = mechanics;
  spec.limit = limit;
  return spec;
}

PoolSpec ThreeDimensions(Mechanics mechanics, int64_t per_minute = kFast) {
  PoolSpec spec;
  spec.name = "p";
  spec.dimensions = {Limit(Dimension::kRequests, mechanics, per_minute),
                     Limit(Dimension::kTokens, mechanics, 60'000'000),
                     Limit(Dimension::kInFlight, Mechanics::kGauge, 10'000)};
  return spec;
}

std::unique_ptr<redis::Client> Connect(Reactor* reactor, const std::string& url) {
  auto client = redis::Client::Make(reactor, *redis::ParseUrl(url), redis::ClientOptions());
  if (!client.ok()) {
    fprintf(stderr, "%s\n", client.status().ToString().c_str());
    exit(1);
  }
  return *std::move(client);
}

// The number behind `name` in a section of INFO.
double Field(absl::string_view info, absl::string_view name) {
  const size_t at = info.find(name);
  if (at == absl::string_view::npos) return 0;
  absl::string_view rest = info.substr(at + name.size());
  double value = 0;
  (void)absl::SimpleAtod(rest.substr(0, rest.find_first_of(",\r\n")), &value);
  return value;
}

struct ServerTime {
  double script_us = 0;  // of all scripts, by commandstats
  double calls = 0;
  double cpu_us = 0;  // of the process
};

Task<ServerTime> Ask(redis::Client* client) {
  ServerTime time;
  const redis::Outcome stats = co_await client->Run({"INFO", "commandstats"}, {});
  const absl::string_view text = stats.reply.text;
  const size_t at = text.find("cmdstat_evalsha:");
  if (at != absl::string_view::npos) {
    time.calls = Field(text.substr(at), "calls=");
    time.script_us = Field(text.substr(at), "usec=");
  }
  const redis::Outcome cpu = co_await client->Run({"INFO", "cpu"}, {});
  time.cpu_us =
      1e6 * (Field(cpu.reply.text, "used_cpu_sys:") + Field(cpu.reply.text, "used_cpu_user:"));
  co_return time;
}

Task<redis::Outcome> Call(redis::Client* client, PoolOps ops) {
  PoolCall call;
  call.worker = "bench";
  call.horizon = absl::Seconds(2);
  call.ops = std::move(ops);
  std::vector<std::string> args = PoolArgs(std::move(call));
  return client->Eval(&PoolScript(), PoolKeys("bench", "p"), std::move(args), {});
}

void Print(const char* what, const ServerTime& before, const ServerTime& after) {
  const double calls = std::max(1.0, after.calls - before.calls);
  printf("%-46s %8.1f us of script   %8.1f us of CPU\n", what,
         (after.script_us - before.script_us) / calls, (after.cpu_us - before.cpu_us) / calls);
}

enum class Kind { kReserve, kSettle };

// Of `callers`: the calls first, first + callers, and so on.
Task<void> CallEach(redis::Client* client, Kind kind, int first, int callers) {
  for (int i = first; i < kMicroCalls; i += callers) {
    PoolOps ops;
    const ReservationId id(static_cast<uint64_t>(i));
    if (kind == Kind::kReserve) {
      ReserveRequest request;
      request.id = id;
      request.costs = Costs{1, 500, 300, 200, 1, 0, 0};
      ops.Reserve(request);
    } else {
      ops.Settle(id, Settlement::kCharged, Costs{1, 400, 300, 100, 1, 0, 0});
    }
    co_await Call(client, std::move(ops));
  }
}

// One reservation or settlement a call. With one caller the server waits for each next call, and on
// a machine that puts its processors to sleep meanwhile it is slower than under load.
Task<void> Micro(Reactor* reactor, redis::Client* client, Mechanics mechanics, const char* name,
                 int callers) {
  co_await client->Run({"FLUSHALL"}, {});
  PoolOps describe;
  describe.Configure(PoolConfigText(ThreeDimensions(mechanics), absl::ZeroDuration()));
  co_await Call(client, std::move(describe));
  for (const Kind kind : {Kind::kReserve, Kind::kSettle}) {
    const ServerTime before = co_await Ask(client);
    TaskScope scope(reactor, StopToken());
    for (int i = 0; i < callers; ++i) scope.Spawn(CallEach(client, kind, i, callers));
    co_await scope.Join();
    const ServerTime after = co_await Ask(client);
    const char* const what = kind == Kind::kReserve ? "reserve" : "settle";
    Print(absl::StrCat(what, ", ", name, ", ", callers, " callers").c_str(), before, after);
  }
}

struct Load {
  Reactor* reactor;
  MonoTime until;
  int64_t sent = 0;
};

Task<void> Stream(Load* load, Admission* admission, uint64_t job) {
  while (load->reactor->Now() < load->until) {
    const Ticket ticket =
        co_await admission->Admit(job, 0, 1, Costs{1, 500, 300, 200, 1, 0, 0}, StopToken());
    if (ticket.kind != Ticket::Kind::kAdmitted) co_return;
    ++load->sent;
    co_await Sleep(load->reactor, kLatency, StopToken());
    admission->Settle(ticket, Settlement::kCharged, ticket.reserved);
  }
}

// `workers` stores, each with a connection of its own, together always with more to send than the
// pool admits.
Task<void> Grow(Reactor* reactor, redis::Client* client, std::string url, int64_t per_minute,
                int workers, int jobs, absl::Duration time) {
  co_await client->Run({"FLUSHALL"}, {});
  std::vector<std::unique_ptr<RedisPoolStore>> stores;
  std::vector<std::unique_ptr<Admission>> admissions;
  constexpr absl::Duration kWarmUp = absl::Seconds(4);
  Load load{reactor, reactor->Now() + time + kWarmUp};
  TaskScope scope(reactor, StopToken());
  for (int i = 0; i < workers; ++i) {
    RedisStoreOptions options;
    options.worker = absl::StrCat("w", i);
    options.seed = static_cast<uint64_t>(i) + 1;
    stores.push_back(std::make_unique<RedisPoolStore>(
        reactor, std::make_unique<ClientPoolServer>(Connect(reactor, url)),
        std::vector<SharedPool>{{ThreeDimensions(Mechanics::kBucket, per_minute), "bench"}},
        std::move(options)));
    admissions.push_back(std::make_unique<Admission>(reactor, stores.back().get(), "p",
                                                     static_cast<uint32_t>(i + 1)));
  }
  const int streams = std::max(workers, 400);
  for (int i = 0; i < streams; ++i) {
    scope.Spawn(Stream(&load, admissions[static_cast<size_t>(i % workers)].get(),
                       static_cast<uint64_t>(1 + i % jobs)));
  }
  co_await Sleep(reactor, kWarmUp, StopToken());  // the pool learns who is there, and fills
  const ServerTime before = co_await Ask(client);
  const int64_t sent = load.sent;
  co_await Sleep(reactor, time, StopToken());
  const ServerTime after = co_await Ask(client);
  const auto calls = static_cast<double>(load.sent - sent);
  printf(
      "%6ld calls/min, %3d workers %3d jobs: %6.0f calls/s, %5.1f %% of the limit, "
      "%.2f round trips a call, %6.1f us of script, %4.1f %% of a core\n",
      static_cast<long>(per_minute), workers, jobs, calls / absl::ToDoubleSeconds(time),
      100 * calls / absl::ToDoubleSeconds(time) * 60 / static_cast<double>(per_minute),
      (after.calls - before.calls) / calls,
      (after.script_us - before.script_us) / std::max(1.0, after.calls - before.calls),
      (after.cpu_us - before.cpu_us) / absl::ToDoubleMicroseconds(time) * 100);
  fflush(stdout);
  co_await scope.Join();
  for (const auto& admission : admissions) co_await admission->Shutdown();
  for (const auto& store : stores) co_await store->Stop();
}

Task<void> Main(Reactor* reactor, std::string url, absl::Duration time) {
  std::unique_ptr<redis::Client> client = Connect(reactor, url);
  client->Start();
  for (const int callers : {1, 16}) {
    co_await Micro(reactor, client.get(), Mechanics::kBucket, "2 buckets and slots", callers);
    co_await Micro(reactor, client.get(), Mechanics::kWindow, "2 windows and slots", callers);
  }
  for (const int64_t per_minute : {kFast, kUsual}) {
    for (const int workers : {1, 2, 4, 8, 16, 64}) {
      co_await Grow(reactor, client.get(), url, per_minute, workers, 1, time);
    }
    for (const int jobs : {5, 20}) {
      co_await Grow(reactor, client.get(), url, per_minute, 8, jobs, time);
    }
  }
  co_await client->Stop();
}

}  // namespace
}  // namespace headrace::quota

int main(int argc, char** argv) {
  if (argc < 2 || !headrace::redis::ParseUrl(argv[1]).ok()) {
    fprintf(stderr, "redis_quota_bench URL [SECONDS]; it empties that Redis\n");
    return 2;
  }
  int seconds = 4;
  if (argc > 2 && !absl::SimpleAtoi(argv[2], &seconds)) return 2;
  auto reactor = headrace::EpollReactor::Make();
  (*reactor)->Run(headrace::quota::Main(reactor->get(), argv[1], absl::Seconds(seconds)));
  return 0;
}
