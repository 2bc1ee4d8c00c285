// Real redis-server processes for tests: each in a directory of its own, on a free loopback port
// and on a Unix socket, gone at the end also when the test is.
#ifndef HEADRACE_TESTS_INTEGRATION_REDIS_REDIS_SERVER_H_
#define HEADRACE_TESTS_INTEGRATION_REDIS_REDIS_SERVER_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/async/epoll_reactor.h"
#include "common/async/task.h"
#include "common/redis/client.h"
#include "common/redis/reply.h"

namespace headrace::redis {

// Whether redis-server can be run here; a test without it skips and says so.
bool HasRedisServer();

constexpr absl::Duration kSoon = absl::Seconds(5);  // for what comes at once

class RedisTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasRedisServer()) GTEST_SKIP() << "redis-server is not installed: scripts/setup does it";
  }
};

// A directory below TMPDIR, removed with what is in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A port that was free a moment ago.
int FreePort();

class RedisServer {
 public:
  // `args` as on the command line of redis-server: {"--requirepass", "secret"}. Starts at once;
  // a server that does not come up fails the test. `config` is the text of a configuration file,
  // which a Sentinel needs.
  explicit RedisServer(std::vector<std::string> args = {}, std::string config = "");
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  int port() const { return port_; }
  std::string host_port() const;  // "127.0.0.1:port"
  std::string url(const std::string& user_info = "", const std::string& tail = "") const;
  const std::string& unix_path() const { return unix_path_; }
  const std::string& dir() const { return dir_.path(); }

  // Blocking, on a connection of its own, as an administrator would; waits at most 5 s.
  Reply Admin(const std::vector<std::string>& argv) const;
  // The same after AUTH.
  Reply AdminAs(const std::vector<std::string>& auth, const std::vector<std::string>& argv) const;

  // Asks until the reply's text holds `expected`, for at most 15 s.
  void AwaitAdmin(const std::vector<std::string>& argv, const std::string& expected) const;

  void Start();  // after Kill(), on the same port
  void Kill();   // SIGKILL
  void Pause();  // SIGSTOP
  void Resume();

 private:
  bool TryStart();

  const std::vector<std::string> args_;
  const std::string config_;
  TempDir dir_;
  std::string unix_path_;
  int port_ = 0;
  pid_t pid_ = -1;
};

// The configuration of a Sentinel that calls `master` by `name` and decides alone, and soon.
std::string SentinelConfig(const RedisServer& master, const std::string& name);

// Of a client that waits out a failover.
ClientOptions Patient();

// Runs `main(reactor)` on a real reactor.
void RunOnReactor(Task<void> (*main)(Reactor* reactor));
template <typename A>
void RunOnReactor(Task<void> (*main)(Reactor* reactor, A a), A a) {
  auto reactor = EpollReactor::Make();
  (*reactor)->Run(main(reactor->get(), a));
}
template <typename A, typename B>
void RunOnReactor(Task<void> (*main)(Reactor* reactor, A a, B b), A a, B b) {
  auto reactor = EpollReactor::Make();
  (*reactor)->Run(main(reactor->get(), a, b));
}

// A started client of `url`. Short timeouts, so that faults are over soon.
std::unique_ptr<Client> StartClient(Reactor* reactor, const std::string& url,
                                    ClientOptions options = {});

// Waits until `deadline` at most.
CallOptions Within(Reactor* reactor, absl::Duration time, bool idempotent = false);

}  // namespace headrace::redis

#endif  // HEADRACE_TESTS_INTEGRATION_REDIS_REDIS_SERVER_H_
