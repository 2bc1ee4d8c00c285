// A small forward proxy for tests: CONNECT tunnels, and plain requests in absolute form. It can be
// a mere relay too, for an endpoint that moves from one server to another.
#ifndef HEADRACE_TESTS_SUPPORT_TEST_PROXY_H_
#define HEADRACE_TESTS_SUPPORT_TEST_PROXY_H_

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace headrace::http {

class TestProxy {
 public:
  // `connect_answer`: the status line that every CONNECT gets; a tunnel only for a 200.
  explicit TestProxy(std::string connect_answer = "HTTP/1.1 200 Connection established");
  ~TestProxy();

  // From now on each new connection goes to `port` of loopback, whatever is sent on it; with 0 it
  // is closed at once.
  void RelayTo(int port);

  std::string url() const;
  int port() const { return port_; }
  // The heads of the requests that came to the proxy itself.
  std::vector<std::string> heads() const;

 private:
  void Accept();
  void Serve(int fd);
  // Moves bytes between `fd` and `authority` after sending that `input`.
  void Forward(int fd, const std::string& authority, const std::string& input);
  void Add(int fd);
  void Close(int fd);

  const std::string connect_answer_;
  int listen_fd_ = -1;
  int port_ = 0;
  std::thread accept_thread_;
  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::optional<int> relay_port_;
  std::vector<std::string> heads_;
  std::set<int> fds_;
  std::vector<std::thread> threads_;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_TEST_PROXY_H_
