// What recovery tells of a journal is what the records in it said, wherever the journal ends, and
// nothing that was acknowledged can go missing unnoticed.
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "coordinator/store/journal.h"
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

constexpr char kDir[] = "run";
constexpr char kResults[] = "run/results.jsonl";
constexpr char kErrors[] = "run/errors.jsonl";
constexpr char kJournal[] = "run/journal/control.log";

// What the journal has been told, as far as it is told again.
struct Control {
  std::map<uint64_t, uint32_t> deferred;  // passes
  BatchId batch_ids;
  std::map<std::string, std::string> workers;

  friend bool operator==(const Control&, const Control&) = default;
};

Control Recovered(const RecordingVisitor& visitor) {
  Control control;
  for (const auto& [item, deferral] : visitor.deferred) control.deferred[item] = deferral.passes;
  control.batch_ids = visitor.batch_ids;
  for (const std::string& worker : visitor.workers) {
    const size_t slash = worker.find('/');
    control.workers[worker.substr(0, slash)] = worker.substr(slash + 1);
  }
  return control;
}

// The files and the state after one call has ended.
struct Moment {
  Control control;
  std::string journal;
  std::string results;
  std::string errors;
};

// One random call after the other, each awaited, so that the state at each end is known.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {}

  std::vector<Moment> Run(int calls) {
    Open();
    for (int i = 0; i < calls; ++i) {
      if (random_.Chance(0.1)) {
        if (random_.Chance(0.5)) HR_CHECK(RunCall(&reactor_, store()->Close()).ok());
        Open();
        EXPECT_EQ(Recovered(opened_->visitor), control_) << "after call " << i;
      }
      const absl::Status status = OneCall(i);
      EXPECT_EQ(status, absl::OkStatus()) << "call " << i;
      moments_.push_back(
          {control_, disk_.Content(kJournal), disk_.Content(kResults), disk_.Content(kErrors)});
    }
    return std::move(moments_);
  }

 private:
  void Open() {
    RunStoreOptions options = InlineOptions();
    options.journal_bytes = 500;
    opened_.reset();
    opened_ = OpenStore(&disk_, &reactor_, kDir, options);
    HR_CHECK(opened_->ok()) << opened_->store.status();
  }
  RunStore* store() { return opened_->store->get(); }

  absl::Status OneCall(int i) {
    switch (random_.Below(5)) {
      case 0: {
        const uint64_t item = random_.Below(20);
        const uint32_t passes = ++control_.deferred[item];
        return RunCall(&reactor_, store()->Append({}, {DeferralOf(item, passes)}));
      }
      case 1: {
        const ErrorClass error_class = random_.Chance(0.5) ? ErrorClass::kNone : ErrorClass::kAuth;
        return RunCall(&reactor_, store()->Append({RecordOf(100 + i, error_class)}, {}));
      }
      case 2:
        control_.batch_ids = BatchId(control_.batch_ids.value() + 1 + random_.Below(9));
        return RunCall(&reactor_, store()->ReserveBatchIds(control_.batch_ids));
      case 3:
        // Deferrals of the snapshot are told again or not; they would hide a lost one.
        if (random_.Chance(0.2) && control_.deferred.empty()) {
          return RunCall(&reactor_, store()->SaveSnapshot("s"));
        }
        [[fallthrough]];
      default: {
        const std::string id = absl::StrCat("w", random_.Below(5));
        const std::string nonce = absl::StrCat("n", random_.Below(2));
        const bool present = random_.Chance(0.5);
        if (present) {
          control_.workers[id] = nonce;
        } else if (control_.workers.contains(id) && control_.workers[id] == nonce) {
          control_.workers.erase(id);
        }
        return RunCall(&reactor_, store()->RecordWorker(id, nonce, present));
      }
    }
  }

  Random random_;
  VirtualReactor reactor_;
  FaultDisk disk_;
  std::unique_ptr<Opened> opened_;
  Control control_;
  std::vector<Moment> moments_;
};

// What a start finds that has the logs of `logs` and this journal.
Control Replay(const std::string& journal, const Moment& logs) {
  FaultDisk disk;
  VirtualReactor reactor;
  disk.SetContent(kJournal, journal);
  disk.SetContent(kResults, logs.results);
  disk.SetContent(kErrors, logs.errors);
  const auto opened = OpenStore(&disk, &reactor, kDir);
  EXPECT_EQ(opened->store.status(), absl::OkStatus());
  return Recovered(opened->visitor);
}

TEST(JournalReplay, IsTheStateOfTheLastWholeFrameWhereverTheJournalIsCut) {
  const uint64_t seed = RandomSeed();
  std::cout << "seed " << seed << "\n";
  const std::vector<Moment> moments = History(seed).Run(100);
  int compacted = 0;
  for (size_t i = 1; i < moments.size() && !testing::Test::HasFailure(); ++i) {
    const Moment& before = moments[i - 1];
    const Moment& after = moments[i];
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", call ", i));
    EXPECT_EQ(Replay(after.journal, after), after.control);
    if (!absl::StartsWith(after.journal, before.journal)) {
      ++compacted;  // or a start between them as well
      continue;
    }
    for (size_t size = before.journal.size(); size < after.journal.size(); ++size) {
      ASSERT_EQ(Replay(after.journal.substr(0, size), before), before.control) << size;
    }
  }
  EXPECT_GT(compacted, 0);
}

