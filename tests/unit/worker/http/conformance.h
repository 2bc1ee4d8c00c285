// The suite that every engine must pass against every kind of server (http.md section 2.4). An
// engine joins by instantiating HttpConformance with its factories, in a file of its own that is
// linked with conformance.cc and conformance_*_test.cc:
//
//   INSTANTIATE_TEST_SUITE_P(H2, HttpConformance, testing::Values(...), ConformanceName);
#ifndef HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_
#define HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/async/epoll_reactor.h"
#include "common/async/stop.h"
#include "common/async/task.h"
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
inline void PrintTo(const ConformanceParam& param, std::ostream* out) { *out << param.name; }

// Keeps what it is given. Calls a piece that begins with ':' keep-alive, one that contains [DONE]
// complete, one that contains [BAD] worthless.
class Recorder final : public Receiver {
 public:
  void OnHeaders(int s, Headers h) override;
  BodyVerdict OnBody(absl::string_view piece) override;

  int status = 0;
  Headers headers;
  std::string body;
  int header_calls = 0;
  std::function<void()> on_body;  // called at the end of OnBody; may be empty
};

struct Made {
  CallResult result;
  Recorder recorder;
};

class HttpConformance : public testing::TestWithParam<ConformanceParam> {
 protected:
  ~HttpConformance() override;

  // Starts the server and an engine for it.
  void Start(TestServerOptions server_options = {});
  void Serve(std::string path, std::vector<Step> steps) {
    server_->SetScripts(std::move(path), {std::move(steps)});
  }
  bool multiplexes() const { return server_->multiplexes(); }

  // A POST with a small body and short timers.
  static Request Post(std::string path, std::string body = "{}");

  // Makes the calls at once, each in a task of its own, waits for all, and shuts the engine down.
  std::vector<Made> CallAll(std::vector<Request> requests, StopToken stop = {});
  Made CallOne(Request request, StopToken stop = {});
  // Makes one call and stops it once `when` holds of the server's counts (5 s at most).
  Made CallAndStop(Request request, bool (*when)(const TestServerStats&));
  // True once `condition` holds, false after 5 s; the reactor runs meanwhile.
  Task<bool> Until(bool (*condition)(const TestServerStats&));
  // Runs `main`, then shuts the engine down.
  void Run(Task<void> main);

  ClientOptions client_options_;  // change before Start(); endpoint and ca_file are filled in
  std::unique_ptr<EpollReactor> reactor_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Engine> engine_;
};

// CPU time of this thread.
absl::Duration ThreadCpu();

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_UNIT_WORKER_HTTP_CONFORMANCE_H_
