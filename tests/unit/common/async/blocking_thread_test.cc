#include "common/async/blocking_thread.h"

#include <memory>
#include <thread>
#include <vector>

#include "common/async/epoll_reactor.h"
#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/async/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

Task<void> RunThere(BlockingThread* thread, int value, std::vector<int>* order) {
  std::thread::id ran_on;
  auto work = thread->Run([&ran_on, value] {
    ran_on = std::this_thread::get_id();
    return value * 2;
  });
  const int result = co_await work;
  EXPECT_EQ(result, value * 2);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  order->push_back(value);
}

TEST(BlockingThread, RunsElsewhereInOrderAndComesBack) {
  auto reactor = EpollReactor::Make();
  ASSERT_TRUE(reactor.ok());
  (*reactor)->Run([](Reactor* r) -> Task<void> {
    BlockingThread thread(r);
    std::vector<int> order;
    TaskScope scope(r, StopToken());
    for (int value : {1, 2, 3, 4, 5}) scope.Spawn(RunThere(&thread, value, &order));
    co_await scope.Join();
    EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5));
  }(reactor->get()));
}

TEST(BlockingThread, InlineItRunsAtOnceForVirtualTime) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    BlockingThread thread(r, /*inline_for_tests=*/true);
    const uint64_t turn_of = r->ready_count();
    auto work = thread.Run([] { return std::make_unique<int>(7); });
    const std::unique_ptr<int> value = co_await work;
    EXPECT_EQ(*value, 7);
    EXPECT_EQ(r->ready_count(), turn_of);
  }(&reactor));
}

}  // namespace
}  // namespace headrace
