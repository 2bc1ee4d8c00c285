// What damaged files and failing disks do to a run directory.
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/scope.h"
#include "common/base/status.h"
#include "coordinator/store/log_reader.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Call = FaultDisk::Call;

constexpr char kDir[] = "run";
constexpr char kResults[] = "run/results.jsonl";
constexpr char kErrors[] = "run/errors.jsonl";
constexpr char kJournal[] = "run/journal/control.log";

std::string Lines(std::initializer_list<uint64_t> items) {
  std::string out;
  for (const uint64_t item : items) absl::StrAppend(&out, LineOf(item), "\n");
  return out;
}

absl::Status AppendOne(Reactor* reactor, RunStore* store, uint64_t item) {
  return RunCall(reactor, store->Append({RecordOf(item)}, {}));
}

class StoreFaultTest : public ::testing::Test {
 protected:
  StoreFaultTest() {
    // A run directory without lines, made once per test.
    Open();
    HR_CHECK(opened_->ok()) << opened_->store.status();
    HR_CHECK(RunCall(&reactor_, store()->Close()).ok());
    opened_.reset();
  }

  void Open(const RunStoreOptions& options = InlineOptions()) {
    opened_.reset();
    opened_ = OpenStore(&disk_, &reactor_, kDir, options);
  }
  absl::Status Append(uint64_t item) { return AppendOne(&reactor_, store(), item); }
  absl::Status Defer(uint64_t item) {
    return RunCall(&reactor_, store()->Append({}, {DeferralOf(item)}));
  }
  RunStore* store() { return opened_->store->get(); }
  absl::Status open_status() { return opened_->store.status(); }

  VirtualReactor reactor_;
  FaultDisk disk_;
  std::unique_ptr<Opened> opened_;
};

TEST_F(StoreFaultTest, ALogCutAtAnyByteOfItsLastThreeLinesGoesOnCleanly) {
  const std::string log = Lines({0, 1, 2, 3});
  std::vector<size_t> ends;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i] == '\n') ends.push_back(i + 1);
  }
  for (size_t size = ends[0]; size <= log.size(); ++size) {
    disk_.SetContent(kResults, log.substr(0, size));
    Open();
    ASSERT_EQ(open_status(), absl::OkStatus()) << size;
    size_t whole = 0;
    while (whole < ends.size() && ends[whole] <= size) ++whole;
    EXPECT_THAT(opened_->visitor.told, SizeIs(whole));
    const size_t kept = ends[whole - 1];
    EXPECT_EQ(opened_->report.torn_bytes, static_cast<int64_t>(size - kept));
    const std::string torn = absl::StrCat(kResults, ".", kept, ".torn");
    EXPECT_EQ(disk_.Content(torn), log.substr(kept, size - kept));
    EXPECT_THAT(opened_->report.warnings, SizeIs(size == kept ? 0 : 1));
    // The next line starts on its own: it is not glued to the torn one.
    ASSERT_EQ(Append(9), absl::OkStatus());
    EXPECT_EQ(disk_.Content(kResults), log.substr(0, kept) + Lines({9}));
    opened_.reset();
    ASSERT_EQ(disk_.Remove(torn), absl::OkStatus());
  }
}

