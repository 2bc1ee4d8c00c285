// The rules of a batch scope, and the exhaustive sweep: a small batch is cancelled at every
// suspension point, under every failure policy and every way to end it, and the invariants must
// hold each time.
#include "worker/batch/batch_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/async/virtual_reactor.h"

namespace headrace {
namespace {

using Kind = ItemOutcome::Kind;

// A runner whose items wait for a line of two places, "call" for a while, and retry once: every
// kind of suspension that the real loop has.
class FakeRunner : public ItemRunner {
 public:
  explicit FakeRunner(VirtualReactor* reactor) : reactor_(reactor), line_(reactor, 2) {}

  Task<bool> Ready(StopToken stop) override {
    const bool ready = co_await line_.Acquire(stop);
    co_return ready;
  }

  Task<ItemOutcome> Run(size_t index, StopToken start, StopToken call) override {
    ++live;
    ItemOutcome outcome = co_await RunGuarded(index, start, call);
    line_.Release();
    --live;
    co_return outcome;
  }

  MonoTime StartDeadline() override { return start_deadline; }

  MonoTime start_deadline;        // as it is by then
  std::vector<size_t> failing;    // items that fail, after one retry
  std::optional<size_t> hanging;  // its call ends only by a stop
  std::optional<size_t> throwing;
  int live = 0;
  int attempts = 0;
  int attempts_after_cancel = 0;
  bool cancelled = false;  // set by the test when it cancels

 private:
  Task<ItemOutcome> RunGuarded(size_t index, StopToken start, StopToken call) {
    ItemOutcome outcome;
    for (int attempt = 1; attempt <= 2; ++attempt) {
      if (start.stopped()) {
        outcome.kind = Kind::kNotStarted;
        outcome.stop = start.reason();
        co_return outcome;
      }
      ++attempts;
      if (cancelled) ++attempts_after_cancel;
      if (throwing == index) throw std::runtime_error("boom");
      const absl::Duration length =
          hanging == index ? absl::Hours(10) : absl::Milliseconds(10 + 7 * index);
      Sleep wire(reactor_, length, call);
      const bool answered = co_await wire;
      if (!answered) {
        outcome.kind = Kind::kCancelled;
        outcome.stop = call.reason();
        co_return outcome;
      }
      if (!testing::Matches(testing::Contains(index))(failing)) {
        outcome.kind = Kind::kOk;
        co_return outcome;
      }
      if (attempt == 2) break;
      Sleep backoff(reactor_, absl::Milliseconds(5), start);
      const bool waited = co_await backoff;
      if (!waited) break;
    }
    outcome.kind = Kind::kFailed;
    outcome.error_class = ErrorClass::kServerError;
    co_return outcome;
  }

  VirtualReactor* const reactor_;
  Semaphore line_;
};

class Recorder : public OutcomeSink {
 public:
  explicit Recorder(size_t size) : outcomes(size) {}
  void OnOutcome(size_t index, ItemOutcome outcome) override {
    ASSERT_FALSE(outcomes[index].has_value()) << "item " << index << " has two outcomes";
    outcomes[index] = std::move(outcome);
  }
  std::vector<std::optional<ItemOutcome>> outcomes;
};

struct Fixture {
  explicit Fixture(size_t size, uint64_t seed = 0, bool shuffle = false)
      : reactor(seed, shuffle), runner(&reactor), recorder(size) {
    options.size = size;
  }
  std::unique_ptr<BatchScope> Make() {
    return std::make_unique<BatchScope>(&reactor, options, &runner, &recorder, drain.token(),
                                        cancel.token());
  }
  BatchEnd RunToEnd() {
    std::unique_ptr<BatchScope> scope = Make();
    BatchEnd end;
    reactor.Run(Drive(scope.get(), &end));
    return end;
  }
  static Task<void> Drive(BatchScope* scope, BatchEnd* end) { *end = co_await scope->Run(); }

  VirtualReactor reactor;
  StopSource cancel;
  StopSource drain;
  FakeRunner runner;
  Recorder recorder;
  BatchScopeOptions options;
};

TEST(BatchScope, EveryItemOfAGoodBatchIsOk) {
  Fixture f(5);
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 5u);
  EXPECT_EQ(end.stop.code, StopCode::kNone);
}

TEST(BatchScope, AnEmptyBatchEndsAtOnce) {
  Fixture f(0);
  EXPECT_EQ(f.RunToEnd().ok, 0u);
}

TEST(BatchScope, CollectRunsAllItemsDespiteFailures) {
  Fixture f(5);
  f.runner.failing = {0, 3};
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 3u);
  EXPECT_EQ(end.failed, 2u);
}

