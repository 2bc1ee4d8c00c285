// A disk that is full for a while: the run waits and goes on by itself, or ends with words.
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/base/status.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Call = FaultDisk::Call;

constexpr char kDir[] = "run";
constexpr char kResults[] = "run/results.jsonl";
constexpr char kErrors[] = "run/errors.jsonl";
constexpr char kJournal[] = "run/journal/control.log";
constexpr int64_t kStartBytes = 400;  // about what a start writes
constexpr int64_t kEnough = int64_t{1} << 30;

// A few chunks in each commit.
RunStoreOptions SmallGroups() {
  RunStoreOptions options = InlineOptions();
  options.commit_records = 6;
  options.max_queued_records = 20;
  return options;
}

class FullDiskTest : public ::testing::Test {
 protected:
  void Open(const RunStoreOptions& options = SmallGroups()) {
    opened_.reset();
    opened_ = OpenStore(&disk_, &reactor_, kDir, options);
    HR_CHECK(opened_->ok()) << opened_->store.status();
  }
  RunStore* store() { return opened_->store->get(); }
  absl::Status Append(uint64_t item) {
    return RunCall(&reactor_, store()->Append({RecordOf(item)}, {}));
  }

  // Only whole lines and frames are in the files, which is what their readers count on.
  void ExpectWholeFiles() {
    for (const char* path : {kResults, kErrors}) {
      const std::string content = disk_.Content(path);
      EXPECT_TRUE(content.empty() || content.back() == '\n') << path;
    }
    const auto check = VerifyRun(&disk_, kDir);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->damaged + check->unfinished_bytes + check->duplicates, 0);
  }

  VirtualReactor reactor_;
  FaultDisk disk_;
  std::unique_ptr<Opened> opened_;
};

// What somebody sees who looks while chunks are appended to a full disk.
struct Seen {
  std::string waiting_for;
  size_t acknowledged = 0;
  std::string results;
};

Task<void> FreeSpaceAfter(Reactor* reactor, FaultDisk* disk, RunStore* store, absl::Duration time,
                          const std::vector<absl::Status>* statuses, Seen* seen) {
  co_await Sleep(reactor, time, StopToken());
  seen->waiting_for = store->waiting_for();
  for (const absl::Status& status : *statuses) seen->acknowledged += status.ok() ? 1 : 0;
  seen->results = disk->Content(kResults);
  disk->SetFreeBytes(kEnough);
}

Task<void> AppendToAFullDisk(Reactor* reactor, FaultDisk* disk, RunStore* store,
                             absl::Duration time, std::vector<absl::Status>* statuses, Seen* seen) {
  TaskScope scope(reactor, StopToken());
  scope.Spawn(AppendChunks(reactor, store, statuses));
  scope.Spawn(FreeSpaceAfter(reactor, disk, store, time, statuses, seen));
  co_await scope.Join();
}

std::vector<absl::Status> NotEnded(size_t count) {
  return std::vector<absl::Status>(count, absl::UnknownError("did not end"));
}

TEST_F(FullDiskTest, IsWaitedOutWhereverItIsMetAndLosesAndRepeatsNothing) {
  for (const bool can_reserve : {true, false}) {
    for (int64_t free = 0; free < 15000; free += 391) {
      SCOPED_TRACE(absl::StrCat(free, " bytes free, reserving ", can_reserve));
      for (const char* path : {kResults, kErrors, kJournal}) disk_.SetContent(path, "");
      disk_.SetCanReserve(can_reserve);
      // Little enough that the start cannot reserve more than it needs.
      disk_.SetFreeBytes(kStartBytes + free);
      Open();
      std::vector<absl::Status> statuses = NotEnded(20);
      Seen seen;
      reactor_.Run(
          AppendToAFullDisk(&reactor_, &disk_, store(), absl::Minutes(3), &statuses, &seen));
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
      EXPECT_LT(seen.acknowledged, 20u);
      EXPECT_THAT(seen.waiting_for,
                  AllOf(HasSubstr("space on the disk of run: it is full, "),
                        HasSubstr(" bytes wait; free some space, the run goes on by itself")));
      EXPECT_TRUE(seen.results.empty() || seen.results.back() == '\n')
          << "a part of a line was left in the file";
      EXPECT_THAT(store()->waiting_for(), IsEmpty());
      ExpectWholeFiles();
      Open();
      EXPECT_EQ(opened_->report.torn_bytes, 0);
      EXPECT_EQ(opened_->report.results, 20);
      EXPECT_EQ(opened_->report.errors, 20);
      EXPECT_EQ(opened_->visitor.deferred.size(), 20u);
    }
  }
}

