// What a script call costs through the Redis client: calls per second, latency, round trips.
//
//   redis_bench URL [CALLS]     CALLS (default 50,000) at 1, 16 and 256 callers; one key is written
#include <time.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/base/histogram.h"
#include "common/redis/client.h"

namespace headrace::redis {
namespace {

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Run {
  Client* client;
  Reactor* reactor;
  const Script* script;
  int64_t left;
  int64_t failed = 0;
  Histogram latency_us;
};

Task<void> Call(Run* run) {
  while (run->left-- > 0) {
    const MonoTime start = run->reactor->Now();
    CallOptions options;
    options.deadline = start + absl::Seconds(10);
    const Outcome outcome =
        co_await run->client->Eval(run->script, {"{headrace-bench}:n"}, {"1"}, options);
    if (!outcome.ok()) ++run->failed;
    run->latency_us.Record((run->reactor->Now() - start) / absl::Microseconds(1));
  }
}

Task<void> Main(Reactor* reactor, std::string url_text, int64_t calls) {
  absl::StatusOr<Url> url = ParseUrl(url_text);
  if (!url.ok()) {
    fprintf(stderr, "%s\n", url.status().ToString().c_str());
    co_return;
  }
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Make(reactor, *url, {});
  if (!client.ok()) {
    fprintf(stderr, "%s\n", client.status().ToString().c_str());
    co_return;
  }
  (*client)->Start();
  const absl::Status connected =
      co_await (*client)->WaitConnected(reactor->Now() + absl::Seconds(5), StopToken());
  if (!connected.ok()) fprintf(stderr, "%s\n", connected.ToString().c_str());
  const Script script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
  for (const int callers : {1, 16, 256}) {
    if (!connected.ok()) break;
    Run run{client->get(), reactor, &script, calls, 0, {}};
    const Health before = (*client)->health();
    const MonoTime start = reactor->Now();
    const double cpu_start = CpuSeconds();
    TaskScope scope(reactor, StopToken());
    for (int i = 0; i < callers; ++i) scope.Spawn(Call(&run));
    co_await scope.Join();
    const double seconds = absl::ToDoubleSeconds(reactor->Now() - start);
    const double cpu = CpuSeconds() - cpu_start;
    const Health after = (*client)->health();
    const double done = static_cast<double>(after.calls - before.calls);
    printf(
        "%3d callers: %7.0f calls/s, p50 %.0f us, p99 %.0f us, %.1f us of CPU per call, "
        "%.3f round trips and %.3f writes per call, %ld failed\n",
        callers, done / seconds, static_cast<double>(run.latency_us.Quantile(0.5)),
        static_cast<double>(run.latency_us.Quantile(0.99)), cpu / done * 1e6,
        static_cast<double>(after.round_trips - before.round_trips) / done,
        static_cast<double>(after.writes - before.writes) / done, static_cast<long>(run.failed));
  }
  co_await (*client)->Stop();
}

}  // namespace
}  // namespace headrace::redis

int main(int argc, char** argv) {
  int64_t calls = 50'000;
  if (argc < 2 || argc > 3 || (argc == 3 && !absl::SimpleAtoi(argv[2], &calls))) {
    fprintf(stderr, "usage: redis_bench URL [CALLS]\n");
    return 2;
  }
  auto reactor = headrace::EpollReactor::Make();
  if (!reactor.ok()) return 1;
  (*reactor)->Run(headrace::redis::Main(reactor->get(), argv[1], calls));
  return 0;
}
