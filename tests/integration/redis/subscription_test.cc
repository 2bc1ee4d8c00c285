// Hints of channels: across restarts, with slow readers, with rights that lack.
#include "common/redis/subscription.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/async/wait.h"
#include "common/redis/client.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

class RedisSubscription : public RedisTest {};

// The next hint, within 5 s.
Task<Hint> Next(Reactor* reactor, std::shared_ptr<Subscription> hints) {
  DeadlineSource limit(reactor, reactor->Now() + kSoon, StopToken());
  std::optional<Hint> hint = co_await Subscription::Next(hints, limit.token());
  EXPECT_TRUE(hint.has_value()) << "no hint within 5 s";
  co_return hint.value_or(Hint());
}

TEST_F(RedisSubscription, HintsComeAgainAfterARestart) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        auto hints = client->Subscribe({"gate", "settle"});
        Hint hint = co_await Next(reactor, hints);
        EXPECT_TRUE(hint.missed && hint.channel.empty());
        EXPECT_TRUE(hints->live());
        co_await client->Run({"PUBLISH", "settle", "7"}, Within(reactor, kSoon));
        hint = co_await Next(reactor, hints);
        EXPECT_EQ(hint.channel, "settle");
        EXPECT_EQ(hint.payload, "7");
        EXPECT_FALSE(hint.missed);
        for (int i = 0; i < 2; ++i) {
          s->Kill();
          s->Start();
          hint = co_await Next(reactor, hints);
          EXPECT_TRUE(hint.missed && hint.channel.empty());
          s->Admin({"PUBLISH", "gate", absl::StrCat(i)});
          hint = co_await Next(reactor, hints);
          EXPECT_EQ(hint.payload, absl::StrCat(i));
          EXPECT_FALSE(hint.missed);
        }
        hints->Cancel();
        const std::optional<Hint> end = co_await Subscription::Next(hints, StopToken());
        EXPECT_FALSE(end.has_value());
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisSubscription, ASlowReaderIsToldThatItMissedSome) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        auto hints = client->Subscribe({"gate"});
        co_await Next(reactor, hints);
        for (size_t i = 0; i < Subscription::kMaxHints + 10; ++i) {
          co_await client->Run({"PUBLISH", "gate", absl::StrCat(i)}, Within(reactor, kSoon));
        }
        // The last ones may still be on their way.
        co_await Sleep(reactor, absl::Milliseconds(50), StopToken());
        Hint hint = co_await Next(reactor, hints);
        EXPECT_EQ(hint.payload, "0");
        EXPECT_TRUE(hint.missed);
        hint = co_await Next(reactor, hints);
        EXPECT_EQ(hint.payload, "1");
        EXPECT_FALSE(hint.missed);
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisSubscription, AChannelThatTheUserMayNotReadIsNamed) {
  RedisServer server;
  server.Admin({"ACL", "SETUSER", "worker", "on", ">pw", "~*", "&mine", "+@all"});
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url("worker:pw@"));
        auto hints = client->Subscribe({"gate"});
        const MonoTime limit = reactor->Now() + kSoon;
        while (hints->last_error().empty() && reactor->Now() < limit) {
          co_await Sleep(reactor, absl::Milliseconds(2), StopToken());
        }
        EXPECT_THAT(hints->last_error(), HasSubstr("NOPERM"));
        EXPECT_FALSE(hints->live());
        s->Admin({"ACL", "SETUSER", "worker", "&gate"});
        const Hint hint = co_await Next(reactor, hints);
        EXPECT_TRUE(hint.missed);
        co_await client->Stop();
      },
      &server);
}

}  // namespace
}  // namespace headrace::redis
