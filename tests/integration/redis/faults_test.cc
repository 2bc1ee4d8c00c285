// What goes wrong with one server: stalls, lost replies, read-only masters, full memory, scripts
// that hang, and servers that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/redis/client.h"
#include "tests/integration/redis/fake_server.h"
#include "tests/integration/redis/redis_server.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

ClientOptions Impatient() {
  ClientOptions options;
  options.command_timeout = absl::Milliseconds(400);
  options.connect_timeout = absl::Milliseconds(500);
  options.backoff = {.first_delay = absl::Milliseconds(10),
                     .max_delay = absl::Milliseconds(50),
                     .jitter = absl::Milliseconds(10)};
  return options;
}

class RedisFaults : public RedisTest {
 protected:
  using Body = Task<void> (*)(Reactor* reactor, RedisServer* server, Client* client);

  // Runs `body` with a started client of `server`, and stops the client.
  static void RunWithClient(RedisServer* server, Body body, ClientOptions options = {}) {
    const Case c = {server, body, std::move(options)};
    RunOnReactor(&RunCase, &c);
  }

 private:
  struct Case {
    RedisServer* server;
    Body body;
    ClientOptions options;
  };
  static Task<void> RunCase(Reactor* reactor, const Case* c) {
    auto client = StartClient(reactor, c->server->url(), c->options);
    co_await c->body(reactor, c->server, client.get());
    co_await client->Stop();
  }
};

Task<void> RunInto(Client* client, std::vector<std::string> argv, CallOptions options,
                   Outcome* outcome) {
  *outcome = co_await client->Run(std::move(argv), options);
}

Task<void> ExpectOwnReplies(Reactor* reactor, Client* client) {
  for (int i = 0; i < 10; ++i) {
    const Outcome own = co_await client->Run({"ECHO", absl::StrCat(i)}, Within(reactor, kSoon));
    EXPECT_EQ(own.reply.text, absl::StrCat(i)) << own.text;
  }
}

// F6: the script cache is emptied by a flush, a restart or a promotion.
TEST_F(RedisFaults, AFlushedScriptIsSentAgainOnce) {
  RedisServer server;
  RunWithClient(
      &server, +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        const Script script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        const auto add = [&](const char* amount) {
          return client->Eval(&script, {"{pool}:n"}, {amount},
                              Within(reactor, kSoon, /*idempotent=*/true));
        };
        EXPECT_EQ((co_await add("1")).reply, IntegerReply(1));
        EXPECT_EQ(client->health().round_trips, 2);
        EXPECT_EQ((co_await add("2")).reply, IntegerReply(3));
        EXPECT_EQ(client->health().round_trips, 3);
        s->Admin({"SCRIPT", "FLUSH"});
        EXPECT_EQ((co_await add("3")).reply, IntegerReply(6));
        EXPECT_EQ((co_await add("4")).reply, IntegerReply(10));
        const Health health = client->health();
        EXPECT_EQ(health.script_loads, 2);
        EXPECT_EQ(health.round_trips, 6);
        EXPECT_EQ(health.calls, 4);
        s->Kill();
        s->Start();
        EXPECT_EQ((co_await add("5")).reply, IntegerReply(5));
      });
}

TEST_F(RedisFaults, AScriptThatFailsHalfwayMayHaveRun) {
  RedisServer server;
  RunWithClient(
      &server, +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        const Script script("redis.call('SET', KEYS[1], 'half') return nothing.at_all");
        const Outcome outcome = co_await client->Eval(&script, {"k"}, {}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.error, Error::kServer);
        EXPECT_TRUE(outcome.may_have_run);
        EXPECT_EQ(s->Admin({"GET", "k"}).text, "half");
      });
}