TEST(JournalReplay, ACompactedJournalSaysTheSameAndGoesOnWithTheNextRecord) {
  JournalContent content;
  content.has_run = true;
  content.run = {"0123456789abcdef", TestIdentity()};
  content.starts = 7;
  content.first_start = absl::FromUnixMicros(1'700'000'000'123'456);
  content.batch_ids = BatchId(99);
  content.durable = {
      .results_bytes = 1, .results_lines = 2, .errors_bytes = 3, .errors_lines = 4, .lsn = Lsn(0)};
  content.workers = {{"w-1", "a"}, {"w-2", ""}};
  content.deferred = {{Lsn(4), DeferralOf(8)}, {Lsn(5), DeferralOf(3)}, {Lsn(6), DeferralOf(8, 2)}};
  content.last_lsn = Lsn(1000);

  std::string records;
  AppendWorkerRecord(Lsn(1001), {"w-2", "", false}, &records);
  const auto read = ReadJournal(CompactJournal(content) + MakeJournalFrame(records));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->run.run_id, content.run.run_id);
  EXPECT_EQ(read->run.identity.job_yaml, content.run.identity.job_yaml);
  EXPECT_EQ(read->starts, 7);
  EXPECT_EQ(read->first_start, content.first_start);
  EXPECT_EQ(read->batch_ids, BatchId(99));
  EXPECT_EQ(read->durable.results_bytes, 1);
  EXPECT_EQ(read->durable.results_lines, 2);
  EXPECT_EQ(read->durable.errors_bytes, 3);
  EXPECT_EQ(read->durable.errors_lines, 4);
  EXPECT_THAT(read->workers, ElementsAre(testing::Pair("w-1", "a")));
  ASSERT_EQ(read->deferred.size(), 2u);
  EXPECT_EQ(read->deferred[0].item.item, ItemId(3));
  EXPECT_EQ(read->deferred[1].item.passes, 2u);
  EXPECT_EQ(read->deferred[1].lsn, Lsn(1000)) << "no snapshot of an earlier place may hide it";
  EXPECT_EQ(read->last_lsn, Lsn(1001));
}

TEST(JournalReplay, AStateAfterOtherRecordsIsNotUnderstood) {
  JournalContent content;
  content.has_run = true;
  content.run = {"0123456789abcdef", TestIdentity()};
  content.last_lsn = Lsn(1);
  std::string journal = CompactJournal(content);
  content.last_lsn = Lsn(2);
  journal += CompactJournal(content);
  EXPECT_EQ(ReadJournal(journal).status().code(), absl::StatusCode::kDataLoss);
}

TEST(JournalSize, WorkersThatComeAndGoDoNotMakeItGrow) {
  FaultDisk disk;
  VirtualReactor reactor;
  RunStoreOptions options = InlineOptions();
  options.journal_bytes = 4000;
  auto opened = OpenStore(&disk, &reactor, kDir, options);
  size_t largest = 0;
  for (int i = 0; i < 2000; ++i) {
    RunStore* const store = opened->store->get();
    const std::string worker = absl::StrCat("worker-", i);
    for (const bool present : {true, false}) {
      ASSERT_EQ(RunCall(&reactor, store->RecordWorker(worker, "nonce", present)), absl::OkStatus());
    }
    if (i % 20 == 0) ASSERT_EQ(RunCall(&reactor, store->SaveSnapshot("s")), absl::OkStatus());
    largest = std::max(largest, disk.Content(kJournal).size());
  }
  EXPECT_LT(largest, 4000u + 20 * 2 * 50);
  EXPECT_FALSE(disk.Exists(absl::StrCat(kJournal, Disk::kTempSuffix)));
}

