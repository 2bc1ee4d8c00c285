#include "tests/support/test_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/log.h"

namespace headrace::http {
namespace {

// Connects to loopback at the port of "host:port". -1 on failure.
int ConnectTo(absl::string_view authority) {
  int port = 80;
  const size_t colon = authority.rfind(':');
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(authority.substr(colon + 1), &port)) {
    return -1;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

bool SendAll(int fd, const std::string& bytes) {
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

// Moves what is there from one to the other. False at the end.
bool Move(int from, int to) {
  char data[16384];
  const ssize_t count = recv(from, data, sizeof(data), 0);
  return count > 0 && SendAll(to, std::string(data, static_cast<size_t>(count)));
}

void Pump(int a, int b) {
  while (true) {
    pollfd fds[2] = {{.fd = a, .events = POLLIN, .revents = 0},
                     {.fd = b, .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) <= 0) return;
    if (fds[0].revents != 0 && !Move(a, b)) return;
    if (fds[1].revents != 0 && !Move(b, a)) return;
  }
}

}  // namespace

TestProxy::TestProxy(std::string connect_answer) : connect_answer_(std::move(connect_answer)) {
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  HR_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  HR_CHECK(listen(listen_fd_, 64) == 0);
  socklen_t size = sizeof(address);
  getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  accept_thread_ = std::thread([this] { Accept(); });
}

TestProxy::~TestProxy() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (const int fd : fds_) shutdown(fd, SHUT_RDWR);
  }
  shutdown(listen_fd_, SHUT_RDWR);
  accept_thread_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listen_fd_);
}

std::string TestProxy::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

std::vector<std::string> TestProxy::heads() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return heads_;
}

void TestProxy::Accept() {
  while (true) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    Add(fd);
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.emplace_back([this, fd] {
      Serve(fd);
      Close(fd);
    });
  }
}

void TestProxy::Add(int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fds_.insert(fd);
  if (stopping_) shutdown(fd, SHUT_RDWR);
}

void TestProxy::Close(int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fds_.erase(fd);
  close(fd);
}

void TestProxy::RelayTo(int port) {
  const std::lock_guard<std::mutex> lock(mutex_);
  relay_port_ = port;
}

void TestProxy::Forward(int fd, const std::string& authority, const std::string& input) {
  const int out = ConnectTo(authority);
  if (out < 0) return;
  Add(out);
  if (input.empty() || SendAll(out, input)) Pump(fd, out);
  Close(out);
}

void TestProxy::Serve(int fd) {
  std::optional<int> relay;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    relay = relay_port_;
  }
  if (relay.has_value()) {
    if (*relay != 0) Forward(fd, absl::StrCat("127.0.0.1:", *relay), "");
    return;
  }
  std::string input;
  while (!absl::StrContains(input, "\r\n\r\n")) {
    char data[16384];
    const ssize_t count = recv(fd, data, sizeof(data), 0);
    if (count <= 0) return;
    input.append(data, static_cast<size_t>(count));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    heads_.push_back(input.substr(0, input.find("\r\n\r\n")));
  }
  const std::vector<std::string> words = absl::StrSplit(input.substr(0, input.find('\r')), ' ');
  const bool tunnel = words[0] == "CONNECT";
  if (tunnel) {
    const std::string length =
        absl::StrContains(connect_answer_, " 200 ") ? "\r\n\r\n" : "\r\ncontent-length: 0\r\n\r\n";
    if (!SendAll(fd, connect_answer_ + length) || length.size() > 4) return;
    input.erase(0, input.find("\r\n\r\n") + 4);
  }
  // "http://host:port/path" or "host:port".
  const std::vector<std::string> parts = absl::StrSplit(words[1], '/');
  const std::string authority = tunnel ? words[1] : parts[2];
  if (!tunnel) {
    // Origin form for the server.
    const size_t begin = input.find("http://");
    input.erase(begin, std::string("http://").size() + authority.size());
  }
  Forward(fd, authority, input);
}

}  // namespace headrace::http