// hiredis hands the reply of a command that timed out to the next one ("PING -> LATE").
TEST_F(RedisFaults, ALateReplyGoesToNobodyElse) {
  RedisServer server;
  RunWithClient(
      &server, +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        // The caller gives up, the connection stays: its reply comes and is dropped.
        s->Pause();
        const Outcome late =
            co_await client->Run({"ECHO", "LATE"}, Within(reactor, absl::Milliseconds(50)));
        EXPECT_EQ(late.error, Error::kDeadline);
        EXPECT_TRUE(late.may_have_run);
        s->Resume();
        co_await ExpectOwnReplies(reactor, client);
        EXPECT_EQ(client->health().connects, 1);
        EXPECT_EQ(client->health().timeouts, 0);
      });
}

TEST_F(RedisFaults, AStallOfTwoSecondsLosesTheConnectionAndMixesNothing) {
  RedisServer server;
  RunWithClient(
      &server,
      +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        s->Pause();
        const MonoTime start = reactor->Now();
        const Outcome lost = co_await client->Run({"INCR", "once"}, Within(reactor, kSoon));
        EXPECT_EQ(lost.error, Error::kLost);
        EXPECT_TRUE(lost.may_have_run);
        EXPECT_THAT(lost.text, HasSubstr("did not answer within 400ms"));
        EXPECT_LT(reactor->Now() - start, absl::Seconds(1));
        EXPECT_FALSE(client->health().connected);
        Outcome waits;
        TaskScope scope(reactor, StopToken());
        scope.Spawn(RunInto(client, {"INCR", "repeated"}, Within(reactor, kSoon, true), &waits));
        co_await Sleep(reactor, start + absl::Seconds(2), StopToken());
        s->Resume();
        co_await scope.Join();
        EXPECT_TRUE(waits.ok()) << waits.text;
        co_await ExpectOwnReplies(reactor, client);
        // It was in the socket of the stalled server, which ran it: lost does not mean undone.
        EXPECT_EQ(s->Admin({"GET", "once"}).text, "1");
        EXPECT_GE(client->health().timeouts, 1);
        EXPECT_GE(client->health().lost, 1);
      },
      Impatient());
}

TEST_F(RedisFaults, ASlowServerIsWaitedFor) {
  RedisServer server;
  RunWithClient(
      &server, +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        const Outcome slept =
            co_await client->Run({"DEBUG", "SLEEP", "0.4"}, Within(reactor, kSoon));
        EXPECT_TRUE(slept.ok()) << slept.text;
        EXPECT_EQ(client->health().connects, 1);
      });
}

// A debugger, a suspended machine, a long turn: the timers are due before the sockets are read.
TEST_F(RedisFaults, APauseOfOurOwnProcessIsNotTakenForAStallOfTheServer) {
  RedisServer server;
  RunWithClient(
      &server,
      +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        Outcome outcome;
        TaskScope scope(reactor, StopToken());
        scope.Spawn(RunInto(client, {"PING"}, Within(reactor, kSoon), &outcome));
        // Sent at the end of this turn.
        co_await Yield(reactor);
        co_await Yield(reactor);
        absl::SleepFor(absl::Milliseconds(600));
        co_await scope.Join();
        EXPECT_TRUE(outcome.ok()) << outcome.text;
        EXPECT_EQ(client->health().timeouts, 0);
      },
      Impatient());
}

// F7: what may have run is not run again, unless the caller says that this does no harm.
TEST_F(RedisFaults, OnlyAnIdempotentCallIsRepeatedAfterItsReplyWasLost) {
  std::atomic<int> seen = 0;
  FakeServer server([&seen](const std::vector<std::string>& argv) -> std::string {
    if (argv[0] != "INCR") return LoginReply(argv);
    return ++seen % 2 == 1 ? "close" : ":1\r\n";
  });
  RunOnReactor(
      +[](Reactor* reactor, FakeServer* s, std::atomic<int>* count) -> Task<void> {
        auto client = StartClient(reactor, s->url(), Impatient());
        const Outcome once = co_await client->Run({"INCR", "a"}, Within(reactor, kSoon));
        EXPECT_EQ(once.error, Error::kLost);
        EXPECT_TRUE(once.may_have_run);
        EXPECT_EQ(*count, 1);
        *count = 0;
        const Outcome again = co_await client->Run({"INCR", "a"}, Within(reactor, kSoon, true));
        EXPECT_TRUE(again.ok()) << again.text;
        EXPECT_EQ(*count, 2);
        co_await client->Stop();
      },
      &server, &seen);
}

