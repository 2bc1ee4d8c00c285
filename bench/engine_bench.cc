// Drives an HTTP engine alone against a running server, for comparison with h2load on the same
// server: requests per second, CPU per request of this process, memory, latencies.
//
//   headrace_engine_bench --url https://localhost:8443/v1 --ca-file ca.pem --in-flight 1000
//   headrace_engine_bench --url https://localhost:8443/stream --in-flight 2500 --stream
//   headrace_engine_bench --url http://localhost:8080/v1 --protocol http11 --in-flight 1000
//
// A streamed event that begins with "data: t=<nanoseconds of CLOCK_MONOTONIC>" gives its latency.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/histogram.h"
#include "worker/http/client.h"
#include "worker/http/url.h"

namespace headrace::http {
namespace {

struct Flags {
  std::string url;
  std::string ca_file;
  std::string method = "POST";
  std::string protocol = "http2";
  std::string body_file;
  int in_flight = 1000;
  int64_t requests = 100'000;
  int body_bytes = 200;
  int streams_per_connection = 100;
  double read_tick_ms = 5;
  bool stream = false;
  double duration_s = 10;
};

absl::Duration CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

// Resident kilobytes now and at most.
void PrintMemory() {
  FILE* status = fopen("/proc/self/status", "r");
  if (status == nullptr) return;
  char line[256];
  while (fgets(line, sizeof(line), status) != nullptr) {
    if (absl::string_view(line).substr(0, 6) == "VmRSS:" ||
        absl::string_view(line).substr(0, 6) == "VmHWM:") {
      printf("%s", line);
    }
  }
  fclose(status);
}

struct Totals {
  int64_t started = 0;
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t events = 0;
  std::string first_failure;
  Histogram call_us;
  Histogram event_us;
};

class Counter final : public Receiver {
 public:
  Counter(Reactor* reactor, Totals* totals) : reactor_(reactor), totals_(totals) {}

  void OnHeaders(int status, Headers headers) override {}
  BodyVerdict OnBody(absl::string_view piece) override {
    constexpr absl::string_view kStamp = "data: t=";
    // Events may share a piece; a cut stamp is not counted as a latency.
    for (size_t at = piece.find(kStamp); at != absl::string_view::npos;
         at = piece.find(kStamp, at + 1)) {
      ++totals_->events;
      absl::string_view digits = piece.substr(at + kStamp.size());
      digits = digits.substr(0, digits.find_first_not_of("0123456789"));
      int64_t nanos = 0;
      if (digits.size() < 10 || !absl::SimpleAtoi(digits, &nanos)) continue;
      totals_->event_us.Record((reactor_->Now().nanos() - nanos) / 1000);
    }
    return BodyVerdict::kProgress;
  }

