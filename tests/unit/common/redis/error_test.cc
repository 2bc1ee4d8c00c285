#include "common/redis/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/redis/outcome.h"
#include "common/redis/slot_map.h"
#include "common/redis/slots.h"

namespace headrace::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  std::string text;
  Error error;
  absl::StatusCode code;
};

TEST(RedisError, EveryWordOfTheServerHasItsClass) {
  using C = absl::StatusCode;
  const std::vector<Case> cases = {
      {"NOSCRIPT No matching script. Please use EVAL.", Error::kNoScript, C::kInternal},
      {"MOVED 3999 127.0.0.1:6381", Error::kMoved, C::kInternal},
      {"ASK 3999 127.0.0.1:6381", Error::kAsk, C::kInternal},
      {"TRYAGAIN Multiple keys request during rehashing of slot", Error::kTryAgain,
       C::kUnavailable},
      {"CROSSSLOT Keys in request don't hash to the same slot", Error::kCrossSlot, C::kInternal},
      {"READONLY You can't write against a read only replica.", Error::kNotMaster, C::kUnavailable},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
       Error::kNotMaster, C::kUnavailable},
      {"LOADING Redis is loading the dataset in memory", Error::kNotReady, C::kUnavailable},
      {"CLUSTERDOWN The cluster is down", Error::kNotReady, C::kUnavailable},
      {"NOREPLICAS Not enough good replicas to write.", Error::kNotReady, C::kUnavailable},
      {"MISCONF Redis is configured to save RDB snapshots, but ...", Error::kNotReady,
       C::kUnavailable},
      {"OOM command not allowed when used memory > 'maxmemory'.", Error::kOutOfMemory,
       C::kResourceExhausted},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
       Error::kBusy, C::kUnavailable},
      {"NOAUTH Authentication required.", Error::kConfiguration, C::kFailedPrecondition},
      {"WRONGPASS invalid username-password pair or user is disabled.", Error::kConfiguration,
       C::kFailedPrecondition},
      {"NOPERM this user has no permissions to run the 'get' command", Error::kConfiguration,
       C::kFailedPrecondition},
      {"DENIED Redis is running in protected mode because ...", Error::kConfiguration,
       C::kFailedPrecondition},
      {"ERR invalid password", Error::kConfiguration, C::kFailedPrecondition},
      {"ERR Client sent AUTH, but no password is set", Error::kConfiguration,
       C::kFailedPrecondition},
      {"ERR DB index is out of range", Error::kConfiguration, C::kFailedPrecondition},
      {"ERR max number of clients reached", Error::kNotReady, C::kUnavailable},
      {"ERR unknown command 'FOO'", Error::kServer, C::kInternal},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", Error::kServer,
       C::kInternal},
      {"", Error::kServer, C::kInternal},
      {"READONLYX", Error::kServer, C::kInternal},
  };
  for (const Case& c : cases) {
    const Error error = ClassifyErrorReply(c.text);
    EXPECT_EQ(error, c.error) << c.text << " is " << ErrorName(error);
    EXPECT_EQ(OutcomeOf(ErrorReply(c.text)).status().code(), c.code) << c.text;
  }
}

// F8: servers before 7 wrap what a script met into the text of another error.
TEST(RedisError, AnErrorInsideAScriptHasItsOwnClass) {
  EXPECT_EQ(ClassifyErrorReply("ERR Error running script (call to f_abc): @user_script:1: "
                               "@user_script: 1: -READONLY You can't write against a read only "
                               "replica."),
            Error::kNotMaster);
  EXPECT_EQ(ClassifyErrorReply("ERR Error running script (call to f_abc): @user_script:1: "
                               "@user_script: 1: -OOM command not allowed when used memory > "
                               "'maxmemory'."),
            Error::kOutOfMemory);
  EXPECT_EQ(ClassifyErrorReply("OOM command not allowed when used memory > 'maxmemory'. script: "
                               "abc, on @user_script:1."),
            Error::kOutOfMemory);
  EXPECT_EQ(ClassifyErrorReply("ERR user_script:1: attempt to index a nil value script: abc, on "
                               "@user_script:1."),
            Error::kServer);
  // The words of a person are not those of the server.
  EXPECT_EQ(ClassifyErrorReply("ERR value READONLY is not an integer"), Error::kServer);
}