TEST_F(RedisFaults, ALostCallThatFindsNoServerAnyMoreStillMayHaveRun) {
  RedisServer server;
  RunWithClient(
      &server,
      +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        s->Pause();
        const Outcome outcome = co_await client->Run(
            {"INCR", "n"}, Within(reactor, absl::Milliseconds(900), /*idempotent=*/true));
        EXPECT_EQ(outcome.error, Error::kUnreachable);
        EXPECT_TRUE(outcome.may_have_run);
        s->Resume();
      },
      Impatient());
}

// F8: a demoted master keeps its sockets and refuses all writes.
TEST_F(RedisFaults, AMasterThatBecameAReplicaIsLeftUntilItIsMasterAgain) {
  RedisServer server;
  RedisServer other;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s, RedisServer* o) -> Task<void> {
        const Script script("return redis.call('SET', KEYS[1], ARGV[1])");
        auto client = StartClient(reactor, s->url(), Impatient());
        EXPECT_TRUE((co_await client->Eval(&script, {"k"}, {"1"}, Within(reactor, kSoon))).ok());
        s->Admin({"REPLICAOF", "127.0.0.1", absl::StrCat(o->port())});
        const Outcome refused =
            co_await client->Eval(&script, {"k"}, {"2"}, Within(reactor, absl::Milliseconds(1000)));
        EXPECT_EQ(refused.error, Error::kNotMaster) << refused.text;
        EXPECT_FALSE(refused.may_have_run);
        EXPECT_FALSE(client->health().connected);
        EXPECT_THAT(client->health().last_error, HasSubstr("a replica of 127.0.0.1"));
        Outcome waits;
        TaskScope scope(reactor, StopToken());
        scope.Spawn(RunInto(client.get(), {"SET", "k", "3"}, Within(reactor, kSoon), &waits));
        co_await Sleep(reactor, absl::Milliseconds(50), StopToken());
        s->Admin({"REPLICAOF", "NO", "ONE"});
        co_await scope.Join();
        EXPECT_TRUE(waits.ok()) << waits.text;
        EXPECT_EQ(s->Admin({"GET", "k"}).text, "3");
        co_await client->Stop();
      },
      &server, &other);
}

TEST_F(RedisFaults, AMasterWithoutTheReplicasItNeedsIsTriedUntilTheDeadline) {
  RedisServer server;
  server.Admin({"CONFIG", "SET", "min-replicas-to-write", "1"});
  RunWithClient(
      &server,
      +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        const Outcome refused =
            co_await client->Run({"SET", "k", "1"}, Within(reactor, absl::Milliseconds(1000)));
        EXPECT_EQ(refused.error, Error::kNotReady);
        EXPECT_THAT(refused.text, HasSubstr("NOREPLICAS"));
        EXPECT_FALSE(refused.may_have_run);
        // With pauses: not thousands of connections.
        EXPECT_LT(client->health().connects, 60);
        s->Admin({"CONFIG", "SET", "min-replicas-to-write", "0"});
        const Outcome set = co_await client->Run({"SET", "k", "1"}, Within(reactor, kSoon));
        EXPECT_TRUE(set.ok()) << set.text;
      },
      Impatient());
}

