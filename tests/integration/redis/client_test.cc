// The client against one real server, in good and bad days.
#include "common/redis/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

class RedisClient : public RedisTest {};

TEST_F(RedisClient, ACommandGetsItsReply) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        Outcome set = co_await client->Run({"SET", "key", std::string("a\0\r\nb", 5)},
                                           Within(reactor, kSoon));
        EXPECT_EQ(set.reply.ToString(), "+OK") << set.text;
        Outcome get = co_await client->Run({"GET", "key"}, Within(reactor, kSoon));
        EXPECT_EQ(get.reply, StringReply(absl::string_view("a\0\r\nb", 5)));
        Outcome nil = co_await client->Run({"GET", "nothing"}, Within(reactor, kSoon));
        EXPECT_TRUE(nil.ok() && nil.reply.is_nil());
        Outcome wrong = co_await client->Run({"INCR", "key"}, Within(reactor, kSoon));
        EXPECT_EQ(wrong.error, Error::kServer);
        EXPECT_THAT(wrong.text, HasSubstr("not an integer"));
        const Health health = client->health();
        EXPECT_TRUE(health.connected);
        EXPECT_EQ(health.place, s->host_port());
        EXPECT_EQ(health.calls, 4);
        EXPECT_EQ(health.round_trips, 4);
        co_await client->Stop();
      },
      &server);
}

Task<void> Echo(Client* client, Reactor* reactor, int number, int* right) {
  Outcome outcome = co_await client->Run({"ECHO", absl::StrCat(number)}, Within(reactor, kSoon));
  if (outcome.reply.text == absl::StrCat(number)) ++*right;
}

TEST_F(RedisClient, ConcurrentCallsShareWritesAndEachGetsItsOwnReply) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        EXPECT_TRUE((co_await client->WaitConnected(reactor->Now() + kSoon, {})).ok());
        int right = 0;
        TaskScope scope(reactor, StopToken());
        for (int i = 0; i < 2000; ++i) scope.Spawn(Echo(client.get(), reactor, i, &right));
        co_await scope.Join();
        EXPECT_EQ(right, 2000);
        EXPECT_LT(client->health().writes, 100);
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisClient, AUnixSocketAndADatabaseNumber) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, absl::StrCat("unix://", s->unix_path(), "?db=3"));
        co_await client->Run({"SET", "key", "three"}, Within(reactor, kSoon));
        EXPECT_EQ(client->health().place, s->unix_path());
        co_await client->Stop();
        EXPECT_TRUE(s->Admin({"GET", "key"}).is_nil());
        EXPECT_EQ(s->Admin({"INFO", "keyspace"}).text.find("db3:keys=1") != std::string::npos,
                  true);
      },
      &server);
}

TEST_F(RedisClient, ADatabaseThatTheServerLacksIsAConfigurationError) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url("", "/99"));
        const absl::Status status = co_await client->WaitConnected(reactor->Now() + kSoon, {});
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("fewer databases"));
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisClient, PasswordsAndUsersOfAccessLists) {
  RedisServer server({"--requirepass", "se cret"});
  server.AdminAs({"AUTH", "se cret"}, {"ACL", "SETUSER", "worker", "on", ">pw", "~quota*", "&*",
                                       "+@all", "-@admin", "-@dangerous"});
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        struct Case {
          std::string user_info;
          Error error;
          std::string says;
        };
        const std::vector<Case> cases = {
            {":se%20cret@", Error::kNone, ""},
            {"default:se%20cret@", Error::kNone, ""},
            {"worker:pw@", Error::kNone, ""},
            {"", Error::kConfiguration, "password_env"},
            {":wrong@", Error::kConfiguration, "check the user name and the password"},
            {"nobody:pw@", Error::kConfiguration, "check the user name and the password"},
        };
        for (const Case& c : cases) {
          SCOPED_TRACE(c.user_info);
          auto client = StartClient(reactor, s->url(c.user_info));
          const Outcome outcome =
              co_await client->Run({"SET", "quota:1", "x"}, Within(reactor, kSoon));
          EXPECT_EQ(outcome.error, c.error) << outcome.text;
          EXPECT_THAT(outcome.text, HasSubstr(c.says));
          EXPECT_FALSE(absl::StrContains(outcome.text, "pw") ||
                       absl::StrContains(outcome.text, "wrong"));
          co_await client->Stop();
        }
        // The user may not touch other keys: known only when it tries.
        auto client = StartClient(reactor, s->url("worker:pw@"));
        const Outcome outcome = co_await client->Run({"SET", "x", "1"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kConfiguration);
        EXPECT_THAT(outcome.text, HasSubstr("ACL SETUSER"));
        EXPECT_TRUE(client->health().connected);
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisClient, APasswordForAServerWithoutOneSaysSo) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url(":needless@"));
        const Outcome outcome = co_await client->Run({"PING"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kConfiguration);
        EXPECT_THAT(outcome.text, HasSubstr("take it out of the URL"));
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisClient, AServerThatAppearsLaterServesTheCallThatWaits) {
  RedisServer server;
  server.Kill();
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        const Outcome early =
            co_await client->Run({"PING"}, Within(reactor, absl::Milliseconds(100)));
        EXPECT_EQ(early.error, Error::kUnreachable);
        EXPECT_THAT(early.text, HasSubstr("Connection refused"));
        EXPECT_FALSE(early.may_have_run);
        EXPECT_FALSE(client->health().connected);
        s->Start();
        const Outcome late = co_await client->Run({"PING"}, Within(reactor, kSoon));
        EXPECT_EQ(late.reply.text, "PONG") << late.text;
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisClient, AKilledAndRestartedServerIsFoundAgain) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        for (int i = 0; i < 3; ++i) {
          s->Kill();
          s->Start();
          const Outcome outcome =
              co_await client->Run({"SET", "round", absl::StrCat(i)}, Within(reactor, kSoon, true));
          EXPECT_TRUE(outcome.ok()) << outcome.text;
        }
        EXPECT_EQ(client->health().connects, 4);
        EXPECT_EQ(s->Admin({"GET", "round"}).text, "2");
        co_await client->Stop();
      },
      &server);
}

}  // namespace
}  // namespace headrace::redis
