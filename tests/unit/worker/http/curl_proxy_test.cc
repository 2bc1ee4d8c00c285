// The HTTP/1.1 engine through a proxy.
#include <gmock/gmock.h>

#include "tests/support/test_proxy.h"
#include "tests/unit/worker/http/curl_fixture.h"

namespace headrace::http {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST_F(CurlEngineTest, HttpsGoesThroughAProxysTunnel) {
  TestProxy proxy;
  Start({.tls = true}, proxy.url());
  server_->SetRaw("/", Ok("tunnelled"), H1TestServer::After::kKeep);
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  EXPECT_EQ(answer_.body, "tunnelled");
  EXPECT_EQ(answer_.heads, 1);
  ASSERT_THAT(proxy.heads(), SizeIs(1));
  EXPECT_THAT(proxy.heads()[0],
              HasSubstr("CONNECT localhost:" + std::to_string(client_options_.endpoint.port)));
  // What is inside the tunnel goes to the server alone.
  EXPECT_THAT(server_->seen()[0].head, testing::Not(HasSubstr("Proxy")));
  Stop();
}

TEST_F(CurlEngineTest, HttpGoesToAProxyInAbsoluteForm) {
  TestProxy proxy;
  Start({}, proxy.url());
  server_->SetRaw("/v1", Ok("forwarded"), H1TestServer::After::kKeep);
  const CallResult result = Call(Post("/v1"));
  EXPECT_EQ(result.end, CallEnd::kComplete) << result.detail;
  ASSERT_THAT(proxy.heads(), SizeIs(1));
  EXPECT_THAT(proxy.heads()[0],
              HasSubstr("POST http://" + client_options_.endpoint.authority() + "/v1 HTTP/1.1"));
  Stop();
}

TEST_F(CurlEngineTest, ACallThatItsProxyRefusesIsNotSent) {
  TestProxy proxy("HTTP/1.1 407 Proxy Authentication Required");
  Start({.tls = true}, proxy.url());
  const CallResult result = Call(Post("/"));
  EXPECT_EQ(result.end, CallEnd::kNotSent);
  EXPECT_TRUE(result.connection_error);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.detail, HasSubstr("407"));
  EXPECT_EQ(server_->stats().connections, 0);
  Stop();
}

TEST_F(CurlEngineTest, TheEnvironmentsProxyIsNotUsedUnasked) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  Start();
  server_->SetRaw("/", Ok("direct"), H1TestServer::After::kKeep);
  EXPECT_EQ(Call(Post("/")).end, CallEnd::kComplete);
  unsetenv("http_proxy");
}

}  // namespace
}  // namespace headrace::http
