#include "common/redis/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace headrace::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Url Parse(const std::string& text) {
  absl::StatusOr<Url> url = ParseUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << url.status();
  return url.ok() ? *std::move(url) : Url();
}

std::string ErrorOf(const std::string& text) {
  absl::StatusOr<Url> url = ParseUrl(text);
  EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(url.status().message());
}

TEST(RedisUrl, OneServerWithDefaults) {
  const Url url = Parse("redis://Localhost");
  EXPECT_EQ(url.mode, Url::Mode::kSingle);
  EXPECT_FALSE(url.tls);
  EXPECT_THAT(url.hosts, ElementsAre(HostPort{"localhost", 6379}));
  EXPECT_EQ(url.db, 0);
  EXPECT_TRUE(url.password.empty());
  EXPECT_EQ(url.ToString(), "redis://localhost:6379");
}

TEST(RedisUrl, UserPasswordPortAndDatabase) {
  const Url url = Parse("rediss://us%3Aer:p%40ss%2Fw%25@10.0.0.1:7000/12");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.user, "us:er");
  EXPECT_EQ(url.password.text.Reveal(), "p@ss/w%");
  EXPECT_THAT(url.hosts, ElementsAre(HostPort{"10.0.0.1", 7000}));
  EXPECT_EQ(url.db, 12);
  EXPECT_EQ(url.ToString(), "rediss://us%3Aer:***@10.0.0.1:7000/12");
}

TEST(RedisUrl, ThePasswordMayHoldAnAtSignOrAColon) {
  const Url url = Parse("redis://:a@b:c@host");
  EXPECT_EQ(url.user, "");
  EXPECT_EQ(url.password.text.Reveal(), "a@b:c");
  EXPECT_EQ(url.ToString(), "redis://:***@host:6379");
}

TEST(RedisUrl, AnIpv6AddressStandsInBrackets) {
  EXPECT_THAT(Parse("redis://[::1]:7/1").hosts, ElementsAre(HostPort{"::1", 7}));
  EXPECT_THAT(Parse("redis://[2001:db8::2]").hosts, ElementsAre(HostPort{"2001:db8::2", 6379}));
  EXPECT_EQ(Parse("redis://[::1]:7/1").ToString(), "redis://[::1]:7/1");
  EXPECT_THAT(ErrorOf("redis://::1"), HasSubstr("a host is missing"));
  EXPECT_THAT(ErrorOf("redis://fe80::1"), HasSubstr("brackets"));
  EXPECT_THAT(ErrorOf("redis://[::1"), HasSubstr("without ]"));
  EXPECT_THAT(ErrorOf("redis://[::1]7"), HasSubstr("only a port may follow"));
  EXPECT_THAT(ErrorOf("redis://[::1]:"), HasSubstr("no port"));
  EXPECT_THAT(ErrorOf("redis://[host]"), HasSubstr("no IPv6 address"));
}

TEST(RedisUrl, AUnixSocket) {
  const Url url = Parse("unix:///run/redis%20a/r.sock?db=3&user=worker&password_env=PW");
  EXPECT_EQ(url.unix_path, "/run/redis a/r.sock");
  EXPECT_TRUE(url.hosts.empty());
  EXPECT_EQ(url.db, 3);
  EXPECT_EQ(url.user, "worker");
  EXPECT_EQ(url.password.env, "PW");
  EXPECT_EQ(url.ToString(), "unix:///run/redis%20a/r.sock?db=3&user=worker&password_env=PW");
  EXPECT_EQ(Parse("redis+unix:///a.sock").unix_path, "/a.sock");
  EXPECT_THAT(ErrorOf("unix://relative.sock"), HasSubstr("absolute"));
  EXPECT_THAT(ErrorOf("unix://"), HasSubstr("absolute"));
}

