#include "worker/http/url.h"

#include <gtest/gtest.h>

#include <string>

namespace headrace::http {
namespace {

TEST(Url, WhatIsNoEndpointIsRefusedWithTheReason) {
  const struct {
    const char* text;
    const char* reason;
  } cases[] = {
      {"", "must begin with"},
      {"api.openai.com/v1", "must begin with"},
      {"ftp://host/", "scheme 'ftp'"},
      {"https://", "no host"},
      {"https:///v1", "no host"},
      {"https://sk-key@host/", "user information"},
      {"https://user:pw@host/", "user information"},
      {"https://host:0/", "bad port 0"},
      {"https://host:65536/", "bad port 65536"},
      {"https://host:8a/", "bad port 8a"},
      {"https://host:-1/", "bad port -1"},
      {"https://ho st/", "control character or space"},
      {"https://host/a\r\nb", "control character or space"},
      {"https://ho%73t/", "bad character in the host"},
      {"https://::1/", "needs brackets"},
      {"https://[::1/", "'[' without ']'"},
      {"https://[::1]x/", "text after ']'"},
      {"https://[host]/", "no IPv6 address"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<Url> url = ParseUrl(c.text);
    ASSERT_FALSE(url.ok()) << c.text;
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(url.status().message()).find(c.reason), std::string::npos)
        << c.text << ": " << url.status();
  }
}

TEST(Url, ThePartsAreTakenApart) {
  const absl::StatusOr<Url> url = ParseUrl("HTTPS://API.Example.com:8443/v1/chat?x=1&y=?#top");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "api.example.com");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->path, "/v1/chat");
  EXPECT_EQ(url->query, "x=1&y=?");
  EXPECT_EQ(url->authority(), "api.example.com:8443");
  EXPECT_EQ(url->ToString(), "https://api.example.com:8443/v1/chat?x=1&y=?");
}

TEST(Url, DefaultsAreFilledInAndLeftOutAgain) {
  const struct {
    const char* text;
    int port;
    const char* printed;
  } cases[] = {
      {"http://host", 80, "http://host/"},
      {"https://host?q", 443, "https://host/?q"},
      {"https://host:443/", 443, "https://host/"},
      {"http://host:443/", 443, "http://host:443/"},
      {"http://host:/", 80, "http://host/"},
      {"http://[2001:DB8::1]:8000/v1", 8000, "http://[2001:db8::1]:8000/v1"},
      {"http://127.0.0.1:8080/v1", 8080, "http://127.0.0.1:8080/v1"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<Url> url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(url->port, c.port) << c.text;
    EXPECT_EQ(url->ToString(), c.printed);
  }
}

}  // namespace
}  // namespace headrace::http
