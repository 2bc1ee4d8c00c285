#include "worker/http/proxy.h"

#include <gtest/gtest.h>

#include <map>

namespace headrace::http {
namespace {

std::string Proxy(const char* url, const std::map<std::string, std::string>& environment) {
  return ProxyFor(*ParseUrl(url), [&](const char* name) -> const char* {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(Proxy, AnEmptyEnvironmentHasNone) {
  EXPECT_EQ(Proxy("https://h/", {}), "");
  EXPECT_EQ(Proxy("https://h/", {{"https_proxy", ""}}), "");
}

TEST(Proxy, EachSchemeHasItsVariable) {
  EXPECT_EQ(Proxy("https://h/", {{"https_proxy", "a"}, {"http_proxy", "b"}}), "a");
  EXPECT_EQ(Proxy("http://h/", {{"https_proxy", "a"}, {"http_proxy", "b"}}), "b");
  EXPECT_EQ(Proxy("https://h/", {{"HTTPS_PROXY", "a"}}), "a");
  EXPECT_EQ(Proxy("https://h/", {{"HTTPS_PROXY", "a"}, {"https_proxy", "b"}}), "b");
}

// A CGI server turns a request's "Proxy" header into HTTP_PROXY.
TEST(Proxy, UpperCaseHttpProxyIsIgnored) {
  EXPECT_EQ(Proxy("http://h/", {{"HTTP_PROXY", "a"}}), "");
}

TEST(Proxy, AllProxyComesLast) {
  EXPECT_EQ(Proxy("http://h/", {{"ALL_PROXY", "a"}}), "a");
  EXPECT_EQ(Proxy("https://h/", {{"all_proxy", "a"}, {"https_proxy", "b"}}), "b");
}

TEST(Proxy, NoProxyWins) {
  EXPECT_EQ(Proxy("https://h/", {{"https_proxy", "a"}, {"no_proxy", "h"}}), "");
  EXPECT_EQ(Proxy("https://h/", {{"https_proxy", "a"}, {"NO_PROXY", "h"}}), "");
  EXPECT_EQ(Proxy("https://h/", {{"https_proxy", "a"}, {"no_proxy", "other"}}), "a");
}

TEST(NoProxy, AnEntryNamesAHostAndItsSubdomains) {
  for (const char* entry : {"example.com", ".example.com", "x, example.com", "x example.com",
                            "EXAMPLE.com", "example.com:443"}) {
    EXPECT_TRUE(MatchesNoProxy(entry, "example.com", 443)) << entry;
    EXPECT_TRUE(MatchesNoProxy(entry, "www.example.com", 443)) << entry;
    EXPECT_FALSE(MatchesNoProxy(entry, "nonexample.com", 443)) << entry;
    EXPECT_FALSE(MatchesNoProxy(entry, "example.org", 443)) << entry;
  }
  EXPECT_FALSE(MatchesNoProxy("example.com:8443", "example.com", 443));
  EXPECT_FALSE(MatchesNoProxy("", "example.com", 443));
  EXPECT_FALSE(MatchesNoProxy(",. ,", "example.com", 443));
}

TEST(NoProxy, AStarAloneNamesAll) {
  EXPECT_TRUE(MatchesNoProxy(" * ", "example.com", 443));
  EXPECT_FALSE(MatchesNoProxy("*.com", "example.com", 443));
}

TEST(NoProxy, AddressesAndNetworks) {
  EXPECT_TRUE(MatchesNoProxy("127.0.0.1", "127.0.0.1", 80));
  EXPECT_FALSE(MatchesNoProxy("0.0.1", "127.0.0.1", 80));
  EXPECT_TRUE(MatchesNoProxy("10.0.0.0/8", "10.1.2.3", 80));
  EXPECT_TRUE(MatchesNoProxy("192.168.4.0/22", "192.168.7.255", 80));
  EXPECT_FALSE(MatchesNoProxy("192.168.4.0/22", "192.168.8.0", 80));
  EXPECT_TRUE(MatchesNoProxy("0.0.0.0/0", "192.168.8.0", 80));
  EXPECT_FALSE(MatchesNoProxy("10.0.0.0/33", "10.0.0.0", 80));
  EXPECT_FALSE(MatchesNoProxy("10.0.0.0/x", "10.0.0.0", 80));
  EXPECT_TRUE(MatchesNoProxy("::1", "::1", 80));
  EXPECT_TRUE(MatchesNoProxy("[::1]:80", "0:0::1", 80));
  EXPECT_FALSE(MatchesNoProxy("[::1]:81", "::1", 80));
  EXPECT_TRUE(MatchesNoProxy("fe80::/10", "fe80::1234", 80));
  EXPECT_FALSE(MatchesNoProxy("10.0.0.0/8", "::1", 80));
}

}  // namespace
}  // namespace headrace::http
