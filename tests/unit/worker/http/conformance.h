// The suite that every engine must pass against every kind of server (http.md section 2.4). An
// engine joins by instantiating HttpConformance with its factories, in a file of its own that is
// linked with conformance_test.cc:
//
//   INSTANTIATE_TEST_SUITE_P(H2, HttpConformance, testing::Values(...), ConformanceName);
#ifndef HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_
#define HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/async/epoll_reactor.h"
#include "tests/support/http_test_server.h"
#include "worker/http/client.h"
#include "worker/http/http.h"

namespace headrace::http {

struct ConformanceParam {
  std::string name;  // letters and digits
  bool tls = false;
  std::unique_ptr<TestServer> (*make_server)(TestServerOptions options) = nullptr;
  // `options` has the endpoint and the ca_file of the server.
  absl::StatusOr<std::unique_ptr<Engine>> (*make_engine)(Reactor* reactor,
                                                         ClientOptions options) = nullptr;
};

inline std::string ConformanceName(const testing::TestParamInfo<ConformanceParam>& info) {
  return info.param.name;
}

class HttpConformance : public testing::TestWithParam<ConformanceParam> {
 protected:
  ~HttpConformance() override;

  // Starts the server and an engine for it.
  void Start(TestServerOptions server_options = {});
  // Runs `main` on the reactor, then shuts the engine down.
  void Run(Task<void> main);

  ClientOptions client_options_;  // change before Start(); endpoint and ca_file are filled in
  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_