TEST(RedisUrl, SentinelsAndTheNameOfTheirMaster) {
  const Url url = Parse("redis+sentinel://u:p@s1,s2:5000,[::2]/my%20master/4?sentinel_user=x");
  EXPECT_EQ(url.mode, Url::Mode::kSentinel);
  EXPECT_THAT(url.hosts,
              ElementsAre(HostPort{"s1", 26379}, HostPort{"s2", 5000}, HostPort{"::2", 26379}));
  EXPECT_EQ(url.master, "my master");
  EXPECT_EQ(url.db, 4);
  EXPECT_EQ(url.ToString(),
            "redis+sentinel://u:***@s1:26379,s2:5000,[::2]:26379/my%20master/4?sentinel_user=x");
  EXPECT_THAT(ErrorOf("redis+sentinel://s1"), HasSubstr("name of the master is missing"));
  EXPECT_THAT(ErrorOf("redis+sentinel://s1//2"), HasSubstr("name of the master is missing"));
}

TEST(RedisUrl, AClusterHasOneDatabase) {
  const Url url = Parse("rediss+cluster://a,b:7001");
  EXPECT_EQ(url.mode, Url::Mode::kCluster);
  EXPECT_TRUE(url.tls);
  EXPECT_THAT(url.hosts, ElementsAre(HostPort{"a", 6379}, HostPort{"b", 7001}));
  Parse("redis+cluster://a/0");
  EXPECT_THAT(ErrorOf("redis+cluster://a/1"), HasSubstr("only database 0"));
}

TEST(RedisUrl, WhatDoesNotFitTogetherIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no ://"},
      {"localhost:6379", "no ://"},
      {"http://host", "begins with redis://"},
      {"redis+foo://host", "begins with redis://"},
      {"redis://", "a host is missing"},
      {"redis://:6379", "a host is missing"},
      {"redis://ho st", "space"},
      {"redis://ho\nst", "control character"},
      {"redis://host:0", "1 to 65535"},
      {"redis://host:65536", "1 to 65535"},
      {"redis://host:", "no port"},
      {"redis://host:1x", "1 to 65535"},
      {"redis://host:-1", "1 to 65535"},
      {"redis://a,b", "several hosts"},
      {"redis://host/one", "the database is a number"},
      {"redis://host/-1", "the database is a number"},
      {"redis://host/1/2", "the database is a number"},
      {"redis://host/1?db=2", "two databases"},
      {"redis://host?password=x", "password_env=NAME"},
      {"redis://host?timeout=3", "unknown parameter"},
      {"redis://host?user=", "user is empty"},
      {"redis://:x@host?password_env=Y", "more than one source"},
      {"redis://host?password_env=Y&password_file=/z", "more than one source"},
      {"redis://u@host?user=v", "two values for user"},
      {"redis://host?ca_file=/ca.pem", "belong to rediss"},
      {"rediss://host?cert_file=/c.pem", "belong together"},
      {"redis://host?sentinel_user=x", "belongs to redis+sentinel"},
      {"redis://host%zz", "no host name has"},
      {"redis://%zz@host", "two hexadecimal digits"},
      {"redis://:%4@host", "two hexadecimal digits"},
      {"redis://:%00@host", "zero byte"},
      {"redis://host#1", "%23"},
  };
  for (const auto& [text, says] : cases) EXPECT_THAT(ErrorOf(text), HasSubstr(says)) << text;
}

// Special characters that were not encoded cut the URL at the wrong place; the message must not
// show what lies on the other side.
TEST(RedisUrl, AnErrorNeverShowsAPieceOfThePassword) {
  for (const char* text :
       {"redis://:hush/hush@host", "redis://:hush?hush@host", "redis://:hush#hush@host",
        "redis://user:hush hush@host", "redis://user:hush%zz@host", "redis://:hush@host:badport",
        "redis://:hush@bad_host!", "redis://a:hush:hush@", "redis://user:hush?user=a",
        "redis://host?hush", "redis://host?hush=hush", "redis://:hush@a,b", "redis://:hush/",
        "redis+sentinel://:hush@host"}) {
    const std::string error = ErrorOf(text);
    EXPECT_FALSE(absl::StrContains(error, "hush")) << text << " gives " << error;
  }
}

