#include "tests/integration/redis/fake_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/redis/protocol.h"

namespace headrace::redis {
namespace {

constexpr int kPollMs = 10;  // how soon the thread sees its end

}  // namespace

FakeServer::FakeServer(Handler handler, std::string greeting)
    : handler_(std::move(handler)), greeting_(std::move(greeting)) {
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listen_fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listen_fd_, 16), 0);
  EXPECT_EQ(getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Loop(); });
}

FakeServer::~FakeServer() {
  stopped_ = true;
  thread_.join();
  close(listen_fd_);
}

std::string FakeServer::url() const { return absl::StrCat("redis://127.0.0.1:", port_); }

void FakeServer::Loop() {
  while (!stopped_) {
    pollfd readable{.fd = listen_fd_, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMs) <= 0) continue;
    const int fd = accept(listen_fd_, nullptr, nullptr);
    if (fd < 0) continue;
    ++connections_;
    Serve(fd);
    close(fd);
  }
}

void FakeServer::Serve(int fd) {
  send(fd, greeting_.data(), greeting_.size(), MSG_NOSIGNAL);
  ReplyReader reader;
  char buffer[4096];
  while (!stopped_) {
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kPollMs) <= 0) continue;
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count <= 0 || !reader.Feed({buffer, static_cast<size_t>(count)}).ok()) return;
    while (true) {
      // A command looks like a reply: an array of strings.
      absl::StatusOr<std::optional<Reply>> command = reader.Next();
      if (!command.ok()) return;
      if (!command->has_value()) break;
      std::vector<std::string> argv;
      for (const Reply& argument : (*command)->elements) argv.push_back(argument.text);
      const std::string answer = handler_(argv);
      if (answer == "close") return;
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }
}

std::string LoginReply(const std::vector<std::string>& argv) {
  if (argv[0] == "ROLE") return "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
  if (argv[0] == "AUTH" || argv[0] == "CLIENT" || argv[0] == "SELECT") return "+OK\r\n";
  return "";
}

}  // namespace headrace::redis
