#include "worker/http/request_check.h"

#include <gtest/gtest.h>

namespace headrace::http {
namespace {

Request Good() {
  Request request;
  request.path = "/v1/chat/completions?api-version=1";
  request.headers = {{"authorization", "Bearer sk-1"}, {"x-text", "caf\xc3\xa9\tx"}};
  return request;
}

absl::Status CheckWith(const char* name, absl::string_view value) {
  Request request = Good();
  request.headers.emplace_back(name, value);
  return CheckRequest(request);
}

TEST(RequestCheck, AnOrdinaryRequestPasses) { EXPECT_TRUE(CheckRequest(Good()).ok()); }

TEST(RequestCheck, ControlCharactersInAValueAreRefused) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool good = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
    EXPECT_EQ(CheckWith("x-a", absl::string_view(&c, 1)).ok(), good) << byte;
  }
}

TEST(RequestCheck, AValueIsNeverQuoted) {
  const absl::Status status = CheckWith("x-key", "secret\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the value of the header x-key holds a line end or control character");
}

TEST(RequestCheck, ANameMustBeAToken) {
  for (const char* name : {"", "a b", "a:", "a\r\nb", "caf\xc3\xa9", "(a)"}) {
    EXPECT_FALSE(CheckWith(name, "v").ok()) << name;
  }
}

TEST(RequestCheck, HeadersOfTheEngineAreRefused) {
  for (const char* name : {"host", "Content-Length", "connection", "transfer-encoding", "expect"}) {
    EXPECT_FALSE(CheckWith(name, "v").ok()) << name;
  }
}

TEST(RequestCheck, APathIsInOriginForm) {
  for (const char* path : {"", "v1", "http://h/", "/a b", "/a#b", "/a\r\nx: y", "/caf\xc3\xa9"}) {
    Request request = Good();
    request.path = path;
    EXPECT_FALSE(CheckRequest(request).ok()) << path;
  }
}

TEST(RequestCheck, AMethodIsAToken) {
  Request request = Good();
  request.method = "GET /x HTTP/1.1\r\n";
  EXPECT_FALSE(CheckRequest(request).ok());
}

}  // namespace
}  // namespace headrace::http
