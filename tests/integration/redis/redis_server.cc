#include "tests/integration/redis/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/redis/protocol.h"

namespace headrace::redis {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(10);
constexpr int kAdminLimitMs = 5000;

int ConnectUnix(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.c_str(), path.size());
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Blocking; one reply per command, the last one counts. An error reply when nobody answers.
Reply Ask(const std::string& path, const std::vector<std::vector<std::string>>& commands) {
  const int fd = ConnectUnix(path);
  if (fd < 0) return ErrorReply("no connection");
  std::string wire;
  for (const auto& argv : commands) AppendCommand(argv, &wire);
  Reply last = ErrorReply("no reply");
  size_t replies = 0;
  if (send(fd, wire.data(), wire.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(wire.size())) {
    ReplyReader reader;
    char buffer[4096];
    while (replies < commands.size()) {
      pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, kAdminLimitMs) <= 0) break;
      const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
      if (count <= 0 || !reader.Feed({buffer, static_cast<size_t>(count)}).ok()) break;
      while (true) {
        absl::StatusOr<std::optional<Reply>> reply = reader.Next();
        if (!reply.ok() || !reply->has_value()) break;
        last = **std::move(reply);
        ++replies;
      }
    }
  }
  close(fd);
  return replies == commands.size() ? last : ErrorReply("no reply");
}

}  // namespace

bool HasRedisServer() {
  static const bool has = std::system("redis-server --version >/dev/null 2>&1") == 0;
  return has;
}

TempDir::TempDir() {
  const char* base = getenv("TMPDIR");
  path_ = absl::StrCat(base == nullptr ? "/tmp" : base, "/headrace_redis_XXXXXX");
  EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

RedisServer::RedisServer(std::vector<std::string> args, std::string config)
    : args_(std::move(args)), config_(std::move(config)) {
  unix_path_ = dir_.path() + "/redis.sock";
  // Somebody else may take the port first.
  for (int i = 0; i < 5; ++i) {
    port_ = FreePort();
    if (TryStart()) return;
  }
  std::ifstream log(dir_.path() + "/log");
  ADD_FAILURE() << "redis-server does not start: "
                << std::string(std::istreambuf_iterator<char>(log), {});
}

RedisServer::~RedisServer() { Kill(); }

std::string RedisServer::host_port() const { return absl::StrCat("127.0.0.1:", port_); }

std::string RedisServer::url(const std::string& user_info, const std::string& tail) const {
  return absl::StrCat("redis://", user_info, host_port(), tail);
}

bool RedisServer::TryStart() {
  std::vector<std::string> argv = {"redis-server"};
  if (!config_.empty()) {
    const std::string path = dir_.path() + "/redis.conf";
    std::ofstream(path) << config_;
    argv.push_back(path);
  }
  const bool sentinel = std::find(args_.begin(), args_.end(), "--sentinel") != args_.end();
  for (const std::string& argument :
       {std::string("--port"), absl::StrCat(port_), std::string("--bind"), std::string("127.0.0.1"),
        std::string("--unixsocket"), unix_path_, std::string("--dir"), dir_.path(),
        std::string("--logfile"), dir_.path() + "/log"}) {
    argv.push_back(argument);
  }
  if (!sentinel) {
    for (const char* argument :
         {"--save", "", "--appendonly", "no", "--enable-debug-command", "yes"}) {
      argv.push_back(argument);
    }
  }
  argv.insert(argv.end(), args_.begin(), args_.end());
  std::vector<char*> pointers;
  for (std::string& argument : argv) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  const absl::Time limit = absl::Now() + kStartLimit;
  while (absl::Now() < limit) {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    const Reply pong = Ask(unix_path_, {{"PING"}});
    // A server that wants a password is up as well; -LOADING is not.
    if (pong.is_text() || absl::StartsWith(pong.text, "NOAUTH")) return true;
    absl::SleepFor(absl::Milliseconds(2));
  }
  Kill();
  return false;
}

void RedisServer::AwaitAdmin(const std::vector<std::string>& argv,
                             const std::string& expected) const {
  const absl::Time limit = absl::Now() + absl::Seconds(15);
  Reply reply;
  while (absl::Now() < limit) {
    reply = Admin(argv);
    if (absl::StrContains(reply.is_text() ? reply.text : reply.ToString(2000), expected)) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
  ADD_FAILURE() << host_port() << ": " << argv[0] << " never says " << expected << ", but "
                << reply.ToString(2000);
}

void RedisServer::Start() { EXPECT_TRUE(TryStart()) << "redis-server does not start again"; }

void RedisServer::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  unlink(unix_path_.c_str());
}

void RedisServer::Pause() {
  kill(pid_, SIGSTOP);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED);
}

void RedisServer::Resume() { kill(pid_, SIGCONT); }

Reply RedisServer::Admin(const std::vector<std::string>& argv) const {
  return Ask(unix_path_, {argv});
}

Reply RedisServer::AdminAs(const std::vector<std::string>& auth,
                           const std::vector<std::string>& argv) const {
  return Ask(unix_path_, {auth, argv});
}

void RunOnReactor(Task<void> (*main)(Reactor* reactor)) {
  auto reactor = EpollReactor::Make();
  (*reactor)->Run(main(reactor->get()));
}

std::string SentinelConfig(const RedisServer& master, const std::string& name) {
  return absl::StrCat("sentinel monitor ", name, " 127.0.0.1 ", master.port(), " 1\n",
                      "sentinel down-after-milliseconds ", name, " 200\n",
                      "sentinel failover-timeout ", name, " 3000\n");
}

ClientOptions Patient() {
  ClientOptions options;
  options.command_timeout = absl::Milliseconds(700);
  options.connect_timeout = absl::Milliseconds(700);
  options.backoff.max_delay = absl::Milliseconds(200);
  return options;
}

std::unique_ptr<Client> StartClient(Reactor* reactor, const std::string& url,
                                    ClientOptions options) {
  absl::StatusOr<Url> parsed = ParseUrl(url);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Make(reactor, *std::move(parsed), std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  (*client)->Start();
  return *std::move(client);
}

CallOptions Within(Reactor* reactor, absl::Duration time, bool idempotent) {
  CallOptions options;
  options.deadline = reactor->Now() + time;
  options.idempotent = idempotent;
  return options;
}

}  // namespace headrace::redis
