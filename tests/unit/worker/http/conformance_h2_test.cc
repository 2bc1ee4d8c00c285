// The conformance suite on the HTTP/2 engine, over TCP and over TLS.
#include "tests/support/h2_test_server.h"
#include "tests/unit/worker/http/conformance.h"
#include "worker/http/h2_engine.h"

namespace headrace::http {
namespace {

std::unique_ptr<TestServer> MakeServer(TestServerOptions options) {
  return MakeH2TestServer(options);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(Reactor* reactor, ClientOptions options) {
  H2Tuning tuning;
  tuning.complete_grace = absl::Milliseconds(100);
  return H2Engine::Make(reactor, std::move(options), tuning);
}

INSTANTIATE_TEST_SUITE_P(H2, HttpConformance,
                         testing::Values(ConformanceParam{"Cleartext", false, &MakeServer,
                                                          &MakeEngine},
                                         ConformanceParam{"Tls", true, &MakeServer, &MakeEngine}),
                         ConformanceName);

}  // namespace
}  // namespace headrace::http
