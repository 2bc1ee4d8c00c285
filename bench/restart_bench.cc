// How long a coordinator needs to start again on a run directory of many results.
//
//   restart_bench DIR [ITEMS]     writes about ITEMS * 1.3 KB below DIR (default 1,000,000 items),
//                                 opens it in several ways, and removes it
//
// The directory is made by the store itself: 97 % results, 3 % errors, one deferral for every tenth
// item, a batch reservation for every 64,000 items and 50 workers that come and go. "Cold" means
// that the files were dropped from the page cache before; no rights are needed for that.
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
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
#include "common/outcome/result_line.h"
#include "coordinator/store/run_store.h"

namespace headrace {
namespace {

constexpr size_t kAnswerBytes = 700;  // with all else of a line 1.3 KB, an answer of 200 tokens
constexpr uint64_t kChunk = 64;       // results of one message of a worker
constexpr int kWriters = 32;          // chunks under way
constexpr uint64_t kWorkers = 50;

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// What a coordinator keeps of each item: a class, 0 while it is open.
class ItemClasses final : public RecoveryVisitor {
 public:
  explicit ItemClasses(uint64_t items) : classes_(items, 0) {}

  void OnOutcome(ItemId item, ErrorClass error_class) override {
    uint8_t& known = classes_.at(item.value());
    if (known == 0) ++outcomes;
    known = static_cast<uint8_t>(static_cast<int>(error_class) + 1);
  }
  void OnDeferred(const DeferredItem&) override { ++deferred; }
  absl::Status OnSnapshot(absl::string_view snapshot) override {
    if (snapshot.size() != classes_.size()) return absl::DataLossError("another size");
    for (size_t i = 0; i < classes_.size(); ++i) {
      classes_[i] = static_cast<uint8_t>(snapshot[i]);
      outcomes += classes_[i] != 0 ? 1 : 0;
    }
    return absl::OkStatus();
  }
  void OnBatchIdsReserved(BatchId) override {}
  void OnWorker(absl::string_view, absl::string_view) override { ++workers; }

  std::string Snapshot() const { return std::string(classes_.begin(), classes_.end()); }

  uint64_t outcomes = 0;
  uint64_t deferred = 0;
  uint64_t workers = 0;

 private:
  std::vector<uint8_t> classes_;
};

void AppendLine(uint64_t item, absl::string_view body, std::vector<LogRecord>* records) {
  const std::string custom_id = absl::StrCat("question-", item);
  ResultLine line;
  line.item = ItemId(item);
  line.row = RowIndex(item);
  line.model = "gpt-4o-mini";
  line.custom_id = custom_id;
  line.error_class = item % 33 == 0 ? ErrorClass::kContentFilter : ErrorClass::kNone;
  line.http_status = 200;
  line.request_id = "req_0123456789abcdef";
  line.body = body;
  line.finish_reason = "stop";
  line.attempts = 1;
  line.usage.prompt_tokens = 300;
  line.usage.completion_tokens = 200;
  line.times.first_byte = absl::Milliseconds(210);
  line.times.network = line.times.total = absl::Milliseconds(2345);
  line.worker = "worker-7";
  line.started = absl::FromUnixMillis(1'700'000'000'123);
  records->emplace_back();
  records->back().file =
      line.error_class == ErrorClass::kNone ? LogFile::kResults : LogFile::kErrors;
  AppendResultLine(line, &records->back().line);
}

Task<void> Writer(RunStore* store, uint64_t* next, uint64_t end) {
  const std::string body =
      absl::StrCat(R"({"choices":[{"message":{"role":"assistant","content":")",
                   std::string(kAnswerBytes, 'x'), R"("},"finish_reason":"stop"}]})");
  while (*next < end) {
    std::vector<LogRecord> records;
    std::vector<DeferredItem> deferred;
    records.reserve(kChunk);
    for (; records.size() < kChunk && *next < end; ++*next) {
      AppendLine(*next, body, &records);
      if (*next % 10 == 0) deferred.push_back({ItemId(*next), ErrorClass::kTimeout, 1, 3});
    }
    const absl::Status status = co_await store->Append(std::move(records), std::move(deferred));
    if (!status.ok()) Fail(status);
  }
}

Task<void> Fill(Reactor* reactor, RunStore* store, uint64_t begin, uint64_t end) {
  absl::Status status = co_await store->ReserveBatchIds(BatchId(end / 500 + 1));
  for (uint64_t i = 0; i < kWorkers && status.ok(); ++i) {
    std::string worker = absl::StrCat("worker-", i);
    std::string nonce = absl::StrCat(begin);
    status = co_await store->RecordWorker(std::move(worker), std::move(nonce), true);
  }
  if (!status.ok()) Fail(status);
  TaskScope scope(reactor, StopToken());
  for (int i = 0; i < kWriters; ++i) scope.Spawn(Writer(store, &begin, end));
  co_await scope.Join();
}

