// One connection of H2TestServer: plays the scripts of its streams. Lives on the server's thread.
#ifndef HEADRACE_TESTS_SUPPORT_H2_SERVER_CONNECTION_H_
#define HEADRACE_TESTS_SUPPORT_H2_SERVER_CONNECTION_H_

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/async/reactor.h"
#include "tests/support/h2_test_server.h"
#include "tests/support/http_test_server.h"
#include "common/net/transport.h"

namespace headrace::http {

// Between the test's thread and the server's.
struct H2ServerShared {
  H2ServerShared(TestServerOptions o, H2ServerExtras e) : options(o), extras(e) {}

  struct PathScripts {
    std::vector<Script> scripts;
    size_t next = 0;
  };

  const TestServerOptions options;
  const H2ServerExtras extras;
  absl::Mutex mutex;
  std::map<std::string, PathScripts> scripts ABSL_GUARDED_BY(mutex);
  TestServerStats stats ABSL_GUARDED_BY(mutex);
};

class H2ServerConnection final : public FdHandler, private EndOfTurn {
 public:
  H2ServerConnection(Reactor* reactor, H2ServerShared* shared, net::Transport transport);
  ~H2ServerConnection() override;

  void Start();
  bool closed() const { return closed_; }

 private:
  struct Stream {
    H2ServerConnection* connection = nullptr;
    int32_t id = 0;
    Script script;
    size_t next_step = 0;
    std::string path;
    std::string out;
    bool body_whole = false;
    bool headers_sent = false;
    bool end = false;
    Timer timer;
  };
  friend struct H2ServerCallbacks;

  void OnFdReady(uint32_t events) override;
  void OnEndOfTurn() override;
  void Read();
  void Flush();
  void Close(bool with_reset);
  Stream* Find(int32_t id);
  void OnRequest(Stream* stream);
  // Plays steps until one waits.
  void Play(int32_t id);
  // False when the script waits at this step.
  bool PlayStep(Stream* stream, const Step& step);
  template <typename Function>
  void Count(Function function) {
    absl::MutexLock lock(&shared_->mutex);
    function(&shared_->stats);
  }

  Reactor* const reactor_;
  H2ServerShared* const shared_;
  net::Transport transport_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, std::unique_ptr<Stream>> streams_;
  std::string blocked_;
  int resets_ = 0;
  bool greeted_ = false;
  bool watched_ = false;
  bool closed_ = false;
  bool black_hole_ = false;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_H2_SERVER_CONNECTION_H_
