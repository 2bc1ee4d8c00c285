#include "coordinator/store/run_store.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kDir[] = "run";
constexpr char kResults[] = "run/results.jsonl";

std::vector<LogRecord> RecordsOf(std::initializer_list<uint64_t> items) {
  std::vector<LogRecord> records;
  for (const uint64_t item : items) records.push_back(RecordOf(item));
  return records;
}

// One virtual reactor, one fault disk, and stores that come and go on them.
class RunStoreTest : public ::testing::Test {
 protected:
  void Open(const RunStoreOptions& options = InlineOptions(),
            const RunIdentity& identity = TestIdentity()) {
    opened_.reset();
    opened_ = OpenStore(&disk_, &reactor_, kDir, options, identity);
  }
  absl::Status Append(std::vector<LogRecord> records, std::vector<DeferredItem> deferred = {}) {
    return RunCall(&reactor_, store()->Append(std::move(records), std::move(deferred)));
  }
  absl::Status SaveSnapshot(std::string content) {
    return RunCall(&reactor_, store()->SaveSnapshot(std::move(content)));
  }
  absl::Status RecordWorker(std::string id, std::string nonce, bool present) {
    return RunCall(&reactor_, store()->RecordWorker(std::move(id), std::move(nonce), present));
  }
  absl::Status Close() { return RunCall(&reactor_, store()->Close()); }
  RunStore* store() { return opened_->store->get(); }
  const RecordingVisitor& visitor() { return opened_->visitor; }
  const RecoveryReport& report() { return opened_->report; }
  absl::Status open_status() { return opened_->store.status(); }

  VirtualReactor reactor_;
  FaultDisk disk_;
  std::unique_ptr<Opened> opened_;
};

TEST_F(RunStoreTest, AChangedJobOrDatasetIsRefusedWithWhatChanged) {
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  ASSERT_EQ(Append(RecordsOf({1})), absl::OkStatus());
  RunIdentity changed = TestIdentity();
  changed.job_yaml = "job: test\nbatch: {size: 250}\nmodels:\n  - name: a\n    stream: false\n";
  changed.rows = 1001;
  changed.dataset_sha256 = "def";
  Open(InlineOptions(), changed);
  EXPECT_EQ(open_status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(open_status().message()),
      AllOf(HasSubstr("dataset rows: 1000 -> 1001"),
            HasSubstr("dataset content (SHA-256): abc -> def"), HasSubstr("batch.size: 500 -> 250"),
            HasSubstr("models[0].stream: (none) -> false")));
  EXPECT_THAT(visitor().told, IsEmpty());
}

