#include "common/async/task.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

// Counts the living copies that coroutine frames hold.
struct Counted {
  explicit Counted(int* c) : count(c) { ++*count; }
  Counted(Counted&& other) noexcept : count(other.count) { ++*count; }
  ~Counted() { --*count; }
  int* count;
};

Task<int> Value(int value) { co_return value; }

Task<int> LateValue(Reactor* reactor, int value) {
  co_await Yield(reactor);
  co_return value;
}

Task<int> Throwing(Reactor* reactor, bool late) {
  if (late) co_await Yield(reactor);
  throw std::runtime_error("broken");
}

Task<void> Mark(bool* ran, Counted) {
  *ran = true;
  co_return;
}

struct StackRange {
  uintptr_t low = UINTPTR_MAX;
  uintptr_t high = 0;
  void Note() {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    low = std::min(low, here);
    high = std::max(high, here);
  }
};

Task<int> NoteStack(StackRange* range, Reactor* suspend_on) {
  range->Note();
  if (suspend_on != nullptr) co_await Yield(suspend_on);
  range->Note();
  co_return 1;
}

Task<int> SumOf(int count, StackRange* range, Reactor* suspend_on) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await NoteStack(range, suspend_on);
  co_return sum;
}

// The frames of one resumption, far below what even one frame per hundred children would need.
constexpr uintptr_t kStackLimit = 8192;

TEST(Task, AMillionReadyChildrenDoNotGrowTheStack) {
  VirtualReactor reactor;
  StackRange range;
  reactor.Run([](StackRange* r) -> Task<void> {
    EXPECT_EQ(co_await SumOf(1'000'000, r, nullptr), 1'000'000);
  }(&range));
  EXPECT_LT(range.high - range.low, kStackLimit);
}

TEST(Task, ChildrenThatSuspendDoNotGrowTheStackEither) {
  VirtualReactor reactor;
  StackRange range;
  reactor.Run([](StackRange* r, Reactor* on) -> Task<void> {
    EXPECT_EQ(co_await SumOf(100'000, r, on), 100'000);
  }(&range, &reactor));
  EXPECT_LT(range.high - range.low, kStackLimit);
}

TEST(Task, AnExceptionReachesTheAwaiterFromAReadyAndFromALateChild) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    for (const bool late : {false, true}) {
      std::string caught;
      try {
        co_await Throwing(r, late);
      } catch (const std::runtime_error& e) {
        caught = e.what();
      }
      EXPECT_EQ(caught, "broken");
    }
  }(&reactor));
}

TEST(Task, RunRethrowsWhatTheMainTaskThrew) {
  VirtualReactor reactor;
  EXPECT_THROW(reactor.Run([](Reactor* r) -> Task<void> { co_await Throwing(r, true); }(&reactor)),
               std::runtime_error);
}

TEST(Task, DoesNotStartBeforeItIsAwaited) {
  VirtualReactor reactor;
  reactor.Run([]() -> Task<void> {
    bool ran = false;
    int living = 0;
    Task<void> task = Mark(&ran, Counted(&living));
    EXPECT_FALSE(ran);
    EXPECT_EQ(living, 1);
    co_await task;
    EXPECT_TRUE(ran);
  }());
}

TEST(Task, OneThatIsNeverAwaitedFreesItsFrameWithoutRunning) {
  bool ran = false;
  int living = 0;
  {
    Task<void> task = Mark(&ran, Counted(&living));
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(living, 0);
}

TEST(Task, AMoveLeavesAnEmptyTaskAndAnAssignmentFreesTheOldFrame) {
  bool ran = false;
  int first = 0, second = 0;
  Task<void> a = Mark(&ran, Counted(&first));
  Task<void> b = Mark(&ran, Counted(&second));
  a = std::move(b);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_TRUE(a.valid());
  EXPECT_FALSE(b.valid());
}

TEST(Task, GivesBackValuesThatOnlyMove) {
  VirtualReactor reactor;
  reactor.Run([]() -> Task<void> {
    auto make = [](int v) -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(v); };
    const std::unique_ptr<int> value = co_await make(5);
    EXPECT_EQ(*value, 5);
  }());
}

TEST(Task, SeveralAwaitsInOneExpressionKeepTheirOrder) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    const int difference = co_await LateValue(r, 10) - co_await Value(3);
    EXPECT_EQ(difference, 7);
    const int chosen = co_await Value(0) != 0 ? co_await Value(1) : co_await LateValue(r, 2);
    EXPECT_EQ(chosen, 2);
  }(&reactor));
}

// The fault of gcc 12: a temporary of the awaited expression is destroyed twice.
TEST(Task, TemporariesOfTheAwaitedExpressionAreDestroyedOnce) {
  VirtualReactor reactor;
  reactor.Run([]() -> Task<void> {
    bool ran = false;
    int living = 0;
    co_await Mark(&ran, Counted(&living));
    EXPECT_EQ(living, 0);
  }());
}

TEST(TaskDeathTest, AwaitingTwiceOrAwaitingNothingIsABug) {
  VirtualReactor reactor;
  EXPECT_DEATH(reactor.Run([]() -> Task<void> {
    Task<int> task = Value(1);
    co_await task;
    co_await task;
  }()),
               "awaited twice");
  EXPECT_DEATH(reactor.Run([]() -> Task<void> {
    Task<int> task;
    co_await task;
  }()),
               "empty task");
}

}  // namespace
}  // namespace headrace