TEST_F(StoreFaultTest, AFlippedByteBeforeAGoodLineIsDataLossWithFileAndLine) {
  const std::string log = Lines({0, 1, 2});
  const size_t last_line = Lines({0, 1}).size();
  for (size_t i = 0; i < last_line; ++i) {
    std::string damaged = log;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    disk_.SetContent(kResults, damaged);
    Open();
    // The end of line 2 joins it to line 3, and nothing good follows.
    if (i == last_line - 1) {
      EXPECT_THAT(opened_->visitor.told, ElementsAre(0));
      continue;
    }
    EXPECT_EQ(open_status().code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_THAT(std::string(open_status().message()),
                HasSubstr(absl::StrCat("run/results.jsonl: line ", i < Lines({0}).size() ? 1 : 2,
                                       " is damaged")))
        << i;
    EXPECT_EQ(disk_.Content(kResults), damaged) << "nothing may be cut";
  }
}

TEST_F(StoreFaultTest, AFlippedByteOfTheLastLineCostsThatLineOnly) {
  const std::string log = Lines({0, 1});
  for (size_t i = Lines({0}).size(); i < log.size(); ++i) {
    std::string damaged = log;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    disk_.SetContent(kResults, damaged);
    Open();
    ASSERT_EQ(open_status(), absl::OkStatus()) << i;
    EXPECT_THAT(opened_->visitor.told, ElementsAre(0)) << i;
    opened_.reset();
    EXPECT_EQ(disk_.Content(kResults), Lines({0}));
  }
}

TEST_F(StoreFaultTest, ATailOfNulBytesIsTorn) {
  disk_.SetContent(kResults, Lines({0}) + std::string(5000, '\0'));
  disk_.SetContent(kErrors, std::string(10, '\0'));
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_THAT(opened_->visitor.told, ElementsAre(0));
  EXPECT_EQ(opened_->report.torn_bytes, 5010);
  EXPECT_EQ(disk_.Content(kResults), Lines({0}));
  EXPECT_EQ(disk_.Content(kErrors), "");
}

TEST_F(StoreFaultTest, GoodLinesAfterAHoleOfAPowerFailureAreKept) {
  const std::string log = Lines({0, 1, 2, 3});
  std::string damaged = log;
  const size_t hole = Lines({0}).size() + 20;
  damaged.replace(hole, 64, 64, '\0');
  disk_.SetContent(kResults, damaged);
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_THAT(opened_->visitor.told, ElementsAre(0, 2, 3));
  EXPECT_EQ(opened_->report.results, 3);
  EXPECT_EQ(opened_->report.torn_bytes, static_cast<int64_t>(Lines({1}).size()));
  EXPECT_EQ(disk_.Content(kResults), Lines({0, 2, 3}));
  EXPECT_EQ(disk_.Content(absl::StrCat(kResults, ".", Lines({0}).size(), ".torn")),
            damaged.substr(Lines({0}).size()));
  ASSERT_EQ(Append(4), absl::OkStatus());
  Open();
  EXPECT_THAT(opened_->visitor.told, ElementsAre(0, 2, 3, 4));
}

TEST_F(StoreFaultTest, AHoleFarFromTheEndIsDamage) {
  std::string log = Lines({0, 1});
  log[Lines({0}).size() + 5] = '\0';
  // A real run would have synced the hole's place long ago.
  const std::string filler = LineOf(2, ErrorClass::kNone, 1 << 20) + "\n";
  while (log.size() < size_t{kMaxUnsyncedBytes} + 1000) log += filler;
  disk_.SetContent(kResults, log);
  Open();
  EXPECT_EQ(open_status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(open_status().message()), HasSubstr("line 2 is damaged"));
}

TEST_F(StoreFaultTest, AJournalCutAtAnyByteKeepsItsWholeFrames) {
  Open();
  const size_t start = disk_.Content(kJournal).size();
  for (const uint64_t item : {1, 2, 3}) ASSERT_EQ(Defer(item), absl::OkStatus());
  opened_.reset();
  const std::string journal = disk_.Content(kJournal);
  const size_t frame = (journal.size() - start) / 3;
  for (size_t size = start; size <= journal.size(); ++size) {
    disk_.SetContent(kJournal, journal.substr(0, size));
    Open();
    ASSERT_EQ(open_status(), absl::OkStatus()) << size;
    EXPECT_THAT(opened_->visitor.deferred, SizeIs((size - start) / frame)) << size;
    ASSERT_EQ(Defer(9), absl::OkStatus());
    Open();
    ASSERT_EQ(open_status(), absl::OkStatus()) << size;
    EXPECT_EQ(opened_->visitor.deferred.count(9), 1u);
    opened_.reset();
  }
}

TEST_F(StoreFaultTest, AFlippedByteOfTheJournalIsNeverOverlooked) {
  Open();
  for (const uint64_t item : {1, 2}) ASSERT_EQ(Defer(item), absl::OkStatus());
  opened_.reset();
  const std::string journal = disk_.Content(kJournal);
  const size_t frame = 8 + 13 + 17;
  for (size_t i = 0; i < journal.size(); ++i) {
    for (const int bit : {1, 128}) {
      std::string damaged = journal;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      disk_.SetContent(kJournal, damaged);
      Open();
      if (i < journal.size() - frame) {
        EXPECT_EQ(open_status().code(), absl::StatusCode::kDataLoss) << i;
        EXPECT_THAT(std::string(open_status().message()), HasSubstr(kJournal));
      } else {
        ASSERT_EQ(open_status(), absl::OkStatus()) << i;
        EXPECT_THAT(opened_->visitor.deferred, SizeIs(1)) << i;
      }
      opened_.reset();
    }
  }
}

TEST_F(StoreFaultTest, ADamagedSnapshotIsReplacedByTheOneBeforeIt) {
  Open();
  ASSERT_EQ(Append(1), absl::OkStatus());
  ASSERT_EQ(RunCall(&reactor_, store()->SaveSnapshot("one")), absl::OkStatus());
  ASSERT_EQ(Append(2), absl::OkStatus());
  ASSERT_EQ(RunCall(&reactor_, store()->SaveSnapshot("one two")), absl::OkStatus());
  opened_.reset();
  const std::string path = "run/journal/snapshot-00000000000000000002.bin";
  const std::string snapshot = disk_.Content(path);
  for (size_t i = 0; i < snapshot.size(); ++i) {
    std::string damaged = snapshot;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    disk_.SetContent(path, damaged);
    Open();
    ASSERT_EQ(open_status(), absl::OkStatus()) << i;
    EXPECT_EQ(opened_->visitor.snapshot, "one") << i;
    EXPECT_THAT(opened_->visitor.told, ElementsAre(2)) << i;
    EXPECT_THAT(opened_->report.warnings, SizeIs(1)) << i;
    EXPECT_FALSE(disk_.Exists(path));
    opened_.reset();
  }
}

TEST_F(StoreFaultTest, ASnapshotOfAnotherRunIsNotUsed) {
  Open();
  ASSERT_EQ(RunCall(&reactor_, store()->SaveSnapshot("mine")), absl::OkStatus());
  opened_.reset();
  const std::string name = "/journal/snapshot-00000000000000000001.bin";
  FaultDisk other;
  opened_ = OpenStore(&other, &reactor_, kDir);
  ASSERT_EQ(RunCall(&reactor_, store()->SaveSnapshot("theirs")), absl::OkStatus());
  opened_.reset();
  disk_.SetContent(kDir + name, other.Content(kDir + name));
  Open();
  ASSERT_EQ(open_status(), absl::OkStatus());
  EXPECT_EQ(opened_->visitor.snapshot, "");
  EXPECT_THAT(opened_->report.warnings, ElementsAre(HasSubstr("it belongs to another run")));
}

// Appends 20 chunks, of which a few fit into the queue and into one commit.
RunStoreOptions SmallGroups() {
  RunStoreOptions options = InlineOptions();
  options.commit_records = 6;
  options.max_queued_records = 20;
  return options;
}

// After the k-th call has failed with `error`: the first groups succeeded, everything after failed
// with that error, and the disk was left alone.
void ExpectFailsForGood(Call call, int64_t k, const absl::Status& error, int64_t written) {
  SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " number ", k));
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir, SmallGroups());
  ASSERT_TRUE(opened->ok());
  RunStore* const store = opened->store->get();
  disk.FailNth(call, k, error, written);
  std::vector<absl::Status> statuses(20, absl::UnknownError("did not end"));
  reactor.Run(AppendChunks(&reactor, store, &statuses));
  size_t good = 0;
  while (good < statuses.size() && statuses[good].ok()) ++good;
  EXPECT_LT(good, statuses.size());
  for (size_t i = good; i < statuses.size(); ++i) EXPECT_EQ(statuses[i], error) << i;

  const int64_t steps = disk.steps();
  EXPECT_EQ(AppendOne(&reactor, store, 99), error);
  EXPECT_EQ(RunCall(&reactor, store->ReserveBatchIds(BatchId(1))), error);
  EXPECT_EQ(RunCall(&reactor, store->SaveSnapshot("x")), error);
  EXPECT_FALSE(store->snapshot_wanted());
  EXPECT_EQ(RunCall(&reactor, store->Close()), error);
  EXPECT_EQ(disk.steps(), steps) << "nothing may be tried again after an error";
  opened.reset();

  for (const auto survivors : {FaultDisk::Survivors::kNone, FaultDisk::Survivors::kAll}) {
    const auto after = disk.AfterCrash(survivors, 0);
    const auto again = OpenStore(after.get(), &reactor, kDir);
    ASSERT_EQ(again->store.status(), absl::OkStatus());
    for (size_t i = 0; i < good; ++i) {
      EXPECT_EQ(again->visitor.outcomes.count(i), 1u) << i;
      EXPECT_EQ(again->visitor.outcomes.count(i + 1000), 1u) << i;
      EXPECT_EQ(again->visitor.deferred.count(i + 2000), 1u) << i;
    }
  }
}