// F11: writes fail while reads work.
TEST_F(RedisFaults, FullMemoryHasItsOwnClass) {
  RedisServer server;
  RunWithClient(
      &server, +[](Reactor* reactor, RedisServer* s, Client* client) -> Task<void> {
        const Script script("return redis.call('SET', KEYS[1], ARGV[1])");
        co_await client->Run({"SET", "k", "1"}, Within(reactor, kSoon));
        s->Admin({"CONFIG", "SET", "maxmemory", "1"});
        const Outcome set = co_await client->Run({"SET", "k", "2"}, Within(reactor, kSoon));
        EXPECT_EQ(set.error, Error::kOutOfMemory) << set.text;
        EXPECT_EQ(set.status().code(), absl::StatusCode::kResourceExhausted);
        const Outcome eval = co_await client->Eval(&script, {"k"}, {"2"}, Within(reactor, kSoon));
        EXPECT_EQ(eval.error, Error::kOutOfMemory) << eval.text;
        const Outcome get = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
        EXPECT_EQ(get.reply.text, "1");
        EXPECT_TRUE(client->health().connected);
      });
}

TEST_F(RedisFaults, AScriptThatHangsMakesTheServerBusy) {
  RedisServer server({"--lua-time-limit", "50"});
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        auto culprit = StartClient(reactor, s->url());
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        co_await culprit->Run({"PING"}, Within(reactor, kSoon));
        Outcome hangs;
        TaskScope scope(reactor, StopToken());
        scope.Spawn(RunInto(culprit.get(), {"EVAL", "while true do end", "0"},
                            Within(reactor, kSoon), &hangs));
        co_await Sleep(reactor, absl::Milliseconds(20), StopToken());
        const Outcome busy = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
        EXPECT_EQ(busy.error, Error::kBusy) << busy.text;
        EXPECT_FALSE(busy.may_have_run);
        const Outcome killed = co_await client->Run({"SCRIPT", "KILL"}, Within(reactor, kSoon));
        EXPECT_TRUE(killed.ok()) << killed.text;
        co_await scope.Join();
        EXPECT_EQ(hangs.error, Error::kServer) << hangs.text;
        const Outcome get = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
        EXPECT_TRUE(get.ok());
        co_await client->Stop();
        co_await culprit->Stop();
      },
      &server);
}

TEST_F(RedisFaults, AServerWithoutRoomForAnotherClientSaysSo) {
  RedisServer server;
  server.Admin({"CONFIG", "SET", "maxclients", "1"});
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto first = StartClient(reactor, s->url());
        EXPECT_TRUE((co_await first->Run({"PING"}, Within(reactor, kSoon))).ok());
        auto second = StartClient(reactor, s->url(), Impatient());
        const Outcome refused =
            co_await second->Run({"PING"}, Within(reactor, absl::Milliseconds(800)));
        EXPECT_EQ(refused.error, Error::kUnreachable);
        EXPECT_THAT(refused.text, HasSubstr("max number of clients"));
        co_await first->Stop();
        EXPECT_TRUE((co_await second->Run({"PING"}, Within(reactor, kSoon))).ok());
        co_await second->Stop();
      },
      &server);
}

TEST_F(RedisFaults, AFullQueueRefusesAtOnce) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        ClientOptions options;
        options.max_pending = 10;
        auto client = StartClient(reactor, s->url(), options);
        TaskScope scope(reactor, StopToken());
        // First while it is not connected yet, then while the server is stopped.
        for (int round = 0; round < 2; ++round) {
          std::vector<Outcome> outcomes(20);
          for (Outcome& outcome : outcomes) {
            scope.Spawn(RunInto(client.get(), {"PING"}, Within(reactor, absl::Milliseconds(100)),
                                &outcome));
          }
          co_await scope.WaitIdle();
          int overloaded = 0;
          for (const Outcome& outcome : outcomes) {
            overloaded += outcome.error == Error::kOverloaded;
            EXPECT_FALSE(outcome.error == Error::kOverloaded && outcome.may_have_run);
          }
          EXPECT_GE(overloaded, 10);
          if (round == 0) s->Pause();
        }
        s->Resume();
        co_await scope.Join();
        co_await client->Stop();
      },
      &server);
}