TEST(RedisUrl, APrintedUrlParsesToItself) {
  for (const char* text :
       {"redis://host:1/2", "rediss://u@host:1?password_env=PW&ca_file=/a%20b/c",
        "redis+cluster://a:1,b:2", "redis+sentinel://[::1]:3/m/7?sentinel_password_file=/x",
        "unix:///a/b?db=1", "rediss://h:1?cert_file=/c&key_file=/k"}) {
    EXPECT_EQ(Parse(text).ToString(), text);
  }
}

// Whatever comes in: an answer, and what is accepted prints to something that is accepted.
TEST(RedisUrl, RandomTextGivesAUrlOrAnError) {
  const uint64_t seed = 20261129;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  const std::vector<std::string> pieces = {"redis",
                                           "rediss",
                                           "+sentinel",
                                           "+cluster",
                                           "unix",
                                           "://",
                                           "/",
                                           ":",
                                           "@",
                                           "?",
                                           "&",
                                           "=",
                                           ",",
                                           "[",
                                           "]",
                                           "::1",
                                           "host",
                                           "%",
                                           "%41",
                                           "%zz",
                                           "6379",
                                           "99999",
                                           "db",
                                           "user",
                                           "password_env",
                                           "password_file",
                                           "ca_file",
                                           "m",
                                           "#",
                                           " ",
                                           "\x80",
                                           std::string(1, '\0'),
                                           "-",
                                           "."};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = random.Chance(0.7) ? "redis://" : "";
    for (uint64_t n = random.Below(10); n > 0; --n) text += pieces[random.Below(pieces.size())];
    const absl::StatusOr<Url> url = ParseUrl(text);
    if (!url.ok()) continue;
    ++accepted;
    const absl::StatusOr<Url> again = ParseUrl(url->ToString());
    ASSERT_TRUE(again.ok()) << text << " -> " << url->ToString() << ": " << again.status();
    EXPECT_EQ(again->ToString(), url->ToString()) << text;
  }
  EXPECT_GT(accepted, 300);
}

TEST(RedisSecret, ComesFromTheEnvironmentOrAFile) {
  ASSERT_EQ(setenv("HEADRACE_TEST_PW", "from env", 1), 0);
  SecretSource env;
  env.env = "HEADRACE_TEST_PW";
  EXPECT_EQ(ReadSecret(env, "HEADRACE_TEST_NONE")->Reveal(), "from env");
  EXPECT_EQ(ReadSecret(SecretSource(), "HEADRACE_TEST_PW")->Reveal(), "from env");
  EXPECT_TRUE(ReadSecret(SecretSource(), "HEADRACE_TEST_NONE")->empty());
  ASSERT_EQ(setenv("HEADRACE_TEST_PW", "", 1), 0);
  EXPECT_EQ(ReadSecret(env, "X").status().code(), absl::StatusCode::kInvalidArgument);
  unsetenv("HEADRACE_TEST_PW");
  EXPECT_EQ(ReadSecret(env, "X").status().code(), absl::StatusCode::kNotFound);

  const std::string path = ::testing::TempDir() + "/headrace_redis_secret";
  SecretSource file;
  file.file = path;
  const auto read = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return ReadSecret(file, "X");
  };
  EXPECT_EQ(read("from file\n")->Reveal(), "from file");
  EXPECT_EQ(read("from file\r\n")->Reveal(), "from file");
  EXPECT_EQ(read(" no end ")->Reveal(), " no end ");
  EXPECT_EQ(read("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read("\n").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read("a\nb\n").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read(std::string(5000, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
  remove(path.c_str());
  EXPECT_EQ(ReadSecret(file, "X").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headrace::redis