TEST(StoreErrors, AFailedSyncFailsEveryWaiterAndIsNeverTriedAgain) {
  // A disk that has no room when the pages are written, as some do, is no better than a broken one.
  for (const int code : {EIO, ENOSPC, EDQUOT}) {
    const absl::Status error = ErrnoStatus(code, "cannot sync");
    for (int64_t k = 1; k <= 15; ++k) ExpectFailsForGood(Call::kDataSync, k, error, 0);
  }
}

TEST(StoreErrors, AFailedOrShortWriteFailsEveryWaiterAndIsNeverTriedAgain) {
  const absl::Status error = ErrnoStatus(EIO, "cannot write");
  for (int64_t k = 1; k <= 15; ++k) {
    ExpectFailsForGood(Call::kAppend, k, error, 0);
    ExpectFailsForGood(Call::kAppend, k, error, 100);
  }
}

TEST(StoreErrors, ASmallDiskIsUsedToItsEnd) {
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_TRUE(opened->ok());
  disk.SetFreeBytes(10'000);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(AppendOne(&reactor, opened->store->get(), i), absl::OkStatus()) << i;
  }
}

TEST(StoreErrors, AFailedSnapshotLeavesTheLogsUsable) {
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_TRUE(opened->ok());
  RunStore* const store = opened->store->get();
  for (const Call call : {Call::kAppend, Call::kDataSync, Call::kRename, Call::kSyncDir}) {
    disk.FailNth(call, 1, ErrnoStatus(ENOSPC, "full"));
    EXPECT_EQ(RunCall(&reactor, store->SaveSnapshot("s")), ErrnoStatus(ENOSPC, "full"));
  }
  EXPECT_EQ(AppendOne(&reactor, store, 1), absl::OkStatus());
  EXPECT_EQ(RunCall(&reactor, store->SaveSnapshot("good")), absl::OkStatus());
  opened.reset();
  opened = OpenStore(&disk, &reactor, kDir);
  EXPECT_EQ(opened->visitor.snapshot, "good");
}

