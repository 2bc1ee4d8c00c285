// The scripted test server on HTTP/1.1, plain or with TLS: one thread per connection.
#ifndef HEADRACE_TESTS_SUPPORT_H1_TEST_SERVER_H_
#define HEADRACE_TESTS_SUPPORT_H1_TEST_SERVER_H_

#include <openssl/ssl.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/support/http_test_server.h"
#include "tests/support/test_certificate.h"

namespace headrace::http {

class H1Connection;

class H1TestServer final : public TestServer {
 public:
  // Framing: a kHeaders step without content-length makes a chunked body, unless the status is 1xx.
  // A response with fewer bytes than its content-length closes the connection at kEnd.
  // `certificate`: a fresh one when null; may be shared with the test, to trust it before the
  // server runs. `port`: 0 for one that the system chooses.
  explicit H1TestServer(TestServerOptions options = {},
                        std::shared_ptr<TestCertificate> certificate = nullptr);
  ~H1TestServer() override;

  Url url() const override;
  std::string ca_file() const override;
  bool multiplexes() const override { return false; }
  void SetScripts(std::string path, std::vector<Script> scripts) override;
  TestServerStats stats() const override;
  bool WaitFor(bool (*condition)(const TestServerStats&), absl::Duration timeout) override;

  // Requests for `path` get these bytes once their body has arrived.
  enum class After {
    kKeep,      // the connection goes on with the next request
    kClose,     // closed in order; with TLS after a close_notify
    kTruncate,  // closed in order, with TLS without a close_notify
    kTcpReset,
  };
  void SetRaw(std::string path, std::string bytes, After after);

  struct SeenRequest {
    std::string head;  // request line and headers
    std::string body;
    int connection = 0;  // from 1, in the order of accepting
  };
  // Those whose body arrived whole, in that order.
  std::vector<SeenRequest> seen() const;
  // True once the server has closed its side of `count` connections in order.
  bool WaitForFins(int count, absl::Duration timeout);

 private:
  friend class H1Connection;
  struct Raw {
    std::string bytes;
    After after = After::kKeep;
  };
  struct Answers {
    std::vector<Script> scripts;
    size_t next = 0;
    std::unique_ptr<Raw> raw;
  };

  void Accept();
  // The script for a request; a 404 for an unknown path. *raw is set when it is raw bytes.
  Script NextScript(const std::string& path, const Raw** raw);
  template <typename Change>
  void Count(Change change) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      change(&stats_);
    }
    changed_.notify_all();
  }

  const TestServerOptions options_;
  std::shared_ptr<TestCertificate> certificate_;
  SSL_CTX* context_ = nullptr;
  int listen_fd_ = -1;
  int port_ = 0;
  std::thread accept_thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  TestServerStats stats_;
  std::map<std::string, Answers> answers_;
  std::vector<SeenRequest> seen_;
  int fins_ = 0;
  std::set<int> open_fds_;
  std::vector<std::thread> threads_;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_H1_TEST_SERVER_H_
