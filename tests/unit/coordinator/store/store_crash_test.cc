// Crashes at every step of a run: what was acknowledged is there afterwards, nothing is there
// twice, and what recovery tells is what the files hold.
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/async/scope.h"
#include "common/base/random.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using Survivors = FaultDisk::Survivors;

constexpr char kDir[] = "run";
constexpr int kWriters = 3;

// What a coordinator knows, as far as the store is concerned.
struct State {
  std::map<uint64_t, ErrorClass> outcomes;
  std::map<uint64_t, uint32_t> deferred;  // passes, of items without an outcome
  BatchId batch_ids;
  // Those present, "id/nonce".
  std::set<std::string> workers;

  std::string Serialize() const {
    std::string out;
    for (const auto& [item, error_class] : outcomes) {
      absl::StrAppend(&out, "o ", item, " ", static_cast<int>(error_class), "\n");
    }
    for (const auto& [item, passes] : deferred)
      absl::StrAppend(&out, "d ", item, " ", passes, "\n");
    return out;
  }

  static State Recovered(const RecordingVisitor& visitor) {
    State state;
    for (const absl::string_view line : absl::StrSplit(visitor.snapshot, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      uint64_t item = 0;
      uint32_t value = 0;
      HR_CHECK(absl::SimpleAtoi(words[1], &item) && absl::SimpleAtoi(words[2], &value));
      if (words[0] == "o") {
        state.outcomes[item] = static_cast<ErrorClass>(value);
      } else {
        state.deferred[item] = value;
      }
    }
    for (const auto& [item, deferral] : visitor.deferred) state.deferred[item] = deferral.passes;
    for (const auto& [item, error_class] : visitor.outcomes) {
      state.outcomes.emplace(item, error_class);
    }
    for (const auto& [item, error_class] : state.outcomes) state.deferred.erase(item);
    state.batch_ids = visitor.batch_ids;
    state.workers.insert(visitor.workers.begin(), visitor.workers.end());
    return state;
  }
};

// A run of `items` items by a few writers, from a state, with everything drawn from a seed.
class World {
 public:
  World(VirtualReactor* reactor, RunStore* store, State state, uint64_t items, uint64_t seed)
      : reactor_(reactor), store_(store), random_(seed), state_(std::move(state)), asked_(state_) {
    for (uint64_t item = 0; item < items; ++item) {
      if (!state_.outcomes.contains(item)) todo_.push_back(item);
    }
  }

  void Run() { reactor_->Run(Main()); }

  const State& acknowledged() const { return state_; }
  const State& asked() const { return asked_; }  // with what nobody was told about

 private:
  Task<void> Main() {
    TaskScope scope(reactor_, StopToken());
    for (int i = 0; i < kWriters; ++i) scope.Spawn(Writer(i));
    co_await scope.Join();
  }

  Task<void> Writer(int id) {
    while (!todo_.empty()) {
      std::vector<LogRecord> records;
      std::vector<DeferredItem> deferred;
      std::map<uint64_t, ErrorClass> outcomes;
      for (uint64_t n = 1 + random_.Below(4); n > 0 && !todo_.empty(); --n) {
        const uint64_t item = todo_.back();
        todo_.pop_back();
        if (random_.Chance(0.2) && !state_.deferred.contains(item)) {
          deferred.push_back(DeferralOf(item));
          asked_.deferred[item] = 1;
          continue;
        }
        const ErrorClass error_class = random_.Chance(0.3) ? ErrorClass::kAuth : ErrorClass::kNone;
        records.push_back(RecordOf(item, error_class, random_.Below(200)));
        outcomes[item] = asked_.outcomes[item] = error_class;
      }
      const absl::Status status = co_await store_->Append(std::move(records), deferred);
      if (!status.ok()) co_return;
      for (const auto& [item, error_class] : outcomes) {
        state_.outcomes[item] = error_class;
        state_.deferred.erase(item);
      }
      for (const DeferredItem& item : deferred) {
        state_.deferred[item.item.value()] = item.passes;
        todo_.push_back(item.item.value());  // again, in the next pass
      }
      if (random_.Chance(0.2) && !co_await ReserveIds()) co_return;
      if (random_.Chance(0.3) && !co_await RecordWorker(id)) co_return;
      if (random_.Chance(0.25)) {
        const absl::Status saved = co_await store_->SaveSnapshot(state_.Serialize());
        if (!saved.ok() && !absl::IsFailedPrecondition(saved)) co_return;
      }
    }
  }

  Task<bool> ReserveIds() {
    const BatchId up_to(asked_.batch_ids.value() + 1 + random_.Below(10));
    asked_.batch_ids = up_to;
    const absl::Status status = co_await store_->ReserveBatchIds(up_to);
    if (status.ok() && up_to > state_.batch_ids) state_.batch_ids = up_to;
    co_return status.ok();
  }

  // Each writer speaks for one worker, so that its records are in order.
  Task<bool> RecordWorker(int id) {
    const std::string worker = absl::StrCat("w-", id);
    const std::string name = worker + "/n";
    const bool present = !state_.workers.contains(name);
    // Until it is durable either may be found.
    asked_.workers.insert(name);
    state_.workers.erase(name);
    const absl::Status status = co_await store_->RecordWorker(worker, "n", present);
    if (!status.ok()) co_return false;
    if (present) {
      state_.workers.insert(name);
    } else {
      asked_.workers.erase(name);
    }
    co_return true;
  }