TEST(StoreErrors, WhatRecoveryToldSurvivesAPowerFailureRightAfterIt) {
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_TRUE(opened->ok());
  // Killed between three writes and their syncs.
  disk.CrashAtStep(disk.steps() + 4);
  std::vector<LogRecord> records = {RecordOf(1), RecordOf(2, ErrorClass::kAuth)};
  EXPECT_EQ(RunCall(&reactor, opened->store->get()->Append(records, {DeferralOf(3)})).code(),
            absl::StatusCode::kAborted);
  opened.reset();
  disk.RestartProcess();
  opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_EQ(opened->store.status(), absl::OkStatus());
  ASSERT_THAT(opened->visitor.told, ElementsAre(1, 2));
  ASSERT_THAT(opened->visitor.deferred, SizeIs(1));
  const auto after = disk.AfterCrash(FaultDisk::Survivors::kNone, 0);
  const auto again = OpenStore(after.get(), &reactor, kDir);
  EXPECT_THAT(again->visitor.told, ElementsAre(1, 2));
  EXPECT_THAT(again->visitor.deferred, SizeIs(1));
}

// The machine goes on after the failed sync, so the next process finds in memory what is not on the
// disk. It must not count on it, and its sync does not help.
TEST(StoreErrors, WhatAFailedSyncLeftInMemoryOnlyIsWrittenAgainByTheNextStart) {
  for (int64_t k = 1; k <= 3; ++k) {  // of the journal, the errors, the results
    SCOPED_TRACE(k);
    FaultDisk disk;
    VirtualReactor reactor;
    auto opened = OpenStore(&disk, &reactor, kDir);
    ASSERT_TRUE(opened->ok());
    ASSERT_EQ(AppendOne(&reactor, opened->store->get(), 1), absl::OkStatus());
    disk.FailNth(Call::kDataSync, k, ErrnoStatus(EIO, "cannot sync"));
    std::vector<LogRecord> records = {RecordOf(2), RecordOf(3, ErrorClass::kAuth)};
    ASSERT_FALSE(RunCall(&reactor, opened->store->get()->Append(records, {DeferralOf(4)})).ok());
    opened.reset();
    disk.RestartProcess();

    opened = OpenStore(&disk, &reactor, kDir);
    ASSERT_EQ(opened->store.status(), absl::OkStatus());
    ASSERT_THAT(opened->visitor.told, ElementsAre(1, 2, 3));
    ASSERT_THAT(opened->visitor.deferred, SizeIs(1));
    // What follows is acknowledged, and a later start reads behind a snapshot only.
    RunStore* const store = opened->store->get();
    ASSERT_EQ(RunCall(&reactor, store->Append({RecordOf(5)}, {DeferralOf(6)})), absl::OkStatus());
    ASSERT_EQ(RunCall(&reactor, store->SaveSnapshot("s")), absl::OkStatus());
    ASSERT_EQ(AppendOne(&reactor, store, 7), absl::OkStatus());
    EXPECT_EQ(disk.AfterCrash(FaultDisk::Survivors::kNone, 0)->Content(kResults),
              Lines({1, 2, 5, 7}));
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const auto after = disk.AfterCrash(FaultDisk::Survivors::kRandom, seed);
      const auto again = OpenStore(after.get(), &reactor, kDir);
      ASSERT_EQ(again->store.status(), absl::OkStatus()) << seed;
      EXPECT_THAT(again->visitor.told, ElementsAre(7)) << seed;
      EXPECT_THAT(again->report.warnings, IsEmpty()) << seed;
    }
  }
}