TEST_F(RedisFaults, AStopEndsACallAtOnceAndTheClientEndsTheRest) {
  RedisServer server;
  RunOnReactor(
      +[](Reactor* reactor, RedisServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url());
        co_await client->Run({"PING"}, Within(reactor, kSoon));
        s->Pause();
        StopSource source;
        CallOptions options = Within(reactor, kSoon);
        options.stop = source.token();
        Outcome stopped;
        Outcome lost;
        TaskScope scope(reactor, StopToken());
        scope.Spawn(RunInto(client.get(), {"PING"}, options, &stopped));
        scope.Spawn(RunInto(client.get(), {"PING"}, Within(reactor, kSoon), &lost));
        co_await Sleep(reactor, absl::Milliseconds(10), StopToken());
        const MonoTime start = reactor->Now();
        source.RequestStop(StopCode::kUser);
        co_await client->Stop();
        co_await scope.Join();
        EXPECT_LT(reactor->Now() - start, absl::Seconds(1));
        EXPECT_EQ(stopped.error, Error::kStopped);
        EXPECT_EQ(lost.error, Error::kLost);
        const Outcome after = co_await client->Run({"PING"}, Within(reactor, kSoon));
        EXPECT_EQ(after.error, Error::kStopped);
        s->Resume();
      },
      &server);
}

TEST_F(RedisFaults, AnotherProtocolASilentServerAndUnaskedRepliesAreSurvived) {
  struct Case {
    std::string greeting;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "not the protocol of Redis"},
      {"", "does not answer the login"},
      {"-DENIED Redis is running in protected mode\r\n", "protected mode"},
      {":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", ""},
      {"*2000000000\r\n", "not the protocol of Redis"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.greeting);
    FakeServer server([](const std::vector<std::string>&) { return std::string(); }, c.greeting);
    RunOnReactor(
        +[](Reactor* reactor, FakeServer* s, const Case* expected) -> Task<void> {
          auto client = StartClient(reactor, s->url(), Impatient());
          const Outcome outcome =
              co_await client->Run({"PING"}, Within(reactor, absl::Milliseconds(700)));
          EXPECT_FALSE(outcome.ok());
          EXPECT_THAT(outcome.text, HasSubstr(expected->says));
          co_await client->Stop();
        },
        &server, &c);
  }
}

TEST_F(RedisFaults, AServerThatLoadsItsDataIsWaitedFor) {
  std::atomic<int> loading = 3;
  FakeServer server([&loading](const std::vector<std::string>& argv) -> std::string {
    if (argv[0] != "GET") return LoginReply(argv);
    return loading-- > 0 ? "-LOADING Redis is loading the dataset in memory\r\n" : "$1\r\nx\r\n";
  });
  RunOnReactor(
      +[](Reactor* reactor, FakeServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url(), Impatient());
        const Outcome outcome = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.reply, StringReply("x")) << outcome.text;
        EXPECT_EQ(s->connections(), 4);
        co_await client->Stop();
      },
      &server);
}

// Managed servers and access lists often leave ROLE and CLIENT out.
TEST_F(RedisFaults, AServerThatKnowsNoRoleIsUsed) {
  FakeServer server([](const std::vector<std::string>& argv) -> std::string {
    if (argv[0] == "ROLE")
      return "-NOPERM this user has no permissions to run the 'role' command\r\n";
    if (argv[0] == "CLIENT") return "-ERR unknown command 'CLIENT'\r\n";
    return "+PONG\r\n";
  });
  RunOnReactor(
      +[](Reactor* reactor, FakeServer* s) -> Task<void> {
        auto client = StartClient(reactor, s->url(), Impatient());
        const Outcome outcome = co_await client->Run({"PING"}, Within(reactor, kSoon));
        EXPECT_EQ(outcome.reply.text, "PONG") << outcome.text;
        co_await client->Stop();
      },
      &server);
}

}  // namespace
}  // namespace headrace::redis
