#include "common/rpc/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace headrace::rpc {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Token : public testing::Test {
 protected:
  ~Token() override { unlink(file_.c_str()); }

  absl::StatusOr<Secret> FromEnv(const char* value) {
    setenv("HEADRACE_TEST_TOKEN", value, 1);
    return ReadToken(TokenSource{"HEADRACE_TEST_TOKEN", ""});
  }
  absl::StatusOr<Secret> FromFile(const std::string& content) {
    std::ofstream(file_, std::ios::binary) << content;
    return ReadToken(TokenSource{"", file_});
  }

  const std::string file_ =
      testing::TempDir() + "headrace_token_" + std::to_string(static_cast<long>(getpid()));
};

TEST_F(Token, WhatIsMissingOrEmptyIsNamedByItsPlace) {
  unsetenv("HEADRACE_TEST_TOKEN");
  absl::StatusOr<Secret> token = ReadToken(TokenSource{"HEADRACE_TEST_TOKEN", ""});
  EXPECT_EQ(token.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(token.status().message(), HasSubstr("HEADRACE_TEST_TOKEN with the token is not set"));
  token = ReadToken(TokenSource{"", "/nowhere/token"});
  EXPECT_EQ(token.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(token.status().message(), HasSubstr("/nowhere/token"));
  EXPECT_THAT(FromEnv(" \n").status().message(), HasSubstr("holds no token"));
  EXPECT_THAT(FromFile("").status().message(), HasSubstr("holds no token"));
}

TEST_F(Token, WhatNoHeaderCanCarryIsRefusedWithoutBeingTold) {
  for (const std::string bad : {"secret token", "secret\x01", "secret\xc2\xa0", "sec\nret"}) {
    const absl::StatusOr<Secret> token = FromFile(bad);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kUnauthenticated) << bad;
    EXPECT_THAT(std::string(token.status().message()),
                AllOf(HasSubstr("not ASCII"), Not(HasSubstr("sec"))));
  }
  EXPECT_EQ(FromFile(std::string(4097, 'a')).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(FromFile(std::string(100'000, 'a')).status().code(),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(Token, WhiteSpaceAroundItIsNoPartOfIt) {
  EXPECT_EQ(FromEnv("  s3cret\r\n")->Reveal(), "s3cret");
  EXPECT_EQ(FromFile("s3cret\n")->Reveal(), "s3cret");
}

TEST_F(Token, NoSourceIsNoToken) {
  const absl::StatusOr<Secret> token = ReadToken(TokenSource{});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(token->empty());
}

TEST_F(Token, AReplacedTokenIsStillTakenForAWhileAndThenNoMore) {
  ASSERT_TRUE(FromFile("one").ok());
  for (const bool overlap : {true, false}) {
    std::ofstream(file_) << "one";
    TokenTimes times;
    times.reload = absl::ZeroDuration();
    times.overlap = overlap ? absl::Hours(1) : absl::ZeroDuration();
    const auto token = *LiveToken::Read(TokenSource{"", file_}, times);
    EXPECT_EQ(token->Get().Reveal(), "one");
    EXPECT_TRUE(token->Accepts("one"));
    EXPECT_FALSE(token->Accepts("two"));
    std::ofstream(file_) << "two";
    EXPECT_EQ(token->Get().Reveal(), "two");
    EXPECT_TRUE(token->Accepts("two"));
    EXPECT_EQ(token->Accepts("one"), overlap);
    std::ofstream(file_) << "three";
    EXPECT_TRUE(token->Accepts("three"));
    EXPECT_EQ(token->Accepts("two"), overlap);
    EXPECT_FALSE(token->Accepts("one")) << "only the last one is remembered";
    EXPECT_FALSE(token->Accepts(""));
  }
}

TEST_F(Token, AFileThatHoldsNoTokenAnyMoreChangesNothing) {
  ASSERT_TRUE(FromFile("one").ok());
  TokenTimes times;
  times.reload = absl::ZeroDuration();
  times.overlap = absl::ZeroDuration();
  const auto token = *LiveToken::Read(TokenSource{"", file_}, times);
  for (const std::string& content :
       std::vector<std::string>{"", " \n", "two words", std::string(5000, 'x')}) {
    std::ofstream(file_) << content;
    EXPECT_EQ(token->Get().Reveal(), "one");
    EXPECT_TRUE(token->Accepts("one"));
    EXPECT_FALSE(token->Accepts(content));
    EXPECT_FALSE(token->empty());
  }
  unlink(file_.c_str());
  EXPECT_TRUE(token->Accepts("one"));
}

TEST_F(Token, AFileIsNotReadAtEachUse) {
  ASSERT_TRUE(FromFile("one").ok());
  TokenTimes times;
  times.reload = absl::Hours(1);
  const auto token = *LiveToken::Read(TokenSource{"", file_}, times);
  std::ofstream(file_) << "two";
  EXPECT_EQ(token->Get().Reveal(), "one");
  EXPECT_TRUE(token->Accepts("one"));
}

TEST(SameSecret, OnlyEqualTextsAreTheSame) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "abcd"));
  EXPECT_FALSE(SameSecret("abc", ""));
}

}  // namespace
}  // namespace headrace::rpc