TEST(BatchScope, FailFastLeavesTheRestUnstarted) {
  Fixture f(6);
  f.options.policy = FailurePolicy::kFailFast;
  f.runner.failing = {0};
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.failed, 1u);
  EXPECT_GT(end.not_started, 0u);
  EXPECT_EQ(end.stop.code, StopCode::kPolicy);
}

TEST(BatchScope, MaxFailedEndsWithTheFirstFailureBeyondIt) {
  Fixture f(8);
  f.options.policy = FailurePolicy::kMaxFailed;
  f.options.max_failed = 1;
  f.runner.failing = {0, 1, 2, 3, 4, 5, 6, 7};
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.failed, 2u);
  EXPECT_EQ(end.stop.text, "max_failed: 2 items failed, 1 allowed");
}

TEST(BatchScope, TheDeadlineEndsAPeerThatNeverAnswers) {
  Fixture f(3);
  f.runner.hanging = 1;
  f.options.deadline = f.reactor.Now() + absl::Seconds(1);
  const MonoTime begun = f.reactor.Now();
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 2u);
  EXPECT_EQ(end.cancelled, 1u);
  EXPECT_EQ(f.recorder.outcomes[1]->stop.code, StopCode::kDeadline);
  EXPECT_EQ(f.reactor.Now() - begun, absl::Seconds(1));
}

TEST(BatchScope, AfterTheStartDeadlineCallsUnderWayEndAndNoneBegins) {
  Fixture f(4);
  f.options.start_deadline = f.reactor.Now() + absl::Milliseconds(1);
  f.options.deadline = f.reactor.Now() + absl::Seconds(5);
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 2u);  // the two in the line
  EXPECT_EQ(end.not_started, 2u);
  EXPECT_EQ(end.stop.code, StopCode::kDeadline);
}

TEST(BatchScope, TheStartDeadlineIsAskedAgainWhenItHasCome) {
  Fixture f(4);
  f.options.start_deadline = f.reactor.Now() + absl::Milliseconds(1);
  f.options.deadline = f.reactor.Now() + absl::Seconds(5);
  f.runner.start_deadline = f.options.deadline - absl::Seconds(1);
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 4u);
}

TEST(BatchScope, ADrainLetsCallsUnderWayEnd) {
  Fixture f(4);
  f.drain.RequestStop(StopCode::kDrain);
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.not_started, 4u);
  EXPECT_EQ(f.runner.attempts, 0);
}

TEST(BatchScope, AnExceptionBecomesAnInternalFailureAndSpareSiblings) {
  Fixture f(3);
  f.runner.throwing = 1;
  const BatchEnd end = f.RunToEnd();
  EXPECT_EQ(end.ok, 2u);
  EXPECT_EQ(end.failed, 1u);
  EXPECT_EQ(f.recorder.outcomes[1]->error_class, ErrorClass::kInternal);
  EXPECT_EQ(f.recorder.outcomes[1]->message, "internal error: boom");
}

