// How fast results become durable, and how fast a run directory is read again.
//
//   sink_bench DIR [LINES]     writes about LINES * 2 KB below DIR (default 300,000) and removes it
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/outcome/result_fields.h"
#include "common/outcome/result_line.h"
#include "coordinator/store/results_csv.h"
#include "coordinator/store/run_store.h"

namespace headrace {
namespace {

constexpr size_t kLineBytes = 2048;  // a typical answer of a few hundred tokens
constexpr size_t kChunk = 64;        // results of one message of a worker
constexpr int kWriters = 32;         // chunks under way at once

struct Took {
  double seconds = 0;      // of the clock
  double cpu_seconds = 0;  // of all threads: what remains comparable on a busy machine
};

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Took TimeOf(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = CpuSeconds();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          CpuSeconds() - cpu_start};
}

class LineMaker {
 public:
  LineMaker()
      : body_(absl::StrCat(R"({"choices":[{"message":{"role":"assistant","content":")",
                           std::string(kLineBytes - 720, 'x'), R"("},"finish_reason":"stop"}]})")) {
    line_.model = "gpt-4o-mini";
    line_.custom_id = "question-1234567";
    line_.http_status = 200;
    line_.request_id = "req_0123456789abcdef";
    line_.body = body_;
    line_.finish_reason = "stop";
    line_.attempts = 1;
    line_.usage.prompt_tokens = 300;
    line_.usage.completion_tokens = 400;
    line_.times.first_byte = absl::Milliseconds(210);
    line_.times.first_token = absl::Milliseconds(211);
    line_.times.network = absl::Milliseconds(2345);
    line_.times.total = absl::Milliseconds(2500);
    line_.worker = "worker-7";
    line_.started = absl::FromUnixMillis(1'700'000'000'123);
  }

  void Append(uint64_t item, std::string* out) {
    line_.item = ItemId(item);
    line_.row = RowIndex(item);
    AppendResultLine(line_, out);
  }

 private:
  const std::string body_;
  ResultLine line_;
};

struct CountingVisitor final : RecoveryVisitor {
  void OnOutcome(ItemId item, ErrorClass) override { sum += item.value(); }
  void OnDeferred(const DeferredItem&) override {}
  absl::Status OnSnapshot(absl::string_view) override { return absl::OkStatus(); }
  void OnBatchIdsReserved(BatchId) override {}
  uint64_t sum = 0;
};

void BenchLines() {
  constexpr int kRounds = 500'000;
  LineMaker maker;
  std::string line;
  const Took write = TimeOf([&] {
    for (int i = 0; i < kRounds; ++i) {
      line.clear();
      maker.Append(static_cast<uint64_t>(i), &line);
    }
  });
  uint64_t sum = 0;
  const Took check = TimeOf([&] {
    for (int i = 0; i < kRounds; ++i) sum += CheckResultLine(line)->item.value();
  });
  ResultLineParser parser;
  ResultFields fields;
  const Took parse = TimeOf([&] {
    for (int i = 0; i < kRounds; ++i) sum += parser.Parse(line, &fields).ok() ? 1 : 0;
  });
  std::printf("line of %zu bytes: append %.2f us, check %.2f us, parse %.2f us CPU (%llu)\n",
              line.size(), write.cpu_seconds / kRounds * 1e6, check.cpu_seconds / kRounds * 1e6,
              parse.cpu_seconds / kRounds * 1e6, static_cast<unsigned long long>(sum));
}

Task<void> Writer(RunStore* store, LineMaker* maker, uint64_t* next, uint64_t end) {
  while (*next < end) {
    std::vector<LogRecord> records;
    records.reserve(kChunk);
    for (; records.size() < kChunk && *next < end; ++*next) {
      records.emplace_back();
      maker->Append(*next, &records.back().line);
    }
    const absl::Status status = co_await store->Append(std::move(records), {});
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
  }
}