Task<void> SaveAndClose(RunStore* store, std::string snapshot) {
  absl::Status status;
  if (!snapshot.empty()) status = co_await store->SaveSnapshot(std::move(snapshot));
  if (status.ok()) status = co_await store->Close();
  if (!status.ok()) Fail(status);
}

void DropFromCache(const std::string& dir) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

// One start. `what` is printed with its figures when it is not empty.
std::unique_ptr<RunStore> Start(const std::string& dir, const std::string& what,
                                ItemClasses* classes, uint64_t items, Reactor* reactor) {
  RunIdentity identity;
  identity.rows = static_cast<int64_t>(items);
  identity.models = 1;
  RecoveryReport report;
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = CpuSeconds();
  auto store =
      RunStore::Open(dir, identity, RunStoreOptions(), Disk::Real(), reactor, classes, &report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!store.ok()) Fail(store.status());
  if (!what.empty()) {
    std::printf("%-42s %6.3f s, %6.3f s CPU; %lld MB scanned, %llu outcomes, %llu deferrals\n",
                what.c_str(), seconds, CpuSeconds() - cpu_start,
                static_cast<long long>(report.scanned_bytes / 1'000'000),
                static_cast<unsigned long long>(classes->outcomes),
                static_cast<unsigned long long>(classes->deferred));
  }
  return *std::move(store);
}

void TimeStarts(const std::string& dir, const std::string& what, uint64_t items, Reactor* reactor) {
  {
    ItemClasses classes(items);
    std::unique_ptr<RunStore> store = Start(dir, "", &classes, items, reactor);
    reactor->Run(SaveAndClose(store.get(), ""));
  }
  for (const bool cold : {false, true}) {
    for (int round = 0; round < 3; ++round) {
      if (cold) DropFromCache(dir);
      ItemClasses classes(items);
      const std::string line = absl::StrCat(what, cold ? ", cold" : ", warm");
      std::unique_ptr<RunStore> store = Start(dir, line, &classes, items, reactor);
      reactor->Run(SaveAndClose(store.get(), ""));
    }
  }
}

// Appends items [begin, end) and saves a snapshot of all that are there.
void Grow(const std::string& dir, uint64_t begin, uint64_t end, uint64_t items, bool snapshot,
          Reactor* reactor) {
  if (begin < end) {
    ItemClasses classes(items);
    std::unique_ptr<RunStore> store = Start(dir, "", &classes, items, reactor);
    reactor->Run(Fill(reactor, store.get(), begin, end));
    reactor->Run(SaveAndClose(store.get(), ""));
  }
  if (snapshot) {
    ItemClasses classes(items);
    std::unique_ptr<RunStore> store = Start(dir, "", &classes, items, reactor);
    reactor->Run(SaveAndClose(store.get(), classes.Snapshot()));
  }
}

void RemoveSnapshots(const std::string& dir) {
  std::vector<std::filesystem::path> snapshots;
  for (const auto& entry : std::filesystem::directory_iterator(dir + "/journal")) {
    if (entry.path().extension() == ".bin") snapshots.push_back(entry.path());
  }
  for (const std::filesystem::path& snapshot : snapshots) std::filesystem::remove(snapshot);
}

void Bench(const std::string& dir, uint64_t items) {
  const std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  // A coordinator saves a snapshot for every 64 MB of log: about 50,000 of these lines.
  const uint64_t before = items - std::min(items, uint64_t{50'000});
  Grow(dir, 0, before, items, /*snapshot=*/true, reactor.get());
  Grow(dir, before, items, items, /*snapshot=*/false, reactor.get());
  TimeStarts(dir, "snapshot 50,000 items before the end", items, reactor.get());
  RemoveSnapshots(dir);
  TimeStarts(dir, "no snapshot", items, reactor.get());
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak memory %ld MB\n", usage.ru_maxrss / 1024);
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  uint64_t items = 1'000'000;
  if (argc < 2 || argc > 3 || (argc == 3 && !absl::SimpleAtoi(argv[2], &items))) {
    std::fprintf(stderr, "usage: restart_bench DIR [ITEMS]\n");
    return 2;
  }
  const std::string dir = absl::StrCat(argv[1], "/restart_bench.run");
  headrace::Bench(dir, items);
  std::filesystem::remove_all(dir);
  return 0;
}