TEST_F(RunStoreTest, ResultsWithoutAJournalAreNotARunDirectory) {
  disk_.SetContent(kResults, "{\"id\":\"someone else's\"}\n");
  Open();
  EXPECT_EQ(open_status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(disk_.Content(kResults), "{\"id\":\"someone else's\"}\n");
}

TEST_F(RunStoreTest, TheSameDirectoryOpensOnce) {
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  const std::unique_ptr<Opened> second = OpenStore(&disk_, &reactor_, kDir);
  EXPECT_EQ(second->store.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RunStoreTest, AFreshDirectoryHoldsNothingAndNamesItsJob) {
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_FALSE(report().resumed);
  EXPECT_EQ(report().results, 0);
  EXPECT_EQ(disk_.Content("run/job.resolved.yaml"), TestIdentity().job_yaml);
  EXPECT_EQ(Close(), absl::OkStatus());
}

TEST_F(RunStoreTest, WhatWasAppendedIsToldAfterARestartInOrder) {
  Open();
  std::vector<LogRecord> records = RecordsOf({3, 1});
  records.push_back(RecordOf(2, ErrorClass::kAuth));
  ASSERT_EQ(Append(records, {DeferralOf(7), DeferralOf(8)}), absl::OkStatus());
  ASSERT_EQ(Append(RecordsOf({5}), {DeferralOf(7, 2)}), absl::OkStatus());
  ASSERT_EQ(RunCall(&reactor_, store()->ReserveBatchIds(BatchId(64))), absl::OkStatus());
  ASSERT_EQ(Close(), absl::OkStatus());
  EXPECT_EQ(disk_.Content(kResults),
            absl::StrCat(LineOf(3), "\n", LineOf(1), "\n", LineOf(5), "\n"));

  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_TRUE(report().resumed);
  EXPECT_EQ(report().results, 3);
  EXPECT_EQ(report().errors, 1);
  EXPECT_EQ(report().torn_bytes, 0);
  EXPECT_THAT(report().warnings, IsEmpty());
  EXPECT_THAT(visitor().told, ElementsAre(3, 1, 5, 2));
  EXPECT_EQ(visitor().outcomes.at(2), ErrorClass::kAuth);
  ASSERT_THAT(visitor().deferred, SizeIs(2));
  EXPECT_EQ(visitor().deferred.at(7).passes, 2u);
  EXPECT_EQ(visitor().deferred.at(8).error_class, ErrorClass::kTimeout);
  EXPECT_EQ(visitor().deferred.at(8).attempts, 2u);
  EXPECT_EQ(visitor().batch_ids, BatchId(64));
}

TEST_F(RunStoreTest, StartsAreCountedAndTheFirstIsRemembered) {
  const absl::Time before = absl::Now();
  Open();
  const absl::Time first = report().first_start;
  EXPECT_EQ(report().starts, 1);
  EXPECT_GE(first, before);
  EXPECT_LE(first, absl::Now());
  for (int64_t starts = 2; starts <= 4; ++starts) {
    Open();
    EXPECT_EQ(report().starts, starts);
    EXPECT_LE(absl::AbsDuration(report().first_start - first), absl::Microseconds(1));
  }
}

TEST_F(RunStoreTest, AfterASnapshotOnlyLaterLinesAndDeferralsAreTold) {
  Open();
  ASSERT_EQ(Append(RecordsOf({1, 2}), {DeferralOf(10)}), absl::OkStatus());
  ASSERT_EQ(RunCall(&reactor_, store()->ReserveBatchIds(BatchId(8))), absl::OkStatus());
  ASSERT_EQ(SaveSnapshot("state of 1 2 10"), absl::OkStatus());
  ASSERT_EQ(Append(RecordsOf({3}), {DeferralOf(11)}), absl::OkStatus());

  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_EQ(visitor().snapshot, "state of 1 2 10");
  EXPECT_THAT(visitor().told, ElementsAre(3));
  EXPECT_THAT(visitor().deferred, SizeIs(1));
  EXPECT_EQ(visitor().deferred.count(11), 1u);
  EXPECT_EQ(visitor().batch_ids, BatchId(8));
  EXPECT_EQ(report().results, 3);
  EXPECT_EQ(report().scanned_bytes, static_cast<int64_t>(LineOf(3).size() + 1));
}

Task<void> AppendInto(RunStore* store, std::vector<LogRecord> records, absl::Status* status) {
  *status = co_await store->Append(std::move(records), {});
}

Task<void> SnapshotWhileAnAppendIsUnderWay(Reactor* reactor, RunStore* store,
                                           std::vector<absl::Status>* statuses) {
  TaskScope scope(reactor, StopToken());
  statuses->resize(2);
  scope.Spawn(AppendInto(store, RecordsOf({2}), &(*statuses)[0]));
  co_await Yield(reactor);
  // The caller does not know yet that item 2 is durable, so its snapshot lacks it.
  (*statuses)[1] = co_await store->SaveSnapshot("state of 1");
  co_await scope.Join();
}

TEST_F(RunStoreTest, AnAppendUnderWayDuringASnapshotIsToldAgain) {
  Open();
  ASSERT_EQ(Append(RecordsOf({1})), absl::OkStatus());
  std::vector<absl::Status> statuses;
  reactor_.Run(SnapshotWhileAnAppendIsUnderWay(&reactor_, store(), &statuses));
  EXPECT_THAT(statuses, ElementsAre(absl::OkStatus(), absl::OkStatus()));
  Open();
  EXPECT_EQ(visitor().snapshot, "state of 1");
  EXPECT_THAT(visitor().told, ElementsAre(2));
}

TEST_F(RunStoreTest, TwoSnapshotsAreKept) {
  Open();
  for (const char* content : {"a", "b", "c", "d"}) {
    ASSERT_EQ(SaveSnapshot(content), absl::OkStatus());
  }
  EXPECT_FALSE(disk_.Exists("run/journal/snapshot-00000000000000000002.bin"));
  EXPECT_TRUE(disk_.Exists("run/journal/snapshot-00000000000000000003.bin"));
  EXPECT_TRUE(disk_.Exists("run/journal/snapshot-00000000000000000004.bin"));
  Open();
  EXPECT_EQ(visitor().snapshot, "d");
}

TEST_F(RunStoreTest, ASnapshotIsWantedAfterItsShareOfLog) {
  RunStoreOptions options = InlineOptions();
  options.snapshot_bytes = 3000;
  Open(options);
  EXPECT_FALSE(store()->snapshot_wanted());
  ASSERT_EQ(Append({RecordOf(1, ErrorClass::kNone, 3000)}), absl::OkStatus());
  EXPECT_TRUE(store()->snapshot_wanted());
  ASSERT_EQ(SaveSnapshot(std::string(2000, 's')), absl::OkStatus());
  ASSERT_EQ(Append({RecordOf(2, ErrorClass::kNone, 3000)}), absl::OkStatus());
  EXPECT_FALSE(store()->snapshot_wanted()) << "4 times the last snapshot is 8 KB";
  ASSERT_EQ(Append({RecordOf(3, ErrorClass::kNone, 6000)}), absl::OkStatus());
  EXPECT_TRUE(store()->snapshot_wanted());
}

TEST_F(RunStoreTest, CallsAfterCloseAreRefused) {
  Open();
  ASSERT_EQ(Close(), absl::OkStatus());
  EXPECT_EQ(Close(), absl::OkStatus());
  EXPECT_EQ(Append(RecordsOf({1})).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(SaveSnapshot("x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RunStoreTest, WorkersThatAreStillPresentAreToldAfterARestart) {
  Open();
  ASSERT_EQ(RecordWorker("w-2", "n2", true), absl::OkStatus());
  ASSERT_EQ(RecordWorker("w-1", "n1", true), absl::OkStatus());
  ASSERT_EQ(RecordWorker("w-3", "n3", true), absl::OkStatus());
  ASSERT_EQ(RecordWorker("w-2", "n2", false), absl::OkStatus());
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_THAT(visitor().workers, ElementsAre("w-1/n1", "w-3/n3"));
  ASSERT_EQ(RecordWorker("w-3", "n3", false), absl::OkStatus());
  ASSERT_EQ(SaveSnapshot("s"), absl::OkStatus());
  Open();
  EXPECT_THAT(visitor().workers, ElementsAre("w-1/n1"));
}

TEST_F(RunStoreTest, ANewProcessOfAWorkerReplacesTheOldOneWhoseEndThenMeansNothing) {
  Open();
  ASSERT_EQ(RecordWorker("w", "old", true), absl::OkStatus());
  ASSERT_EQ(RecordWorker("w", "new", true), absl::OkStatus());
  ASSERT_EQ(RecordWorker("w", "old", false), absl::OkStatus());
  Open();
  EXPECT_THAT(visitor().workers, ElementsAre("w/new"));
}

TEST_F(RunStoreTest, AWorkerThatTheJournalHoldsAlreadyCostsNothing) {
  Open();
  ASSERT_EQ(RecordWorker("w", "n", true), absl::OkStatus());
  const int64_t syncs = disk_.calls(FaultDisk::Call::kDataSync);
  EXPECT_EQ(RecordWorker("w", "n", true), absl::OkStatus());
  EXPECT_EQ(RecordWorker("v", "n", false), absl::OkStatus());
  Open();  // syncs three files and one record
  EXPECT_EQ(disk_.calls(FaultDisk::Call::kDataSync) - syncs, 4);
  EXPECT_EQ(RecordWorker("w", "n", true), absl::OkStatus());
  EXPECT_EQ(disk_.calls(FaultDisk::Call::kDataSync) - syncs, 4);
}

Task<void> RecordInto(RunStore* store, bool present, absl::Status* status) {
  *status = co_await store->RecordWorker("w", "n", present);
}

Task<void> RecordTwiceAtOnce(Reactor* reactor, RunStore* store, FaultDisk* disk,
                             std::vector<absl::Status>* statuses) {
  TaskScope scope(reactor, StopToken());
  statuses->resize(2);
  disk->FailNth(FaultDisk::Call::kDataSync, 1, absl::InternalError("sync"));
  scope.Spawn(RecordInto(store, true, &(*statuses)[0]));
  scope.Spawn(RecordInto(store, true, &(*statuses)[1]));
  co_await scope.Join();
}

TEST_F(RunStoreTest, AWorkerWhoseRecordIsUnderWayIsNotYetDurable) {
  Open();
  std::vector<absl::Status> statuses;
  reactor_.Run(RecordTwiceAtOnce(&reactor_, store(), &disk_, &statuses));
  EXPECT_THAT(statuses, ::testing::Each(absl::InternalError("sync")));
}

TEST_F(RunStoreTest, AnAbsurdWorkerIdIsRefusedAndTheStoreGoesOn) {
  Open();
  const std::string text(RunStore::kMaxWorkerText + 1, 'w');
  EXPECT_EQ(RecordWorker(text, "n", true).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RecordWorker("w", text, true).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RecordWorker(text.substr(1), "", true), absl::OkStatus());
  Open();
  EXPECT_THAT(visitor().workers, ElementsAre(text.substr(1) + "/"));
}

TEST_F(RunStoreTest, AnEmptyAppendEndsAtOnce) {
  Open();
  const int64_t syncs = disk_.calls(FaultDisk::Call::kDataSync);
  EXPECT_EQ(Append({}), absl::OkStatus());
  EXPECT_EQ(disk_.calls(FaultDisk::Call::kDataSync), syncs);
}

Task<void> AppendMany(Reactor* reactor, RunStore* store, int appends, int lines,
                      std::vector<absl::Status>* statuses) {
  TaskScope scope(reactor, StopToken());
  statuses->resize(appends);
  for (int i = 0; i < appends; ++i) {
    std::vector<LogRecord> records;
    for (int k = 0; k < lines; ++k) records.push_back(RecordOf(i * lines + k));
    scope.Spawn(AppendInto(store, std::move(records), &(*statuses)[i]));
  }
  co_await scope.Join();
}

TEST_F(RunStoreTest, ManyAppendsShareASync) {
  Open();
  const int64_t syncs = disk_.calls(FaultDisk::Call::kDataSync);
  std::vector<absl::Status> statuses;
  reactor_.Run(AppendMany(&reactor_, store(), 100, 3, &statuses));
  EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
  EXPECT_EQ(disk_.calls(FaultDisk::Call::kDataSync) - syncs, 1);
  EXPECT_EQ(store()->stats().records, 300);
  EXPECT_EQ(store()->stats().syncs, 1);
}

TEST_F(RunStoreTest, AppendersWaitForRoomAndAllGetIn) {
  RunStoreOptions options = InlineOptions();
  options.max_queued_records = 10;
  options.commit_records = 4;
  Open(options);
  std::vector<absl::Status> statuses;
  // Chunks of 3 and a queue of 10: three at a time.
  reactor_.Run(AppendMany(&reactor_, store(), 50, 3, &statuses));
  EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
  // One chunk larger than the whole queue.
  reactor_.Run(AppendMany(&reactor_, store(), 1, 30, &statuses));
  EXPECT_THAT(statuses, ElementsAre(absl::OkStatus()));
  Open();
  EXPECT_EQ(report().results, 180);
}

Task<void> CloseWhileAppending(Reactor* reactor, RunStore* store,
                               std::vector<absl::Status>* statuses, absl::Status* closed) {
  TaskScope scope(reactor, StopToken());
  scope.Spawn(AppendMany(reactor, store, 20, 3, statuses));
  co_await Yield(reactor);
  co_await Yield(reactor);
  *closed = co_await store->Close();
  co_await scope.Join();
}

TEST_F(RunStoreTest, CloseWritesWhatIsQueuedAndWhatWaitsForRoom) {
  RunStoreOptions options = InlineOptions();
  options.max_queued_records = 6;
  Open(options);
  std::vector<absl::Status> statuses;
  absl::Status closed = absl::UnknownError("not closed");
  reactor_.Run(CloseWhileAppending(&reactor_, store(), &statuses, &closed));
  EXPECT_EQ(closed, absl::OkStatus());
  EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
  Open();
  EXPECT_EQ(report().results, 60);
}

// The real thing: a thread, a disk, a clock.

TEST(RunStoreOnDisk, AWriterThreadKeepsWhatItAcknowledges) {
  const TempDir dir;
  const std::string path = dir.path() + "/a/b";
  const std::unique_ptr<EpollReactor> reactor = *EpollReactor::Make();
  {
    const auto opened = OpenStore(Disk::Real(), reactor.get(), path, RunStoreOptions());
    ASSERT_EQ(opened->store.status(), absl::OkStatus());
    RunStore* const store = opened->store->get();
    std::vector<absl::Status> statuses;
    reactor->Run(AppendMany(reactor.get(), store, 200, 17, &statuses));
    EXPECT_THAT(statuses, ::testing::Each(absl::OkStatus()));
    EXPECT_EQ(RunCall(reactor.get(), store->SaveSnapshot("s")), absl::OkStatus());
    EXPECT_EQ(RunCall(reactor.get(), store->Append({RecordOf(9999)}, {DeferralOf(1)})),
              absl::OkStatus());
    EXPECT_EQ(store->stats().records, 200 * 17 + 2);
    EXPECT_EQ(RunCall(reactor.get(), store->Close()), absl::OkStatus());
  }
  const auto opened = OpenStore(Disk::Real(), reactor.get(), path, RunStoreOptions());
  ASSERT_EQ(opened->store.status(), absl::OkStatus());
  EXPECT_EQ(opened->report.results, 200 * 17 + 1);
  EXPECT_EQ(opened->visitor.snapshot, "s");
  EXPECT_THAT(opened->visitor.told, ElementsAre(9999));
  EXPECT_THAT(opened->visitor.deferred, SizeIs(1));
}

TEST(RunStoreOnDisk, ASecondHolderIsToldWhoTheFirstIs) {
  const TempDir dir;
  VirtualReactor reactor;
  const auto first = OpenStore(Disk::Real(), &reactor, dir.path());
  ASSERT_EQ(first->store.status(), absl::OkStatus());
  const auto second = OpenStore(Disk::Real(), &reactor, dir.path());
  EXPECT_EQ(second->store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second->store.status().message()),
              HasSubstr(absl::StrCat("is locked by pid ", getpid(), " on host ")));
}

}  // namespace
}  // namespace headrace
