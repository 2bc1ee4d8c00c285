#include "worker/http/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/h1_test_server.h"

namespace headrace::http {
namespace {

using After = H1TestServer::After;
using testing::HasSubstr;
using testing::Not;

class FetchTest : public testing::Test {
 protected:
  FetchTest() {
    char pattern[] = "/tmp/headrace_fetch_XXXXXX";
    directory_ = mkdtemp(pattern);
    path_ = directory_ + "/data";
    options_.first_delay = absl::Milliseconds(1);
    options_.use_environment_proxies = false;
  }
  ~FetchTest() override { std::filesystem::remove_all(directory_); }

  std::string UrlOf(absl::string_view path) const {
    return absl::StrCat("http://", server_.url().authority(), path);
  }
  std::string Content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  bool LeftNothing() const { return std::filesystem::is_empty(directory_); }

  H1TestServer server_;
  FetchOptions options_;
  std::string directory_;
  std::string path_;
};

Script Answer(int status, std::vector<std::pair<std::string, std::string>> headers,
              std::string body) {
  return {step::AwaitBody(), step::Headers(status, std::move(headers)), step::Data(std::move(body)),
          step::End()};
}

TEST_F(FetchTest, AMissingFileIsNotFoundAndLeavesNothing) {
  const absl::Status status = FetchToFile(UrlOf("/none?sig=secret"), path_, options_);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  EXPECT_TRUE(LeftNothing());
}

TEST_F(FetchTest, ARefusalIsPermissionDeniedAndNotRepeated) {
  server_.SetScripts("/", {Answer(403, {}, "no")});
  EXPECT_EQ(FetchToFile(UrlOf("/"), path_, options_).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(server_.stats().requests, 1);
}

TEST_F(FetchTest, AServerErrorIsRepeatedUntilTheAttemptsAreUsedUp) {
  server_.SetScripts("/", {Answer(503, {}, "busy")});
  options_.attempts = 3;
  EXPECT_EQ(FetchToFile(UrlOf("/"), path_, options_).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.stats().requests, 3);
  EXPECT_TRUE(LeftNothing());
}

TEST_F(FetchTest, WhatTheServerSaidOfTheFileIsTold) {
  server_.SetScripts("/f", {Answer(200, {{"etag", "\"v1\""}, {"last-modified", "x"}}, "hello")});
  FetchedFile fetched;
  ASSERT_TRUE(FetchToFile(UrlOf("/f"), path_, options_, &fetched).ok());
  EXPECT_EQ(fetched.bytes, 5);
  EXPECT_EQ(fetched.etag, "\"v1\"");
  EXPECT_EQ(fetched.last_modified, "x");
}

TEST_F(FetchTest, AWholeFileArrives) {
  server_.SetScripts("/f?a=b", {Answer(200, {}, "hello")});
  ASSERT_TRUE(FetchToFile(UrlOf("/f?a=b"), path_, options_).ok());
  EXPECT_EQ(Content(), "hello");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

TEST_F(FetchTest, AnEmptyFileArrives) {
  server_.SetScripts("/", {Answer(200, {{"content-length", "0"}}, "")});
  ASSERT_TRUE(FetchToFile(UrlOf("/"), path_, options_).ok());
  EXPECT_EQ(Content(), "");
}

TEST_F(FetchTest, ADroppedDownloadGoesOnWhereItEnded) {
  server_.SetScripts(
      "/", {{step::Headers(200, {{"content-length", "10"}, {"etag", "\"v1\""}}),
             step::Data("01234"), step::Fin()},
            Answer(206, {{"content-length", "5"}, {"content-range", "bytes 5-9/10"}}, "56789")});
  const absl::Status status = FetchToFile(UrlOf("/"), path_, options_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Content(), "0123456789");
  const std::string head = server_.seen().back().head;
  EXPECT_THAT(head, HasSubstr("Range: bytes=5-\r\n"));
  EXPECT_THAT(head, HasSubstr("If-Range: \"v1\"\r\n"));
}

TEST_F(FetchTest, AFileThatChangedMeanwhileIsTakenFromTheBeginning) {
  server_.SetScripts("/", {{step::Headers(200, {{"content-length", "10"}, {"etag", "\"v1\""}}),
                            step::Data("01234"), step::Fin()},
                           Answer(200, {{"etag", "\"v2\""}}, "abc")});
  ASSERT_TRUE(FetchToFile(UrlOf("/"), path_, options_).ok());
  EXPECT_EQ(Content(), "abc");
}

TEST_F(FetchTest, WithoutAValidatorADroppedDownloadBeginsAnew) {
  server_.SetScripts("/", {{step::Headers(200, {{"content-length", "10"}, {"etag", "W/\"v1\""}}),
                            step::Data("01234"), step::Fin()},
                           Answer(200, {}, "0123456789")});
  ASSERT_TRUE(FetchToFile(UrlOf("/"), path_, options_).ok());
  EXPECT_EQ(Content(), "0123456789");
  EXPECT_THAT(server_.seen().back().head, Not(HasSubstr("Range")));
}

TEST_F(FetchTest, AnotherRangeThanAskedForIsRefused) {
  server_.SetScripts(
      "/", {{step::Headers(200, {{"content-length", "10"}, {"etag", "\"v1\""}}),
             step::Data("01234"), step::Fin()},
            Answer(206, {{"content-length", "5"}, {"content-range", "bytes 4-8/10"}}, "45678")});
  EXPECT_EQ(FetchToFile(UrlOf("/"), path_, options_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(LeftNothing());
}

TEST_F(FetchTest, AFileOverTheLimitIsRefused) {
  server_.SetScripts("/", {Answer(200, {}, "0123456789")});
  options_.max_bytes = 9;
  EXPECT_EQ(FetchToFile(UrlOf("/"), path_, options_).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(LeftNothing());
}

TEST_F(FetchTest, ARedirectIsFollowed) {
  server_.SetScripts("/a", {Answer(302, {{"location", "/b"}, {"content-length", "4"}}, "gone")});
  server_.SetScripts("/b", {Answer(200, {}, "here")});
  ASSERT_TRUE(FetchToFile(UrlOf("/a"), path_, options_).ok());
  EXPECT_EQ(Content(), "here");
}

TEST_F(FetchTest, ARedirectThatNeverEndsIsRefused) {
  server_.SetScripts("/a", {Answer(302, {{"location", "/a"}, {"content-length", "0"}}, "")});
  EXPECT_EQ(FetchToFile(UrlOf("/a"), path_, options_).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FetchTest, TheTotalTimeEndsADownload) {
  server_.SetScripts("/", {{step::Headers(), step::Data("a"), step::BlackHole()}});
  options_.total_timeout = absl::Milliseconds(200);
  EXPECT_EQ(FetchToFile(UrlOf("/"), path_, options_).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(FetchTest, ABadUrlIsAnInvalidArgument) {
  EXPECT_EQ(FetchToFile("ftp://h/x", path_, options_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FetchTest, APutSendsTheFile) {
  std::ofstream(path_) << "results";
  server_.SetScripts("/r", {Answer(503, {}, "busy"), Answer(201, {}, "")});
  const absl::Status status = PutFile(UrlOf("/r"), path_, options_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(server_.seen().size(), 2u);
  EXPECT_EQ(server_.seen()[1].body, "results");
  EXPECT_THAT(server_.seen()[1].head, HasSubstr("PUT /r HTTP/1.1\r\n"));
  EXPECT_EQ(server_.stats().expect_headers, 0);
}

TEST_F(FetchTest, APutOfAMissingFileIsNotFound) {
  EXPECT_EQ(PutFile(UrlOf("/r"), path_, options_).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace headrace::http