TEST_F(FullDiskTest, NothingIsAcknowledgedWhileItIsFullAndTheBytesThatWaitAreNamed) {
  disk_.SetCanReserve(false);
  Open();
  disk_.SetFreeBytes(0);
  std::vector<absl::Status> statuses = NotEnded(1);
  Seen seen;
  reactor_.Run(AppendToAFullDisk(&reactor_, &disk_, store(), absl::Hours(5), &statuses, &seen));
  EXPECT_EQ(seen.acknowledged, 0u);
  EXPECT_EQ(seen.results, "");
  const size_t deferral = 13 + 17;  // record and item
  const size_t bytes = LineOf(0).size() + 1 + LineOf(1000, ErrorClass::kAuth).size() + 1 + deferral;
  EXPECT_EQ(seen.waiting_for,
            absl::StrCat("space on the disk of run: it is full, ", bytes,
                         " bytes wait; free some space, the run goes on by itself"));
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST_F(FullDiskTest, AFewFailedOrShortWritesOfAnyFileAreTriedAgain) {
  for (const int code : {ENOSPC, EDQUOT}) {
    for (const int64_t written : {0, 1, 100}) {
      for (int64_t k = 1; k <= 24; ++k) {
        SCOPED_TRACE(absl::StrCat("write ", k, " stops after ", written, " bytes"));
        for (const char* path : {kResults, kErrors, kJournal}) disk_.SetContent(path, "");
        Open();
        disk_.FailNth(Call::kAppend, k, ErrnoStatus(code, "cannot write"), written, 3);
        std::vector<absl::Status> statuses = NotEnded(20);
        const MonoTime start = reactor_.Now();
        reactor_.Run(AppendChunks(&reactor_, store(), &statuses));
        EXPECT_THAT(statuses, Each(absl::OkStatus()));
        // After one second and then every two.
        const absl::Duration took = reactor_.Now() - start;
        if (k <= 19) EXPECT_GE(took, absl::Seconds(5));
        EXPECT_LT(took, absl::Seconds(6));
        ExpectWholeFiles();
      }
    }
  }
}

Task<void> RecordOnAFullDisk(Reactor* reactor, FaultDisk* disk, RunStore* store,
                             absl::Status* status, Seen* seen) {
  TaskScope scope(reactor, StopToken());
  const std::vector<absl::Status> none;
  scope.Spawn(StoreResult(store->RecordWorker("w", "n", true), status));
  co_await FreeSpaceAfter(reactor, disk, store, absl::Minutes(1), &none, seen);
  EXPECT_EQ(*status, absl::UnknownError("did not end"));
  co_await scope.Join();
}

TEST_F(FullDiskTest, TheJournalAloneCanBeTheOneWithoutRoom) {
  disk_.SetCanReserve(false);
  Open();
  disk_.SetFreeBytes(0);
  absl::Status status = absl::UnknownError("did not end");
  Seen seen;
  reactor_.Run(RecordOnAFullDisk(&reactor_, &disk_, store(), &status, &seen));
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_THAT(seen.waiting_for, HasSubstr("it is full, 24 bytes wait"));
  Open();
  EXPECT_THAT(opened_->visitor.workers, ::testing::ElementsAre("w/n"));
}

TEST_F(FullDiskTest, ACutThatFailsForLackOfSpaceIsMadeUpForAndAnyOtherIsTheEnd) {
  Open();
  const auto fill = [this](absl::Status cut) {
    disk_.FailNth(Call::kAppend, 1, ErrnoStatus(ENOSPC, "cannot write"), 100);
    disk_.FailNth(Call::kTruncate, 1, std::move(cut));
  };
  fill(ErrnoStatus(ENOSPC, "cannot cut"));
  EXPECT_EQ(Append(1), absl::OkStatus());
  EXPECT_EQ(disk_.Content(kResults), LineOf(1) + "\n");
  const absl::Status error = ErrnoStatus(EIO, "cannot cut");
  fill(error);
  EXPECT_EQ(Append(2), error);
  EXPECT_EQ(Append(3), error);
}

TEST_F(FullDiskTest, ASyncErrorAfterTheWaitIsStillTheEnd) {
  Open();
  const absl::Status error = ErrnoStatus(EIO, "cannot sync");
  disk_.FailNth(Call::kAppend, 1, ErrnoStatus(ENOSPC, "cannot write"), 100);
  disk_.FailNth(Call::kDataSync, 1, error);
  EXPECT_EQ(Append(1), error);
  EXPECT_EQ(Append(2), error);
  EXPECT_THAT(store()->waiting_for(), IsEmpty());
}

Task<void> AppendAndClose(Reactor* reactor, RunStore* store, std::vector<absl::Status>* statuses,
                          absl::Status* closed, absl::Duration* took) {
  TaskScope scope(reactor, StopToken());
  scope.Spawn(AppendChunks(reactor, store, statuses));
  co_await Sleep(reactor, absl::Minutes(1), StopToken());
  const MonoTime start = reactor->Now();
  *closed = co_await store->Close();
  *took = reactor->Now() - start;
  co_await scope.Join();
}

TEST_F(FullDiskTest, CloseDoesNotWaitForEverAndSaysWhatToDo) {
  disk_.SetCanReserve(false);
  Open();
  ASSERT_EQ(Append(500), absl::OkStatus());
  const std::string results = disk_.Content(kResults);
  disk_.SetFreeBytes(100);
  std::vector<absl::Status> statuses = NotEnded(20);
  absl::Status closed;
  absl::Duration took;
  reactor_.Run(AppendAndClose(&reactor_, store(), &statuses, &closed, &took));
  EXPECT_EQ(took, absl::Seconds(10));
  EXPECT_EQ(closed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(closed.message()),
              AllOf(HasSubstr("the disk of run is still full after 10s"),
                    HasSubstr("free some space and start the run again")));
  EXPECT_THAT(statuses, Each(closed));

  EXPECT_EQ(disk_.Content(kResults), results);
  disk_.SetFreeBytes(kEnough);
  Open();
  EXPECT_EQ(opened_->report.torn_bytes, 0);
  EXPECT_THAT(opened_->visitor.told, ::testing::ElementsAre(500));
  EXPECT_EQ(Append(1), absl::OkStatus());
}

Task<void> AppendAndStopWaiting(Reactor* reactor, RunStore* store,
                                std::vector<absl::Status>* statuses) {
  TaskScope scope(reactor, StopToken());
  scope.Spawn(AppendChunks(reactor, store, statuses));
  co_await Sleep(reactor, absl::Minutes(1), StopToken());
  store->StopWaitingForSpace();
  co_await scope.Join();
}

TEST_F(FullDiskTest, ARunThatIsToEndCanEndItsCallsBeforeItCloses) {
  disk_.SetCanReserve(false);
  Open();
  disk_.SetFreeBytes(100);
  std::vector<absl::Status> statuses = NotEnded(20);
  const MonoTime start = reactor_.Now();
  reactor_.Run(AppendAndStopWaiting(&reactor_, store(), &statuses));
  EXPECT_EQ(reactor_.Now() - start, absl::Seconds(70));
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(FullDiskTest, RoomWithinTheLastSecondsOfCloseIsEnough) {
  Open();
  disk_.FailNth(Call::kReserve, 1, ErrnoStatus(ENOSPC, "full"), 0, 36 * 3);
  std::vector<absl::Status> statuses = NotEnded(1);
  absl::Status closed;
  absl::Duration took;
  reactor_.Run(AppendAndClose(&reactor_, store(), &statuses, &closed, &took));
  EXPECT_EQ(closed, absl::OkStatus());
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_GT(took, absl::Seconds(5));
  EXPECT_LE(took, absl::Seconds(10));
}

TEST_F(FullDiskTest, ASnapshotThatDoesNotFitLeavesNothingBehindAndTheLogsGoOn) {
  disk_.SetCanReserve(false);
  Open();
  ASSERT_EQ(Append(1), absl::OkStatus());
  disk_.SetFreeBytes(5000);
  EXPECT_EQ(RunCall(&reactor_, store()->SaveSnapshot(std::string(10'000, 's'))).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Append(2), absl::OkStatus());
  for (const std::string& path : disk_.Paths()) EXPECT_THAT(path, Not(HasSubstr(".tmp")));
}

TEST_F(FullDiskTest, AStartOnAFullDiskSaysSo) {
  disk_.SetCanReserve(false);
  Open();
  opened_.reset();
  disk_.SetFreeBytes(0);
  opened_ = OpenStore(&disk_, &reactor_, kDir);
  EXPECT_EQ(opened_->store.status().code(), absl::StatusCode::kResourceExhausted);
  disk_.SetFreeBytes(kEnough);
  Open();
  EXPECT_EQ(Append(1), absl::OkStatus());
}

}  // namespace
}  // namespace headrace