// F7: only what surely did not run may be repeated without a thought.
TEST(RedisError, OnlyAnErrorOfAScriptMayHaveRun) {
  EXPECT_TRUE(OutcomeOf(ErrorReply("ERR in the middle of a script")).may_have_run);
  for (const char* text : {"NOSCRIPT x", "READONLY x", "LOADING x", "OOM x", "BUSY x",
                           "MOVED 1 a:1", "NOAUTH x", "CROSSSLOT x", "TRYAGAIN x"}) {
    EXPECT_FALSE(OutcomeOf(ErrorReply(text)).may_have_run) << text;
  }
}

TEST(RedisError, AConfigurationErrorSaysWhatToChange) {
  EXPECT_THAT(OutcomeOf(ErrorReply("NOAUTH Authentication required.")).text,
              HasSubstr("password_env=NAME"));
  EXPECT_THAT(OutcomeOf(ErrorReply("NOPERM no")).text, HasSubstr("ACL SETUSER"));
  EXPECT_THAT(OutcomeOf(ErrorReply("ERR SELECT is not allowed in cluster mode")).text,
              HasSubstr("take the number out"));
}

TEST(RedisError, RedirectionsAreReadOrIgnored) {
  const auto moved = ParseRedirect("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved.has_value());
  EXPECT_FALSE(moved->ask);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->host, "127.0.0.1");
  EXPECT_EQ(moved->port, 6381);
  EXPECT_TRUE(ParseRedirect("ASK 1 ::1:7000")->ask);
  EXPECT_EQ(ParseRedirect("ASK 1 ::1:7000")->host, "::1");
  EXPECT_EQ(ParseRedirect("MOVED 1 :7000")->host, "");
  EXPECT_EQ(ParseRedirect("MOVED 1 ?:7000")->host, "");
  for (const char* text :
       {"MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED 1 a",
        "MOVED 1 a:0", "MOVED 1 a:65536", "MOVED 1 a:1 b", "ERR 1 a:1", ""}) {
    EXPECT_FALSE(ParseRedirect(text).has_value()) << text;
  }
}

TEST(RedisSlots, Crc16OfTheSpecification) {
  EXPECT_EQ(Crc16("123456789"), 0x31C3);
  EXPECT_EQ(Crc16(""), 0);
}

TEST(RedisSlots, HashTagsOfTheSpecification) {
  // CLUSTER KEYSLOT of a real server.
  EXPECT_EQ(HashSlot("foo"), 12182);
  EXPECT_EQ(HashSlot("somekey"), 11058);
  EXPECT_EQ(HashSlot("{user1000}.following"), HashSlot("user1000"));
  EXPECT_EQ(HashSlot("foo{bar}{zap}"), HashSlot("bar"));
  EXPECT_EQ(HashSlot("foo{{bar}}zap"), HashSlot("{bar"));
  // An empty tag is none, and neither is one that does not end.
  EXPECT_EQ(HashSlot("foo{}{bar}"), Crc16("foo{}{bar}") % kSlotCount);
  EXPECT_EQ(HashSlot("foo{bar"), Crc16("foo{bar") % kSlotCount);
  EXPECT_EQ(HashSlot("}foo{a}"), HashSlot("a"));
}

Reply Node(const char* host, int port) {
  return ArrayReply({StringReply(host), IntegerReply(port), StringReply("id"), ArrayReply({})});
}

TEST(RedisSlots, TheRangesOfAClusterAreRead) {
  const Reply reply = ArrayReply({
      ArrayReply(
          {IntegerReply(0), IntegerReply(5460), Node("10.0.0.1", 7000), Node("10.0.0.4", 1)}),
      ArrayReply({IntegerReply(5461), IntegerReply(16383), Node("", 7001)}),
  });
  const auto ranges = ParseSlots(reply, "seed");
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  EXPECT_THAT(*ranges, ElementsAre(SlotRange{0, 5460, {"10.0.0.1", 7000}},
                                   SlotRange{5461, 16383, {"seed", 7001}}));
  EXPECT_TRUE(ParseSlots(ArrayReply({}), "seed")->empty());
}

TEST(RedisSlots, AnythingElseIsNoSlotMap) {
  const auto entry = [](int first, int last, Reply node) {
    return ArrayReply({ArrayReply({IntegerReply(first), IntegerReply(last), std::move(node)})});
  };
  for (const Reply& reply :
       {NilReply(), StringReply("x"), ArrayReply({StringReply("x")}), entry(-1, 5, Node("a", 1)),
        entry(5, 4, Node("a", 1)), entry(0, 16384, Node("a", 1)), entry(0, 1, Node("a", 0)),
        entry(0, 1, NilReply())}) {
    EXPECT_EQ(ParseSlots(reply, "s").status().code(), absl::StatusCode::kInvalidArgument)
        << reply.ToString();
  }
}

}  // namespace
}  // namespace headrace::redis