TEST(StoreErrors, WhatIsKnownToBeOnTheDiskIsNotWrittenAgain) {
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_EQ(AppendOne(&reactor, opened->store->get(), 1), absl::OkStatus());
  ASSERT_EQ(RunCall(&reactor, opened->store->get()->Close()), absl::OkStatus());
  opened.reset();
  opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_TRUE(opened->ok());
  EXPECT_EQ(disk.calls(Call::kOverwrite), 1) << "the journal's end, and no log's";
}

TEST(StoreErrors, ADiskThatCannotBeReadIsNotAnEmptyRun) {
  FaultDisk disk;
  VirtualReactor reactor;
  auto opened = OpenStore(&disk, &reactor, kDir);
  ASSERT_EQ(AppendOne(&reactor, opened->store->get(), 1), absl::OkStatus());
  opened.reset();
  opened = OpenStore(&disk, &reactor, kDir);  // records what is durable: later ones read less
  opened.reset();
  const int64_t before = disk.calls(Call::kRead);
  opened = OpenStore(&disk, &reactor, kDir);
  const int64_t reads = disk.calls(Call::kRead) - before;
  opened.reset();
  ASSERT_GT(reads, 1);
  for (int64_t k = 1; k < reads; ++k) {  // the last one is of job.resolved.yaml, which is rewritten
    disk.FailNth(Call::kRead, k, ErrnoStatus(EIO, "cannot read"));
    const auto failed = OpenStore(&disk, &reactor, kDir);
    EXPECT_EQ(failed->store.status().code(), absl::StatusCode::kInternal) << k;
  }
}

}  // namespace
}  // namespace headrace
