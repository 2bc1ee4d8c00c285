// A server for tests that answers commands with whatever bytes the test wants.
#ifndef HEADRACE_TESTS_INTEGRATION_REDIS_FAKE_SERVER_H_
#define HEADRACE_TESTS_INTEGRATION_REDIS_FAKE_SERVER_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace headrace::redis {

class FakeServer {
 public:
  // The bytes to send for a command, on the server's thread; "close" closes the connection.
  using Handler = std::function<std::string(const std::vector<std::string>& argv)>;

  // `greeting` is sent unasked on every connection. One connection at a time.
  explicit FakeServer(Handler handler, std::string greeting = "");
  ~FakeServer();

  int port() const { return port_; }
  std::string url() const;
  int connections() const { return connections_; }

 private:
  void Loop();
  void Serve(int fd);

  const Handler handler_;
  const std::string greeting_;
  int listen_fd_ = -1;
  int port_ = 0;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

// Answers the login of a master; "" for other commands.
std::string LoginReply(const std::vector<std::string>& argv);

}  // namespace headrace::redis

#endif  // HEADRACE_TESTS_INTEGRATION_REDIS_FAKE_SERVER_H_