Task<void> Writers(Reactor* reactor, RunStore* store, uint64_t begin, uint64_t end) {
  LineMaker maker;
  TaskScope scope(reactor, StopToken());
  for (int i = 0; i < kWriters; ++i) scope.Spawn(Writer(store, &maker, &begin, end));
  co_await scope.Join();
}

Task<void> SnapshotAndClose(RunStore* store, std::string snapshot) {
  if (!snapshot.empty()) {
    const absl::Status saved = co_await store->SaveSnapshot(std::move(snapshot));
    if (!saved.ok()) std::exit(1);
  }
  const absl::Status closed = co_await store->Close();
  if (!closed.ok()) std::exit(1);
}

std::unique_ptr<RunStore> Open(const std::string& dir, int64_t rows, Reactor* reactor) {
  CountingVisitor visitor;
  RecoveryReport report;
  RunIdentity identity;
  identity.rows = rows;
  identity.models = 1;
  absl::StatusOr<std::unique_ptr<RunStore>> store = absl::UnknownError("");
  const Took took = TimeOf([&] {
    store =
        RunStore::Open(dir, identity, RunStoreOptions(), Disk::Real(), reactor, &visitor, &report);
  });
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    std::exit(1);
  }
  std::printf("open: %.3f s (%.3f s CPU) for %lld lines, %lld MB scanned\n", took.seconds,
              took.cpu_seconds, static_cast<long long>(report.results),
              static_cast<long long>(report.scanned_bytes >> 20));
  return *std::move(store);
}

void BenchStore(const std::string& dir, uint64_t lines) {
  const std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  const auto rows = static_cast<int64_t>(2 * lines);
  std::unique_ptr<RunStore> store = Open(dir, rows, reactor.get());
  const Took took = TimeOf([&] { reactor->Run(Writers(reactor.get(), store.get(), 0, lines)); });
  const RunStoreStats stats = store->stats();
  std::printf(
      "append: %.0f results/s, %.2f us CPU each, %.0f MB/s, %.0f syncs/s, sync p50 %.2f ms p99 "
      "%.2f "
      "ms\n",
      static_cast<double>(lines) / took.seconds,
      took.cpu_seconds / static_cast<double>(lines) * 1e6,
      static_cast<double>(stats.bytes) / took.seconds / 1e6,
      static_cast<double>(stats.syncs) / took.seconds,
      static_cast<double>(stats.sync_us.Quantile(0.5)) / 1000,
      static_cast<double>(stats.sync_us.Quantile(0.99)) / 1000);
  std::printf("reactor turn p99: %lld us\n",
              static_cast<long long>(reactor->turn_us().Quantile(0.99)));
  reactor->Run(SnapshotAndClose(store.get(), ""));
  store.reset();

  store = Open(dir, rows, reactor.get());
  // A bit and a class for each item, as the coordinator has.
  reactor->Run(SnapshotAndClose(store.get(), std::string(static_cast<size_t>(rows) * 5 / 8, 's')));
  store.reset();
  store = Open(dir, rows, reactor.get());
  reactor->Run(SnapshotAndClose(store.get(), ""));
  store.reset();

  const Took csv = TimeOf([&] {
    if (!WriteResultsCsv(Disk::Real(), dir, CsvOptions()).ok()) std::exit(1);
  });
  std::printf("results.csv: %.2f s, %.2f us CPU per row\n", csv.seconds,
              csv.cpu_seconds / static_cast<double>(lines) * 1e6);
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  uint64_t lines = 300'000;
  if (argc < 2 || argc > 3 || (argc == 3 && !absl::SimpleAtoi(argv[2], &lines))) {
    std::fprintf(stderr, "usage: sink_bench DIR [LINES]\n");
    return 2;
  }
  const std::string dir = absl::StrCat(argv[1], "/sink_bench.run");
  headrace::BenchLines();
  headrace::BenchStore(dir, lines);
  std::filesystem::remove_all(dir);
  return 0;
}
