// Helpers of the store's tests: lines to write, and a visitor that remembers what recovery told.
#ifndef HEADRACE_TESTS_UNIT_COORDINATOR_STORE_STORE_TEST_UTIL_H_
#define HEADRACE_TESTS_UNIT_COORDINATOR_STORE_STORE_TEST_UTIL_H_

#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/reactor.h"
#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/base/log.h"
#include "common/outcome/result_line.h"
#include "coordinator/store/run_store.h"

namespace headrace {

// A result line of `item` whose answer has `padding` bytes of text.
inline std::string LineOf(uint64_t item, ErrorClass error_class = ErrorClass::kNone,
                          size_t padding = 10) {
  const std::string body =
      absl::StrCat(R"({"choices":[{"message":{"content":")", std::string(padding, 'x'), R"("}}]})");
  const std::string custom_id = absl::StrCat("q", item);
  ResultLine line;
  line.item = ItemId(item);
  line.row = RowIndex(item);
  line.model = "m";
  line.custom_id = custom_id;
  line.error_class = error_class;
  line.http_status = 200;
  line.body = body;
  std::string out;
  AppendResultLine(line, &out);
  return out;
}

inline LogRecord RecordOf(uint64_t item, ErrorClass error_class = ErrorClass::kNone,
                          size_t padding = 10) {
  return {error_class == ErrorClass::kNone ? LogFile::kResults : LogFile::kErrors,
          LineOf(item, error_class, padding)};
}

inline DeferredItem DeferralOf(uint64_t item, uint32_t passes = 1) {
  return {ItemId(item), ErrorClass::kTimeout, passes, 2 * passes};
}

// What recovery told, in order and as a whole.
class RecordingVisitor final : public RecoveryVisitor {
 public:
  void OnOutcome(ItemId item, ErrorClass error_class) override {
    told.push_back(item.value());
    outcomes.emplace(item.value(), error_class);
  }
  void OnDeferred(const DeferredItem& item) override { deferred[item.item.value()] = item; }
  absl::Status OnSnapshot(absl::string_view bytes) override {
    snapshot = std::string(bytes);
    return absl::OkStatus();
  }
  void OnBatchIdsReserved(BatchId up_to) override { batch_ids = up_to; }
  void OnWorker(absl::string_view worker_id, absl::string_view boot_nonce) override {
    workers.push_back(absl::StrCat(worker_id, "/", boot_nonce));
  }

  std::vector<uint64_t> told;
  std::map<uint64_t, ErrorClass> outcomes;
  std::map<uint64_t, DeferredItem> deferred;
  std::string snapshot;
  BatchId batch_ids;
  std::vector<std::string> workers;  // "id/nonce", in the order told
};

inline RunIdentity TestIdentity() {
  RunIdentity identity;
  identity.job_yaml = "job: test\nbatch: {size: 500}\nmodels:\n  - name: a\n";
  identity.dataset_sha256 = "abc";
  identity.rows = 1000;
  identity.models = 1;
  return identity;
}

inline RunStoreOptions InlineOptions() {
  RunStoreOptions options;
  options.writer_thread = false;
  return options;
}

struct Opened {
  absl::StatusOr<std::unique_ptr<RunStore>> store = absl::UnknownError("not opened");
  RecordingVisitor visitor;
  RecoveryReport report;

  RunStore* operator->() { return store->get(); }
  bool ok() const { return store.ok(); }
};

inline std::unique_ptr<Opened> OpenStore(Disk* disk, Reactor* reactor, const std::string& dir,
                                         const RunStoreOptions& options = InlineOptions(),
                                         const RunIdentity& identity = TestIdentity()) {
  auto opened = std::make_unique<Opened>();
  opened->store =
      RunStore::Open(dir, identity, options, disk, reactor, &opened->visitor, &opened->report);
  return opened;
}

inline Task<void> StoreResult(Task<absl::Status> task, absl::Status* out) {
  *out = co_await std::move(task);
}

// Runs one call of a store to its end.
inline absl::Status RunCall(Reactor* reactor, Task<absl::Status> task) {
  absl::Status status = absl::UnknownError("did not end");
  reactor->Run(StoreResult(std::move(task), &status));
  return status;
}

inline Task<void> AppendChunk(RunStore* store, uint64_t item, absl::Status* status) {
  std::vector<LogRecord> records = {RecordOf(item), RecordOf(item + 1000, ErrorClass::kAuth)};
  *status = co_await store->Append(std::move(records), {DeferralOf(item + 2000)});
}

// Appends chunk i, of items i, i + 1000 and i + 2000, for each status, all at once.
inline Task<void> AppendChunks(Reactor* reactor, RunStore* store,
                               std::vector<absl::Status>* statuses) {
  TaskScope scope(reactor, StopToken());
  for (size_t i = 0; i < statuses->size(); ++i) {
    scope.Spawn(AppendChunk(store, i, &(*statuses)[i]));
  }
  co_await scope.Join();
}

// A directory that is removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "headrace-test-XXXXXX").string();
    HR_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_UNIT_COORDINATOR_STORE_STORE_TEST_UTIL_H_