 private:
  Reactor* const reactor_;
  Totals* const totals_;
};

Task<void> Caller(Engine* engine, Reactor* reactor, const Flags* flags, const Url* url,
                  const std::string* body, Totals* totals, StopToken stop) {
  while (!stop.stopped() && (flags->stream || totals->started < flags->requests)) {
    ++totals->started;
    Request request;
    request.method = flags->method;
    request.path = url->query.empty() ? url->path : url->path + "?" + url->query;
    request.headers = {{"content-type", "application/json"}, {"authorization", "Bearer bench"}};
    request.body = *body;
    request.timeouts.total = absl::Minutes(10);
    Counter counter(reactor, totals);
    const CallResult result = co_await engine->Call(&request, &counter, stop);
    if (result.end == CallEnd::kComplete && result.status == 200) {
      ++totals->ok;
    } else if (result.end != CallEnd::kCancelled) {
      if (totals->failed++ == 0) {
        totals->first_failure = std::string(CallEndName(result.end)) + " " +
                                std::to_string(result.status) + " " + result.detail;
      }
      if (totals->failed > 1000) break;
    }
    totals->call_us.Record((result.stamps.end - result.stamps.queued) / absl::Microseconds(1));
  }
}

void Report(const Flags& flags, const Totals& totals, const EngineStats& stats,
            absl::Duration elapsed, absl::Duration cpu) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double cpu_us = absl::ToDoubleMicroseconds(cpu);
  printf("%lld ok, %lld failed in %.2f s; %.1f %% of a core; %lld connections, %lld replays\n",
         static_cast<long long>(totals.ok), static_cast<long long>(totals.failed), seconds,
         cpu_us / seconds / 1e4, static_cast<long long>(stats.connections_made),
         static_cast<long long>(stats.replays));
  if (totals.failed > 0) printf("first failure: %s\n", totals.first_failure.c_str());
  if (totals.ok > 0) {
    printf("requests: %.0f/s, %.2f us CPU each; latency us p50 %lld p99 %lld max %lld\n",
           static_cast<double>(totals.ok) / seconds, cpu_us / static_cast<double>(totals.ok),
           static_cast<long long>(totals.call_us.Quantile(0.5)),
           static_cast<long long>(totals.call_us.Quantile(0.99)),
           static_cast<long long>(totals.call_us.max()));
  }
  if (totals.events > 0) {
    printf("events: %.0f/s, %.2f us CPU each; latency us p50 %lld p99 %lld max %lld\n",
           static_cast<double>(totals.events) / seconds,
           cpu_us / static_cast<double>(totals.events),
           static_cast<long long>(totals.event_us.Quantile(0.5)),
           static_cast<long long>(totals.event_us.Quantile(0.99)),
           static_cast<long long>(totals.event_us.max()));
  }
  PrintMemory();
}

std::string BodyOf(const Flags& flags) {
  if (!flags.body_file.empty()) {
    std::ostringstream text;
    text << std::ifstream(flags.body_file).rdbuf();
    return text.str();
  }
  return std::string(flags.method == "POST" ? static_cast<size_t>(flags.body_bytes) : 0, 'x');
}

Task<void> Main(Reactor* reactor, Engine* engine, const Flags* flags, const Url* url) {
  Totals totals;
  const std::string body = BodyOf(*flags);
  const absl::Duration duration =
      flags->stream ? absl::Seconds(flags->duration_s) : absl::InfiniteDuration();
  const MonoTime start = reactor->Now();
  const absl::Duration cpu = CpuTime();
  {
    DeadlineSource deadline(reactor, start + duration, StopToken());
    TaskScope scope(reactor, deadline.token());
    for (int i = 0; i < flags->in_flight; ++i) {
      scope.Spawn(Caller(engine, reactor, flags, url, &body, &totals, scope.token()));
    }
    co_await scope.Join();
  }
  Report(*flags, totals, engine->stats(), reactor->Now() - start, CpuTime() - cpu);
  co_await engine->Shutdown();
}

int Run(const Flags& flags) {
  absl::StatusOr<Url> url = ParseUrl(flags.url);
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  if (!url.ok() || !reactor.ok()) {
    fprintf(stderr, "%s\n", (url.ok() ? reactor.status() : url.status()).ToString().c_str());
    return 2;
  }
  ClientOptions options;
  options.endpoint = *url;
  options.ca_file = flags.ca_file;
  options.streams_per_connection = flags.streams_per_connection;
  options.max_read_tick = absl::Milliseconds(flags.read_tick_ms);
  options.max_requests_per_connection = 1 << 29;
  options.protocol = flags.protocol == "http2"    ? Protocol::kHttp2
                     : flags.protocol == "http11" ? Protocol::kHttp11
                                                  : Protocol::kAuto;
  absl::StatusOr<std::unique_ptr<Engine>> engine = MakeClient(reactor->get(), options);
  if (!engine.ok()) {
    fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 2;
  }
  (*reactor)->Run(Main(reactor->get(), engine->get(), &flags, &*url));
  return 0;
}

}  // namespace
}  // namespace headrace::http

int main(int argc, char** argv) {
  headrace::http::Flags flags;
  CLI::App app("Drives an HTTP engine against a server");
  app.add_option("--url", flags.url, "http:// (h2c) or https://")->required();
  app.add_option("--ca-file", flags.ca_file, "PEM bundle");
  app.add_option("--method", flags.method);
  app.add_option("--protocol", flags.protocol)->check(CLI::IsMember({"http2", "http11", "auto"}));
  app.add_option("--body-file", flags.body_file, "a request body to send, instead of filler");
  app.add_option("--in-flight", flags.in_flight);
  app.add_option("--requests", flags.requests, "in all, without --stream");
  app.add_option("--body-bytes", flags.body_bytes);
  app.add_option("--streams-per-connection", flags.streams_per_connection);
  app.add_option("--read-tick-ms", flags.read_tick_ms, "0: read at once, always");
  app.add_flag("--stream", flags.stream, "count events for --duration instead of requests");
  app.add_option("--duration", flags.duration_s, "seconds, with --stream");
  CLI11_PARSE(app, argc, argv);
  return headrace::http::Run(flags);
}