TEST(JournalSize, ACompactionThatFailsLeavesTheOldJournalInUse) {
  using Call = FaultDisk::Call;
  for (const Call call : {Call::kAppend, Call::kDataSync, Call::kRename, Call::kSyncDir}) {
    SCOPED_TRACE(static_cast<int>(call));
    FaultDisk disk;
    VirtualReactor reactor;
    RunStoreOptions options = InlineOptions();
    options.journal_bytes = 1000;
    auto opened = OpenStore(&disk, &reactor, kDir, options);
    RunStore* const store = opened->store->get();
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(RunCall(&reactor, store->RecordWorker("w", absl::StrCat(i), true)),
                absl::OkStatus());
    }
    // The first one is the snapshot's own.
    disk.FailNth(call, 2, absl::InternalError("broken"));
    const absl::Status saved = RunCall(&reactor, store->SaveSnapshot("s"));
    const absl::Status status = RunCall(&reactor, store->RecordWorker("w", "last", true));
    if (call == Call::kSyncDir) {
      // Nobody knows which journal a crash would leave.
      EXPECT_EQ(saved, absl::InternalError("broken"));
      EXPECT_EQ(status, absl::InternalError("broken"));
      continue;
    }
    EXPECT_EQ(saved, absl::OkStatus());
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_GT(disk.Content(kJournal).size(), 2000u);
    EXPECT_FALSE(disk.Exists(absl::StrCat(kJournal, Disk::kTempSuffix)));
    opened.reset();
    opened = OpenStore(&disk, &reactor, kDir, options);
    EXPECT_THAT(opened->visitor.workers, ElementsAre("w/last"));
    EXPECT_LT(disk.Content(kJournal).size(), 1000u) << "a start compacts too";
  }
}

// A run with three acknowledged results and one failure, that may have ended in several ways.
class LostResults : public ::testing::Test {
 protected:
  void Open() {
    opened_.reset();
    opened_ = OpenStore(&disk_, &reactor_, kDir);
  }
  RunStore* store() { return opened_->store->get(); }
  void WriteFourItems() {
    Open();
    std::vector<LogRecord> records = {RecordOf(1), RecordOf(2), RecordOf(3),
                                      RecordOf(4, ErrorClass::kAuth)};
    ASSERT_EQ(RunCall(&reactor_, store()->Append(std::move(records), {})), absl::OkStatus());
  }
  absl::Status Close() { return RunCall(&reactor_, store()->Close()); }

  void ExpectRefused(const std::string& path, size_t size) {
    const std::string good = disk_.Content(path);
    const std::string cut = good.substr(0, size);
    disk_.SetContent(path, cut);
    Open();
    EXPECT_EQ(opened_->store.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(opened_->store.status().message()),
                AllOf(HasSubstr(absl::StrCat(path, " has lost acknowledged results: it has ", size,
                                             " bytes, but ", good.size(), " bytes (")),
                      HasSubstr("Restore the file from a copy, or choose another output "
                                "directory")));
    EXPECT_EQ(disk_.Content(path), cut) << "nothing may be changed";
    opened_.reset();
    disk_.SetContent(path, good);
  }
  void ExpectBothRefused() {
    const std::string results = disk_.Content(kResults);
    for (const size_t size : {size_t{0}, LineOf(1).size() + 1, results.size() - 1}) {
      ExpectRefused(kResults, size);
    }
    ExpectRefused(kErrors, 0);
    Open();
    EXPECT_EQ(opened_->store.status(), absl::OkStatus());
    EXPECT_THAT(opened_->report.warnings, IsEmpty());
  }

  VirtualReactor reactor_;
  FaultDisk disk_;
  std::unique_ptr<Opened> opened_;
};

TEST_F(LostResults, AShortenedLogIsRefusedWithBothSizesAndNothingIsChanged) {
  WriteFourItems();
  ASSERT_EQ(Close(), absl::OkStatus());
  ExpectBothRefused();
}

TEST_F(LostResults, AlsoWhenTheRunWasKilledAfterASnapshot) {
  WriteFourItems();
  ASSERT_EQ(RunCall(&reactor_, store()->SaveSnapshot("s")), absl::OkStatus());
  opened_.reset();
  ExpectBothRefused();
}

TEST_F(LostResults, AlsoWhenTheRunWasKilledAfterAnyOtherRecord) {
  WriteFourItems();
  ASSERT_EQ(RunCall(&reactor_, store()->ReserveBatchIds(BatchId(9))), absl::OkStatus());
  opened_.reset();
  ExpectBothRefused();
}

TEST_F(LostResults, AlsoWhenTheNextStartWasKilledAtOnce) {
  WriteFourItems();
  Open();
  opened_.reset();
  ExpectBothRefused();
}

TEST_F(LostResults, ADamagedLastLineThatWasAcknowledgedIsNotTakenForATornOne) {
  WriteFourItems();
  ASSERT_EQ(Close(), absl::OkStatus());
  std::string damaged = disk_.Content(kResults);
  damaged[damaged.size() - 40] ^= 1;
  disk_.SetContent(kResults, damaged);
  Open();
  EXPECT_EQ(opened_->store.status(),
            absl::DataLossError("run/results.jsonl: line 3 is damaged, and it was acknowledged"));
  EXPECT_EQ(disk_.Content(kResults), damaged);
}

TEST_F(LostResults, ACleanEndThatHasNothingNewToSayWritesNothing) {
  WriteFourItems();
  ASSERT_EQ(Close(), absl::OkStatus());
  Open();
  const std::string journal = disk_.Content(kJournal);
  ASSERT_EQ(Close(), absl::OkStatus());
  EXPECT_EQ(disk_.Content(kJournal), journal);
}

}  // namespace
}  // namespace headrace