TEST(BatchScope, CancellingOneItemLeavesItsSiblingsAlone) {
  Fixture f(3);
  f.runner.hanging = 0;
  std::unique_ptr<BatchScope> scope = f.Make();
  BatchEnd end;
  f.reactor.set_step_hook([&](uint64_t step) {
    if (f.reactor.Now() > MonoTime::FromNanos(1'000'000'000'000'000)) {
      scope->CancelItem(0, {StopCode::kAlreadyDone, ""});
    }
  });
  f.reactor.Run(Fixture::Drive(scope.get(), &end));
  EXPECT_EQ(end.ok, 2u);
  EXPECT_EQ(end.cancelled, 1u);
  EXPECT_EQ(f.recorder.outcomes[0]->stop.code, StopCode::kAlreadyDone);
}

Task<void> CancelTheLastAtOnce(BatchScope* scope, BatchEnd* end) {
  scope->CancelItem(3, {StopCode::kAlreadyDone, "elsewhere"});
  *end = co_await scope->Run();
}

TEST(BatchScope, AnItemThatIsCancelledBeforeItsStartMakesNoCall) {
  Fixture f(4);
  std::unique_ptr<BatchScope> scope = f.Make();
  BatchEnd end;
  f.reactor.Run(CancelTheLastAtOnce(scope.get(), &end));
  EXPECT_EQ(end.ok, 3u);
  EXPECT_EQ(end.not_started, 1u);
  EXPECT_EQ(f.runner.attempts, 3);
  EXPECT_EQ(f.recorder.outcomes[3]->stop.code, StopCode::kAlreadyDone);
  EXPECT_EQ(end.stop.code, StopCode::kNone) << "the batch itself was not stopped";
}

// How the sweep ends a batch at a step.
enum class Ending { kCancel, kCancelTwice, kDrain, kDrainThenCancel, kCancelItem };

struct SweepCase {
  FailurePolicy policy;
  Ending ending;
  std::vector<size_t> failing;
  bool hanging;
  uint64_t seed;
};

void EndIt(Ending ending, Fixture* f, BatchScope* scope) {
  switch (ending) {
    case Ending::kCancel:
      f->runner.cancelled = true;
      f->cancel.RequestStop(StopReason{StopCode::kLeaseLost, "first"});
      break;
    case Ending::kCancelTwice:
      f->runner.cancelled = true;
      scope->Cancel({StopCode::kLeaseLost, "first"});
      scope->Cancel({StopCode::kUser, "second"});
      break;
    case Ending::kDrain:
      f->runner.cancelled = true;
      f->drain.RequestStop(StopReason{StopCode::kDrain, "first"});
      break;
    case Ending::kDrainThenCancel:
      f->runner.cancelled = true;
      scope->Drain({StopCode::kDrain, "first"});
      scope->Cancel({StopCode::kShutdown, "then"});
      break;
    case Ending::kCancelItem:
      scope->CancelItem(1, {StopCode::kAlreadyDone, "elsewhere"});
      break;
  }
}

// Runs one batch of three, ended at resumption `step`; returns how many resumptions there were.
uint64_t RunSweepCase(const SweepCase& c, uint64_t step) {
  Fixture f(3, c.seed, /*shuffle=*/c.seed != 0);
  f.options.policy = c.policy;
  f.options.max_failed = 1;
  f.options.deadline = f.reactor.Now() + absl::Seconds(2);
  f.runner.failing = c.failing;
  if (c.hanging) f.runner.hanging = 2;
  std::unique_ptr<BatchScope> scope = f.Make();
  bool hit = false;
  f.reactor.set_step_hook([&](uint64_t now) {
    if (now != step) return;
    hit = true;
    EndIt(c.ending, &f, scope.get());
  });
  BatchEnd end;
  f.reactor.Run(Fixture::Drive(scope.get(), &end));
  const uint64_t steps = f.reactor.steps();
  scope.reset();

  // I1: exactly one outcome for each item. I2: nothing is left. I4: no attempt after the stop.
  EXPECT_EQ(end.ok + end.failed + end.cancelled + end.not_started, 3u);
  for (const auto& outcome : f.recorder.outcomes) EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(f.runner.live, 0);
  EXPECT_EQ(f.reactor.timer_count(), 0u);
  EXPECT_EQ(f.runner.attempts_after_cancel, 0);
  EXPECT_EQ(end.late_outcomes, 0u);
  if (!hit) return steps;
  // I8: the first reason is the recorded one, unless the batch's own policy or deadline came first.
  for (const auto& outcome : f.recorder.outcomes) {
    if (outcome->kind == Kind::kNotStarted || outcome->kind == Kind::kCancelled) {
      EXPECT_NE(outcome->stop.text, "second");
      EXPECT_NE(outcome->stop.code, StopCode::kNone);
    }
  }
  return steps;
}

TEST(BatchScope, HoldsItsInvariantsWhenEndedAtEverySuspensionPoint) {
  uint64_t runs = 0;
  for (FailurePolicy policy :
       {FailurePolicy::kCollect, FailurePolicy::kFailFast, FailurePolicy::kMaxFailed}) {
    for (Ending ending : {Ending::kCancel, Ending::kCancelTwice, Ending::kDrain,
                          Ending::kDrainThenCancel, Ending::kCancelItem}) {
      for (const std::vector<size_t>& failing :
           {std::vector<size_t>{}, std::vector<size_t>{1}, std::vector<size_t>{0, 1, 2}}) {
        for (bool hanging : {false, true}) {
          for (uint64_t seed = 0; seed < 4; ++seed) {
            const SweepCase c{policy, ending, failing, hanging, seed};
            for (uint64_t step = 0;; ++step, ++runs) {
              SCOPED_TRACE(testing::Message()
                           << "policy " << static_cast<int>(policy) << " ending "
                           << static_cast<int>(ending) << " failing " << failing.size()
                           << " hanging " << hanging << " seed " << seed << " step " << step);
              const uint64_t steps = RunSweepCase(c, step);
              if (testing::Test::HasFailure()) return;
              if (step >= steps) break;
            }
          }
        }
      }
    }
  }
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(runs, 2000u);
}

}  // namespace
}  // namespace headrace
