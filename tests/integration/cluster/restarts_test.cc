// A coordinator that is killed, stopped, or fails with its disk, one script each, in virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/integration/cluster/steady.h"
#include "tests/support/sim_cluster.h"

namespace headrace {
namespace {

using Call = FaultDisk::Call;
using Survivors = FaultDisk::Survivors;
using Verdict = SimNetwork::Verdict;

Task<void> CrashAndComeBack(SimCluster* c, Survivors survivors) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  EXPECT_GT(c->runner().leased_items(), 0);
  c->CrashCoordinator(survivors);
  co_await c->Wait(absl::Seconds(1));
  c->StartCoordinator();
  EXPECT_EQ(c->runner().awaited_workers(), 2u);
  auto learnt = [c] { return !c->runner().learning(); };
  const bool ended = co_await c->WaitFor(learnt, absl::Seconds(3));
  EXPECT_TRUE(ended) << "all workers are back and the coordinator still waits";
}

TEST(ClusterRestart, ARestartedCoordinatorAdoptsWhatItsWorkersHold) {
  for (Survivors survivors : {Survivors::kAll, Survivors::kNone, Survivors::kRandom}) {
    SCOPED_TRACE(static_cast<int>(survivors));
    SimCluster c(Steady());
    c.Run(CrashAndComeBack(&c, survivors));
    ExpectAllOk(&c);
    EXPECT_GT(Totals(&c).adopted_batches, 0);
    EXPECT_EQ(c.provider().calls, 30) << "a call under way was given up and made again";
  }
}

Task<void> CrashWithAWorker(SimCluster* c) {
  c->StartCoordinator();
  const int a = c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  c->CrashCoordinator(Survivors::kAll);
  c->worker(a).Kill(absl::ZeroDuration());
  c->StartCoordinator();
  co_await c->Wait(c->options().lease - absl::Milliseconds(500));
  EXPECT_TRUE(c->runner().learning());
  EXPECT_EQ(c->runner().awaited_workers(), 1u);
  co_await c->Wait(absl::Seconds(2));
  EXPECT_FALSE(c->runner().learning());
  // It is waited for by no later start either.
  c->CrashCoordinator(Survivors::kNone);
  c->StartCoordinator();
  EXPECT_EQ(c->runner().awaited_workers(), 1u);
}

TEST(ClusterRestart, AWorkerThatNeverComesBackIsWaitedForOneLease) {
  SimClusterOptions options = Steady();
  options.rows = 60;
  SimCluster c(options);
  c.Run(CrashWithAWorker(&c));
  ExpectAllOk(&c);
}

Task<void> StopAndStart(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(3));
  const MonoTime asked = c->reactor().Now();
  co_await c->StopCoordinator();
  EXPECT_LT(c->reactor().Now() - asked, absl::Seconds(4)) << "calls under way take 2 s";
  const std::string before = c->last_coordinator().state(0).Snapshot();
  c->StartCoordinator();
  EXPECT_EQ(c->coordinator().state(0).Snapshot(), before) << "the journal says something else";
}

