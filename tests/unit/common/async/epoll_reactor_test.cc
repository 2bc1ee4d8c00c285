#include "common/async/epoll_reactor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/async/scope.h"
#include "common/async/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<EpollReactor> MakeReactor() {
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  HR_CHECK(reactor.ok()) << reactor.status();
  return *std::move(reactor);
}

// Two connected sockets, closed at the end.
struct SocketPair {
  SocketPair() { HR_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0); }
  ~SocketPair() {
    close(fds[0]);
    close(fds[1]);
  }
  void Write(const std::string& text) {
    HR_CHECK(write(fds[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::string Read() {
    char buffer[256];
    const ssize_t size = read(fds[0], buffer, sizeof(buffer));
    return size <= 0 ? "" : std::string(buffer, static_cast<size_t>(size));
  }
  int fds[2];
};

// Reads what arrives, and then does what the test wants.
struct Reader : FdHandler {
  explicit Reader(Reactor* r) : reactor(r), event(r) {}
  ~Reader() override { reactor->Unwatch(sockets.fds[0]); }
  absl::Status Watch() { return reactor->Watch(sockets.fds[0], EPOLLIN | EPOLLRDHUP, this); }
  void OnFdReady(uint32_t events) override {
    ++calls;
    last_events = events;
    text += sockets.Read();
    if (to_unwatch != nullptr) reactor->Unwatch(to_unwatch->sockets.fds[0]);
    event.Set();
  }

  Reactor* const reactor;
  SocketPair sockets;
  Event event;
  Reader* to_unwatch = nullptr;
  int calls = 0;
  uint32_t last_events = 0;
  std::string text;
};

// Ends a test that would hang.
constexpr absl::Duration kPatience = absl::Seconds(20);

TEST(EpollReactor, ReturnsAsSoonAsTheMainTaskEnds) {
  auto reactor = MakeReactor();
  const MonoTime start = reactor->Now();
  reactor->Run([]() -> Task<void> { co_return; }());
  EXPECT_LT(reactor->Now() - start, absl::Seconds(2));
}

TEST(EpollReactor, NothingPostedRunsAfterTheMainTaskHasEnded) {
  auto reactor = MakeReactor();
  bool ran = false;
  reactor->Run([](Reactor* r, bool* flag) -> Task<void> {
    r->Post([flag] { *flag = true; });
    co_return;
  }(reactor.get(), &ran));
  EXPECT_FALSE(ran);
  reactor->Run([](Reactor* r) -> Task<void> {
    co_await Yield(r);
    co_await Yield(r);
  }(reactor.get()));
  EXPECT_TRUE(ran);
}

TEST(EpollReactor, PostFromManyThreadsLosesNothingAndKeepsEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 5000;
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    std::vector<std::vector<int>> received(kThreads);
    int total = 0;
    Event all(r);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, r] {
        for (int i = 0; i < kPosts; ++i) {
          r->Post([&, t, i] {
            received[t].push_back(i);
            if (++total == kThreads * kPosts) all.Set();
          });
        }
      });
    }
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    EXPECT_TRUE(co_await all.Wait(patience.token()));
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<int>& values : received) {
      EXPECT_EQ(values.size(), static_cast<size_t>(kPosts));
      EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
    }
  }(reactor.get()));
}

TEST(EpollReactor, APostWakesALoopThatSleeps) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Event event(r);
    const MonoTime start = r->Now();
    for (int round = 0; round < 50; ++round) {
      std::thread thread([r, &event] { r->Post([&event] { event.Set(); }); });
      DeadlineSource patience(r, r->Now() + kPatience, StopToken());
      EXPECT_TRUE(co_await event.Wait(patience.token()));
      event.Reset();
      thread.join();
    }
    // One lost wake-up costs the longest sleep of the loop, 10 s.
    EXPECT_LT(r->Now() - start, absl::Seconds(9));
  }(reactor.get()));
}

TEST(EpollReactor, TellsWhenAnFdIsReadable) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Reader reader(r);
    EXPECT_TRUE(reader.Watch().ok());
    reader.sockets.Write("hello");
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    EXPECT_TRUE(co_await reader.event.Wait(patience.token()));
    EXPECT_EQ(reader.text, "hello");
  }(reactor.get()));
}

TEST(EpollReactor, TellsWhenThePeerHangsUp) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Reader reader(r);
    EXPECT_TRUE(reader.Watch().ok());
    shutdown(reader.sockets.fds[1], SHUT_WR);
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    EXPECT_TRUE(co_await reader.event.Wait(patience.token()));
    EXPECT_NE(reader.last_events & EPOLLRDHUP, 0u);
  }(reactor.get()));
}

