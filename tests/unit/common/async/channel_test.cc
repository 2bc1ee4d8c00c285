#include "common/async/channel.h"

#include <memory>
#include <vector>

#include "common/async/scope.h"
#include "common/async/virtual_reactor.h"
#include "common/base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

Task<void> SendAll(Channel<int>* channel, std::vector<int> values, StopToken stop,
                   std::vector<int>* sent) {
  for (int value : values) {
    if (!co_await channel->Send(value, stop)) co_return;
    sent->push_back(value);
  }
}

Task<void> ReceiveAll(Channel<int>* channel, StopToken stop, std::vector<int>* received) {
  while (std::optional<int> value = co_await channel->Receive(stop)) received->push_back(*value);
}

TEST(Channel, ARefusedSendLeavesTheValueUntouched) {
  VirtualReactor reactor;
  Channel<std::unique_ptr<int>> channel(&reactor, 1);
  EXPECT_TRUE(channel.TrySend(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(channel.TrySend(std::move(second)));
  EXPECT_NE(second, nullptr);
  channel.Close();
  EXPECT_FALSE(channel.TrySend(std::move(second)));
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(**channel.TryReceive(), 1);
}

TEST(Channel, CloseDrainsWhatIsBufferedAndThenEnds) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> channel(r, 3);
    EXPECT_TRUE(co_await channel.Send(1, StopToken()));
    EXPECT_TRUE(co_await channel.Send(2, StopToken()));
    channel.Close();
    EXPECT_FALSE(co_await channel.Send(3, StopToken()));
    EXPECT_THAT(co_await channel.Receive(StopToken()), Optional(1));
    EXPECT_THAT(co_await channel.Receive(StopToken()), Optional(2));
    EXPECT_EQ(co_await channel.Receive(StopToken()), std::nullopt);
    EXPECT_EQ(co_await channel.Receive(StopToken()), std::nullopt);
  }(&reactor));
}

TEST(Channel, CloseWakesSendersAndReceiversThatWait) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> full(r, 1), empty(r, 1);
    std::vector<int> sent, received;
    TaskScope scope(r, StopToken());
    scope.Spawn(SendAll(&full, {1, 2}, StopToken(), &sent));
    scope.Spawn(ReceiveAll(&empty, StopToken(), &received));
    co_await Yield(r);
    full.Close();
    empty.Close();
    co_await scope.Join();
    EXPECT_THAT(sent, ElementsAre(1));
    EXPECT_TRUE(received.empty());
    EXPECT_EQ(full.TryReceive(), 1);
    EXPECT_EQ(full.TryReceive(), std::nullopt);
  }(&reactor));
}

TEST(Channel, AStoppedSenderSendsNothingAndAStoppedReceiverLosesNothing) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> channel(r, 1);
    StopSource stop_sender, stop_receiver;
    std::vector<int> sent, received;
    TaskScope scope(r, StopToken());
    scope.Spawn(SendAll(&channel, {1, 2}, stop_sender.token(), &sent));
    co_await Yield(r);
    stop_sender.RequestStop(StopCode::kUser);
    co_await scope.WaitIdle();
    EXPECT_THAT(sent, ElementsAre(1));
    EXPECT_EQ(channel.TryReceive(), 1);
    EXPECT_EQ(channel.size(), 0u);

    scope.Spawn(ReceiveAll(&channel, stop_receiver.token(), &received));
    co_await Yield(r);
    // In one turn: the stop comes first, so the value stays in the channel.
    stop_receiver.RequestStop(StopCode::kUser);
    EXPECT_TRUE(channel.TrySend(3));
    co_await scope.Join();
    EXPECT_TRUE(received.empty());
    EXPECT_EQ(channel.TryReceive(), 3);
  }(&reactor));
}

TEST(Channel, AValueHandedOverBeforeTheStopIsReceived) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> channel(r, 1);
    StopSource stop;
    std::vector<int> received;
    TaskScope scope(r, StopToken());
    scope.Spawn(ReceiveAll(&channel, stop.token(), &received));
    co_await Yield(r);
    EXPECT_TRUE(channel.TrySend(1));
    stop.RequestStop(StopCode::kUser);
    co_await scope.Join();
    EXPECT_THAT(received, ElementsAre(1));
  }(&reactor));
}

TEST(Channel, WaitingSendersAreServedInTheirOrderAndNobodyOvertakes) {
  VirtualReactor reactor;
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> channel(r, 1);
    std::vector<int> sent, received;
    TaskScope scope(r, StopToken());
    for (int value : {1, 2, 3, 4}) scope.Spawn(SendAll(&channel, {value}, StopToken(), &sent));
    co_await Yield(r);
    EXPECT_EQ(channel.TryReceive(), 1);
    EXPECT_FALSE(channel.TrySend(9)) << "the free place belongs to the sender who waits";
    while (std::optional<int> value = channel.TryReceive()) received.push_back(*value);
    EXPECT_THAT(received, ElementsAre(2, 3, 4));
    co_await scope.Join();
    EXPECT_THAT(sent, ElementsAre(1, 2, 3, 4));
  }(&reactor));
}

TEST(Channel, EveryValueArrivesOnceAndInOrderUnderAnySchedule) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(seed);
  VirtualReactor reactor(seed, /*shuffle=*/true);
  reactor.Run([](Reactor* r, uint64_t s) -> Task<void> {
    auto sender = [](Reactor* reactor_, Channel<int>* channel, int first, Random* random,
                     TaskScope* senders) -> Task<void> {
      for (int i = 0; i < 200; ++i) {
        if (random->Chance(0.2)) co_await Sleep(reactor_, absl::Milliseconds(1), StopToken());
        EXPECT_TRUE(co_await channel->Send(first + i, StopToken()));
        EXPECT_LE(channel->size(), channel->capacity());
      }
    };
    Random random(s);
    Channel<int> channel(r, 3);
    std::vector<int> received;
    TaskScope senders(r, StopToken());
    TaskScope receivers(r, StopToken());
    for (int k = 0; k < 5; ++k) senders.Spawn(sender(r, &channel, k * 1000, &random, &senders));
    for (int k = 0; k < 3; ++k) receivers.Spawn(ReceiveAll(&channel, StopToken(), &received));
    co_await senders.Join();
    channel.Close();
    co_await receivers.Join();
    EXPECT_EQ(received.size(), 1000u);
    std::sort(received.begin(), received.end());
    EXPECT_EQ(std::unique(received.begin(), received.end()), received.end());
  }(&reactor, seed));
}

TEST(Channel, OneSendersValuesKeepTheirOrder) {
  VirtualReactor reactor(3, /*shuffle=*/true);
  reactor.Run([](Reactor* r) -> Task<void> {
    Channel<int> channel(r, 2);
    std::vector<int> values, sent, received;
    for (int i = 0; i < 100; ++i) values.push_back(i);
    TaskScope scope(r, StopToken());
    scope.Spawn(SendAll(&channel, values, StopToken(), &sent));
    scope.Spawn(ReceiveAll(&channel, StopToken(), &received));
    while (sent.size() < 100) co_await Yield(r);
    channel.Close();
    co_await scope.Join();
    EXPECT_EQ(received, values);
  }(&reactor));
}

}  // namespace
}  // namespace headrace