TEST(ClusterRestart, ACoordinatorThatIsStoppedLeavesEverythingForTheNext) {
  SimCluster c(Steady());
  c.Run(StopAndStart(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> CrashAtFirstAck(SimCluster* c, bool* crash) {
  c->network().set_to_worker([crash](int, const v1::CoordinatorMessage& message) {
    if (!message.has_ack() || message.ack().chunk_seq() == 0) return Verdict::kDeliver;
    *crash = true;
    return Verdict::kLose;
  });
  c->StartCoordinator();
  c->StartWorker("a");
  auto now = [crash] { return *crash; };
  const bool reached = co_await c->WaitFor(now, absl::Minutes(1));
  EXPECT_TRUE(reached);
  c->CrashCoordinator(Survivors::kNone);
  c->network().set_to_worker(nullptr);
  EXPECT_GE(SimChecks::ReadLines(c->disk(), c->jobs()[0].dir).size(), 1u);
}

TEST(ClusterRestart, ACrashBetweenSyncAndAckCostsNothing) {
  SimCluster c(Steady());
  bool crash = false;
  c.Run(CrashAtFirstAck(&c, &crash));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
}

// The machine dies in the middle of the disk's step `k`, for each of them: an append is torn, a
// sync, a rename or a cut does not happen.
Task<void> CrashAtStep(SimCluster* c, int64_t k) {
  c->StartCoordinator();
  c->disk().CrashAtStep(c->disk().steps() + k);
  c->StartWorker("a");
  c->StartWorker("b");
  co_return;
}

TEST(ClusterRestart, ACrashInTheMiddleOfAnyDiskCallLosesNothing) {
  bool reached = true;
  int64_t k = 1;
  for (; reached && k < 300; ++k) {
    SCOPED_TRACE(k);
    SimClusterOptions options = Steady();
    options.seed = static_cast<uint64_t>(k);
    options.rows = 12;
    SimCluster c(options);
    constexpr Survivors kSurvivors[] = {Survivors::kNone, Survivors::kAll, Survivors::kRandom};
    c.set_survivors(kSurvivors[k % 3]);
    c.Run(CrashAtStep(&c, k));
    reached = c.machine_crashes() > 0;
    ExpectAllOk(&c);
    EXPECT_EQ(c.provider().calls, 12) << "a call was given up and made again";
    if (HasFailure()) return;
  }
  EXPECT_GT(k, 20);
}

// ---------------------------------------------------------------------------------------------
// The journal, cut anywhere

constexpr char kJournal[] = "runs/1/journal/control.log";
constexpr char kLog[] = "runs/1/results.jsonl";

// `opened` is the length of the journal before the first result: less than that is no run.
Task<void> KeepImage(SimCluster* c, std::map<std::string, std::string>* image, size_t* opened) {
  c->StartCoordinator();
  *opened = c->disk().Content(kJournal).size();
  c->StartWorker("a");
  c->StartWorker("b");
  auto half = [c] { return c->coordinator().state(0).ok() >= 5; };
  co_await c->WaitFor(half, absl::Minutes(1));
  co_await c->Wait(absl::Milliseconds(20));
  for (const std::string& path : c->disk().Paths()) (*image)[path] = c->disk().Content(path);
  c->CrashCoordinator(Survivors::kAll);
}

Task<void> GoOnFrom(SimCluster* c, const std::map<std::string, std::string>* image,
                    std::string path, size_t bytes) {
  for (const auto& [name, content] : *image) c->disk().SetContent(name, content);
  c->disk().SetContent(path, image->at(path).substr(0, bytes));
  c->StartCoordinator();
  c->StartWorker("c");
  co_return;
}

TEST(ClusterRestart, ARunGoesOnFromAnyPrefixOfItsJournalAndItsLog) {
  SimClusterOptions options = Steady();
  options.rows = 8;
  std::map<std::string, std::string> image;
  size_t opened = 0;
  SimCluster whole(options);
  whole.Run(KeepImage(&whole, &image, &opened));
  int runs = 0;
  for (const auto& [path, content] : image) {
    const bool log = path == kLog;
    if (!log && path != kJournal) continue;
    // Of the log the last line may be torn.
    const size_t from = log ? content.rfind('\n', content.size() - 2) + 1 : opened;
    for (size_t bytes = from; bytes <= content.size(); bytes += log ? 5 : 1) {
      SCOPED_TRACE(absl::StrCat(path, " cut to ", bytes, " of ", content.size(), " bytes"));
      SimCluster c(options);
      c.Run(GoOnFrom(&c, &image, path, bytes));
      ASSERT_EQ(c.lines().size(), 8u);
      ExpectAllOk(&c);
      if (HasFailure()) return;
      ++runs;
    }
  }
  EXPECT_GT(runs, 50);
}

// ---------------------------------------------------------------------------------------------
// The disk and the clock

Task<void> SyncFails(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(2));
  c->disk().FailNth(Call::kDataSync, 1, ErrnoStatus(EIO, "fault disk"));
  auto over = [c] { return !c->coordinator_up(); };
  const bool ended = co_await c->WaitFor(over, absl::Seconds(10));
  EXPECT_TRUE(ended) << "a coordinator goes on after a failed sync";
  EXPECT_EQ(c->last_coordinator().end(0).state, "error");
  EXPECT_THAT(c->last_coordinator().end(0).reason, testing::HasSubstr("cannot be written"));
  c->StartCoordinator();
}

TEST(ClusterRestart, AfterAFailedSyncNothingIsAcknowledgedAndNothingIsLost) {
  SimCluster c(Steady());
  c.Run(SyncFails(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
}

Task<void> FullDisk(SimCluster* c) {
  c->disk().SetCanReserve(false);  // or there would be room for all of this small run
  c->StartCoordinator();
  c->StartWorker("a");
  c->StartWorker("b");
  co_await c->Wait(absl::Seconds(2));
  c->disk().SetFreeBytes(0);
  co_await c->Wait(absl::Seconds(20));
  EXPECT_THAT(c->coordinator().store(0).waiting_for(), testing::HasSubstr("free some space"));
  EXPECT_FALSE(c->complete());
  c->disk().SetFreeBytes(int64_t{1} << 40);
}

TEST(ClusterRestart, AFullDiskIsWaitedOutAndLeasesLiveOn) {
  SimCluster c(Steady());
  c.Run(FullDisk(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(c.paid_twice(), 0);
  EXPECT_EQ(Totals(&c).lost_batches, 0);
}

Task<void> ClockJumps(SimCluster* c) {
  c->StartCoordinator();
  c->StartWorker("a");
  co_await c->Wait(absl::Seconds(2));
  c->reactor().JumpWall(-absl::Hours(5));
  co_await c->Wait(absl::Seconds(2));
  c->reactor().JumpWall(absl::Hours(300));
}

TEST(ClusterRestart, AWallClockThatIsSetChangesNoLease) {
  SimCluster c(Steady());
  c.Run(ClockJumps(&c));
  ExpectAllOk(&c);
  EXPECT_EQ(Totals(&c).lost_batches, 0);
  EXPECT_EQ(c.paid_twice(), 0);
}

}  // namespace
}  // namespace headrace