  VirtualReactor* const reactor_;
  RunStore* const store_;
  Random random_;
  State state_;
  State asked_;
  std::vector<uint64_t> todo_;
};

// `state` was told by a recovery after a crash in which `acknowledged` was promised and `asked` was
// under way.
void ExpectSound(const State& state, const State& acknowledged, const State& asked) {
  for (const auto& [item, error_class] : acknowledged.outcomes) {
    ASSERT_EQ(state.outcomes.count(item), 1u) << "acknowledged item " << item << " is lost";
    EXPECT_EQ(state.outcomes.at(item), error_class);
  }
  for (const auto& [item, passes] : acknowledged.deferred) {
    EXPECT_TRUE(state.deferred.contains(item) || state.outcomes.contains(item))
        << "the acknowledged deferral of " << item << " is lost";
  }
  for (const auto& [item, error_class] : state.outcomes) {
    ASSERT_EQ(asked.outcomes.count(item), 1u) << "item " << item << " came from nowhere";
    EXPECT_EQ(asked.outcomes.at(item), error_class);
  }
  for (const auto& [item, passes] : state.deferred) EXPECT_TRUE(asked.deferred.contains(item));
  EXPECT_GE(state.batch_ids, acknowledged.batch_ids);
  EXPECT_LE(state.batch_ids, asked.batch_ids);
  for (const std::string& worker : acknowledged.workers)
    EXPECT_TRUE(state.workers.contains(worker));
  for (const std::string& worker : state.workers) EXPECT_TRUE(asked.workers.contains(worker));
}

// The files hold exactly the outcomes of `state`, each once.
void ExpectFilesHold(Disk* disk, const State& state) {
  std::map<uint64_t, ErrorClass> held;
  const auto check = ReadRun(disk, kDir, [&](absl::string_view, const ResultLineKey& key) {
    held[key.item.value()] = key.error_class;
    return absl::OkStatus();
  });
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(held, state.outcomes);
  EXPECT_EQ(check->duplicates, 0);
  EXPECT_EQ(check->damaged, 0);
  EXPECT_EQ(check->unfinished_bytes, 0);
}

RunIdentity IdentityOf(uint64_t items) {
  RunIdentity identity = TestIdentity();
  identity.rows = static_cast<int64_t>(items);
  return identity;
}

RunStoreOptions OptionsOf(Random* random) {
  RunStoreOptions options = InlineOptions();
  options.commit_records = 1 + random->Below(12);
  options.max_queued_records = 4 + random->Below(20);
  options.journal_bytes = 200 + static_cast<int64_t>(random->Below(2000));
  return options;
}

// Runs to the crash at step `crash_step` (0: to the end), then again on what the crash left, until
// a run ends. True if the first run crashed.
bool RunWithCrashes(uint64_t items, int64_t crash_step, Survivors survivors, uint64_t seed) {
  Random random(seed);
  auto disk = std::make_unique<FaultDisk>();
  disk->CrashAtStep(crash_step);
  State acknowledged;
  State asked;
  bool crashed_ever = false;
  for (int starts = 1;; ++starts) {
    HR_CHECK(starts < 10) << "crashes without end";
    VirtualReactor reactor(random(), /*shuffle=*/true);
    auto opened = OpenStore(disk.get(), &reactor, kDir, OptionsOf(&random), IdentityOf(items));
    if (opened->ok()) {
      const State recovered = State::Recovered(opened->visitor);
      ExpectSound(recovered, acknowledged, asked);
      if (!disk->crashed()) ExpectFilesHold(disk.get(), recovered);
      World world(&reactor, opened->store->get(), recovered, items, random());
      world.Run();
      acknowledged = world.acknowledged();
      asked = world.asked();
      const absl::Status closed = RunCall(&reactor, (*opened)->Close());
      if (!disk->crashed()) {
        EXPECT_EQ(closed, absl::OkStatus());
        EXPECT_EQ(acknowledged.outcomes.size(), items);
        ExpectFilesHold(disk.get(), acknowledged);
        return crashed_ever;
      }
    } else {
      EXPECT_EQ(opened->store.status().code(), absl::StatusCode::kAborted)
          << opened->store.status();
      if (!disk->crashed()) return crashed_ever;
    }
    crashed_ever = true;
    opened.reset();
    auto next = disk->AfterCrash(survivors, random());
    disk = std::move(next);
    // The next start may crash too, mostly while it recovers.
    if (starts < 6 && random.Chance(0.3))
      disk->CrashAtStep(1 + static_cast<int64_t>(random.Below(25)));
    if (::testing::Test::HasFailure()) return crashed_ever;
  }
}

TEST(StoreCrash, AtEveryStepOfASmallRun) {
  constexpr uint64_t kItems = 40;
  for (const Survivors survivors : {Survivors::kAll, Survivors::kNone, Survivors::kRandom}) {
    for (int64_t step = 1;; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step, ", survivors ", static_cast<int>(survivors)));
      const bool crashed = RunWithCrashes(kItems, step, survivors, 4242);
      ASSERT_FALSE(HasFailure());
      if (!crashed) {
        EXPECT_GT(step, 30) << "the run was too small to mean anything";
        break;
      }
    }
  }
}

TEST(StoreCrash, AtRandomStepsOfRandomRuns) {
  // HEADRACE_SEED repeats one run; without it every test run takes new seeds.
  const char* const given = std::getenv("HEADRACE_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : RandomSeed();
  const uint64_t count = given != nullptr ? 1 : 300;
  for (uint64_t seed = first; seed != first + count; ++seed) {
    Random random(seed);
    const uint64_t items = 1 + random.Below(120);
    const auto step = static_cast<int64_t>(1 + random.Below(120));
    const auto survivors = static_cast<Survivors>(random.Below(3));
    RunWithCrashes(items, step, survivors, seed);
    ASSERT_FALSE(HasFailure()) << "repeat with HEADRACE_SEED=" << seed;
  }
}

}  // namespace
}  // namespace headrace