TEST(EpollReactor, AfterUnwatchNotEvenAnEventOfTheSameBatchIsTold) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Reader a(r), b(r);
    a.to_unwatch = &b;
    b.to_unwatch = &a;
    EXPECT_TRUE(a.Watch().ok());
    EXPECT_TRUE(b.Watch().ok());
    a.sockets.Write("x");
    b.sockets.Write("x");
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    while (a.calls + b.calls == 0 && !patience.token().stopped()) co_await Yield(r);
    for (int i = 0; i < 5; ++i) co_await Yield(r);
    EXPECT_EQ(a.calls + b.calls, 1);
  }(reactor.get()));
}

// Closes another's socket and opens one that gets the same number, within one batch of events.
struct Replacer : FdHandler {
  explicit Replacer(Reactor* r) : reactor(r) {}
  void OnFdReady(uint32_t) override {
    ++calls;
    reactor->Unwatch(mine.fds[0]);
    if (other == nullptr || other->replaced >= 0 || other->calls > 0) return;
    const int old = other->mine.fds[0];
    reactor->Unwatch(old);
    close(old);
    other->mine.fds[0] = fcntl(mine.fds[1], F_DUPFD_CLOEXEC, old);
    other->replaced = old;
    // Nothing is sent to the new socket, so an event for it can only be the old one's.
    EXPECT_TRUE(reactor->Watch(other->mine.fds[0], EPOLLIN, other).ok());
  }
  Reactor* const reactor;
  SocketPair mine;
  Replacer* other = nullptr;
  int replaced = -1;
  int calls = 0;
};

TEST(EpollReactor, AnEventOfAClosedFdIsNotToldToTheNextWithItsNumber) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Replacer a(r), b(r);
    a.other = &b;
    b.other = &a;
    EXPECT_TRUE(r->Watch(a.mine.fds[0], EPOLLIN, &a).ok());
    EXPECT_TRUE(r->Watch(b.mine.fds[0], EPOLLIN, &b).ok());
    a.mine.Write("x");
    b.mine.Write("x");
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    while (a.calls + b.calls == 0 && !patience.token().stopped()) co_await Yield(r);
    for (int i = 0; i < 5; ++i) co_await Yield(r);
    EXPECT_EQ(a.calls + b.calls, 1);
    Replacer& replaced = a.replaced >= 0 ? a : b;
    EXPECT_EQ(replaced.mine.fds[0], replaced.replaced) << "the number was not reused";
    r->Unwatch(replaced.mine.fds[0]);
  }(reactor.get()));
}

TEST(EpollReactor, RewatchChangesWhatIsToldAndUnwatchOfAnUnknownFdIsNothing) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    Reader reader(r);
    EXPECT_TRUE(reader.Watch().ok());
    EXPECT_EQ(r->Watch(reader.sockets.fds[0], EPOLLIN, &reader).code(),
              absl::StatusCode::kAlreadyExists);
    r->Rewatch(reader.sockets.fds[0], EPOLLOUT, &reader);
    DeadlineSource patience(r, r->Now() + kPatience, StopToken());
    EXPECT_TRUE(co_await reader.event.Wait(patience.token()));
    EXPECT_EQ(reader.last_events, static_cast<uint32_t>(EPOLLOUT));
    r->Unwatch(12345);
  }(reactor.get()));
}

TEST(EpollReactor, TimersFireInOrderAndNotEarly) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    auto sleeper = [](Reactor* reactor_, int ms, std::vector<int>* out) -> Task<void> {
      const MonoTime start = reactor_->Now();
      co_await Sleep(reactor_, absl::Milliseconds(ms), StopToken());
      EXPECT_GE(reactor_->Now() - start, absl::Milliseconds(ms));
      out->push_back(ms);
    };
    std::vector<int> order;
    TaskScope scope(r, StopToken());
    for (int ms : {30, 1, 15, 0}) scope.Spawn(sleeper(r, ms, &order));
    co_await scope.Join();
    EXPECT_THAT(order, ElementsAre(0, 1, 15, 30));
  }(reactor.get()));
}

TEST(EpollReactor, TheLagOfATurnDoesNotCountItsSleepOrTheTimeBeforeTheLoop) {
  auto reactor = MakeReactor();
  reactor->Run([](Reactor* r) -> Task<void> {
    co_await Sleep(r, absl::Milliseconds(300), StopToken());
  }(reactor.get()));
  EXPECT_GT(reactor->turn_us().count(), 0);
  EXPECT_LT(reactor->turn_us().max(), 200'000);
}

TEST(EpollReactorDeathTest, AnFdThatIsStillWatchedAtTheEndIsABug) {
  EXPECT_DEATH(
      {
        SocketPair sockets;
        struct Nothing : FdHandler {
          void OnFdReady(uint32_t) override {}
        } nothing;
        auto reactor = MakeReactor();
        HR_CHECK(reactor->Watch(sockets.fds[0], EPOLLIN, &nothing).ok());
      },
      "1 watched fds outlive");
}

}  // namespace
}  // namespace headrace
