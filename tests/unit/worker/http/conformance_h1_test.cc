// The conformance suite on the HTTP/1.1 engine, over TCP and over TLS.
#include "tests/support/h1_test_server.h"
#include "tests/unit/worker/http/conformance.h"
#include "worker/http/curl_engine.h"

namespace headrace::http {
namespace {

std::unique_ptr<TestServer> MakeServer(TestServerOptions options) {
  return std::make_unique<H1TestServer>(options);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(Reactor* reactor, ClientOptions options) {
  return CurlEngine::Make(reactor, std::move(options));
}

INSTANTIATE_TEST_SUITE_P(H1, HttpConformance,
                         testing::Values(ConformanceParam{"Cleartext", false, &MakeServer,
                                                          &MakeEngine},
                                         ConformanceParam{"Tls", true, &MakeServer, &MakeEngine}),
                         ConformanceName);

}  // namespace
}  // namespace headrace::http
