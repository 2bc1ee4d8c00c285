#include "common/redis/protocol.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/redis/script.h"

namespace headrace::redis {
namespace {

// All replies in `bytes`, fed in pieces of `step`; "error" at the end when the reader refuses.
std::vector<std::string> ReadAll(const std::string& bytes, size_t step) {
  ReplyReader reader;
  std::vector<std::string> replies;
  for (size_t i = 0; i < bytes.size(); i += step) {
    if (!reader.Feed(absl::string_view(bytes).substr(i, step)).ok()) {
      replies.push_back("error");
      return replies;
    }
    while (true) {
      absl::StatusOr<std::optional<Reply>> reply = reader.Next();
      if (!reply.ok()) {
        replies.push_back("error");
        return replies;
      }
      if (!reply->has_value()) break;
      replies.push_back((*reply)->ToString());
    }
  }
  return replies;
}

TEST(RedisProtocol, ACommandIsAnArrayOfBulkStrings) {
  std::string wire;
  AppendCommand({"SET", std::string("k\0\r\n", 4), ""}, &wire);
  EXPECT_EQ(wire, std::string("*3\r\n$3\r\nSET\r\n$4\r\nk") + '\0' + "\r\n\r\n$0\r\n\r\n");
}

TEST(RedisProtocol, EveryTypeOfReplyWhereverTheBytesAreCut) {
  const std::string bytes =
      "+OK\r\n"
      "-ERR no\r\n"
      ":-9223372036854775808\r\n"
      "$-1\r\n"
      "$0\r\n\r\n"
      "$5\r\na\r\nbc\r\n"
      "*-1\r\n"
      "*0\r\n"
      "*3\r\n:1\r\n*2\r\n$1\r\nx\r\n-BAD\r\n$-1\r\n";
  const std::vector<std::string> expected = {"+OK",   "-ERR no", "-9223372036854775808",
                                             "(nil)", "\"\"",    "\"a\\r\\nbc\"",
                                             "(nil)", "[]",      "[1, [\"x\", -BAD], (nil)]"};
  for (size_t step = 1; step <= bytes.size(); ++step) {
    EXPECT_EQ(ReadAll(bytes, step), expected) << "step " << step;
  }
}

TEST(RedisProtocol, AnotherProtocolIsAnError) {
  for (const char* bytes : {"HTTP/1.1 400 Bad Request\r\n", "SSH-2.0-x\r\n", "220 mail\r\n", "\r\n",
                            "\x16\x03\x01", ":12x\r\n", "$x\r\n", "*x\r\n"}) {
    EXPECT_EQ(ReadAll(bytes, 100), std::vector<std::string>{"error"}) << bytes;
  }
}

// A count in a header costs nothing until its elements are there.
TEST(RedisProtocol, AHugeArrayIsRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(ReadAll("*2000000000\r\n", 100), std::vector<std::string>{"error"});
  EXPECT_EQ(ReadAll("*1048577\r\n", 100), std::vector<std::string>{"error"});
  EXPECT_EQ(ReadAll("*9223372036854775807\r\n", 100), std::vector<std::string>{"error"});
  // Nested ones count together.
  EXPECT_EQ(ReadAll("*2\r\n*1000000\r\n*1000000\r\n", 100), std::vector<std::string>{"error"});
}

TEST(RedisProtocol, ArraysNestSevenDeepAndNoDeeper) {
  const auto nested = [](int depth) {
    std::string bytes;
    for (int i = 0; i < depth; ++i) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  EXPECT_EQ(ReadAll(nested(7), 1000), std::vector<std::string>{"[[[[[[[1]]]]]]]"});
  EXPECT_EQ(ReadAll(nested(8), 1000), std::vector<std::string>{"error"});
  EXPECT_EQ(ReadAll(nested(100000), 1000), std::vector<std::string>{"error"});
}

TEST(RedisProtocol, AReplyLargerThanTheLimitIsRefusedWhileItComes) {
  ReplyReader reader;
  ASSERT_TRUE(reader.Feed("$500000000\r\n").ok());
  const std::string piece(1 << 20, 'x');
  absl::Status status;
  size_t fed = 0;
  while (status.ok() && fed < (64u << 20)) {
    status = reader.Feed(piece);
    if (status.ok()) {
      fed += piece.size();
      ASSERT_TRUE(reader.Next().ok());
    }
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(fed, ReplyReader::kMaxReplyBytes);
}

TEST(RedisProtocol, ManyRepliesInOneReadDoNotAddUpToTheLimit) {
  std::string bytes;
  for (int i = 0; i < 30; ++i) {
    const std::string big(1 << 20, 'y');
    absl::StrAppend(&bytes, "$", big.size(), "\r\n", big, "\r\n");
  }
  ReplyReader reader;
  int replies = 0;
  for (size_t i = 0; i < bytes.size(); i += 65536) {
    ASSERT_TRUE(reader.Feed(absl::string_view(bytes).substr(i, 65536)).ok());
    while (true) {
      auto reply = reader.Next();
      ASSERT_TRUE(reply.ok());
      if (!reply->has_value()) break;
      ++replies;
    }
  }
  EXPECT_EQ(replies, 30);
}

TEST(RedisProtocol, RandomBytesGiveRepliesOrAnError) {
  const uint64_t seed = 4711;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  const std::vector<std::string> pieces = {"*",        "$",           "+",      "-", ":",  "\r\n",
                                           "1",        "2",           "-1",     "a", "\r", "\n",
                                           "*1\r\n",   "$1\r\na\r\n", ":7\r\n", "%", "_",  "#t\r\n",
                                           ",1.5\r\n", ">2\r\n",      "~1\r\n"};
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (uint64_t n = random.Below(12); n > 0; --n) bytes += pieces[random.Below(pieces.size())];
    const std::vector<std::string> whole = ReadAll(bytes, 1000);
    EXPECT_EQ(ReadAll(bytes, 1), whole) << bytes;
  }
}

TEST(RedisReply, IntegersOfStringsAndNothingElse) {
  EXPECT_EQ(IntegerReply(-7).AsInteger(), -7);
  EXPECT_EQ(StringReply("1760000000123456").AsInteger(), 1760000000123456);
  EXPECT_EQ(StringReply("1.5").AsInteger(), std::nullopt);
  EXPECT_EQ(StringReply("").AsInteger(), std::nullopt);
  EXPECT_EQ(NilReply().AsInteger(), std::nullopt);
  EXPECT_EQ(ErrorReply("5").AsInteger(), std::nullopt);
  EXPECT_EQ(ArrayReply({IntegerReply(3)}).At(0).AsInteger(), 3);
  EXPECT_TRUE(ArrayReply({}).At(0).is_nil());
}

TEST(RedisReply, ALongReplyIsPrintedInShort) {
  std::vector<Reply> many(100000, StringReply(std::string(1000, 'x')));
  EXPECT_LT(ArrayReply(many).ToString().size(), 500u);
}

TEST(RedisScript, TheNameOfAScriptIsItsSha1) {
  // What SCRIPT LOAD "return 1" answers.
  EXPECT_EQ(Script("return 1").sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}

}  // namespace
}  // namespace headrace::redis
