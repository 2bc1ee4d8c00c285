// Scripted HTTP servers for tests: what happens to a request is written down per path, and what the
// server saw is counted. Implementations: H2TestServer (h2_test_server.h; h2c and TLS) and an
// HTTP/1.1 one. Each runs on a thread of its own, on loopback, on a port the system chose.
#ifndef HEADRACE_TESTS_SUPPORT_HTTP_TEST_SERVER_H_
#define HEADRACE_TESTS_SUPPORT_HTTP_TEST_SERVER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "worker/http/url.h"

namespace headrace::http {

// One step of an answer. Steps run in order; the first runs when the request's headers have
// arrived, unless `kAwaitBody` comes first.
struct Step {
  enum class Kind {
    kAwaitBody,  // wait until the whole request body has been received
    kDelay,      // wait for `delay`
    kHeaders,    // send `status` and `headers` (names in lower case)
    kData,       // send `text` as one piece of the body
    kEnd,        // end the response in order
    // Faults. On HTTP/1.1 the stream faults act on the connection.
    kReset,      // RST_STREAM with `code`; HTTP/1.1: TCP reset
    kGoAway,     // GOAWAY with `code` and last_stream_id `last`; HTTP/1.1: nothing
    kFin,        // close the connection in order, without a word (no GOAWAY)
    kTcpReset,   // close the connection with a TCP reset
    kBlackHole,  // the server neither reads nor writes on this connection any more, and keeps it
  };
  enum class Last {
    kAll,       // 2^31-1: a graceful announcement, streams under way go on
    kThis,      // this stream is the last one that was processed
    kPrevious,  // this stream was not processed
    kNone,      // 0: none was
  };

  Kind kind = Kind::kEnd;
  absl::Duration delay = absl::ZeroDuration();
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string text = {};
  uint32_t code = 0;
  Last last = Last::kAll;
};

using Script = std::vector<Step>;

namespace step {
inline Step AwaitBody() { return {.kind = Step::Kind::kAwaitBody}; }
inline Step Delay(absl::Duration delay) { return {.kind = Step::Kind::kDelay, .delay = delay}; }
inline Step Headers(int status = 200,
                    std::vector<std::pair<std::string, std::string>> headers = {}) {
  return {.kind = Step::Kind::kHeaders, .status = status, .headers = std::move(headers)};
}
inline Step Data(std::string text) { return {.kind = Step::Kind::kData, .text = std::move(text)}; }
inline Step End() { return {.kind = Step::Kind::kEnd}; }
inline Step Reset(uint32_t code) { return {.kind = Step::Kind::kReset, .code = code}; }
inline Step GoAway(uint32_t code, Step::Last last) {
  return {.kind = Step::Kind::kGoAway, .code = code, .last = last};
}
inline Step Fin() { return {.kind = Step::Kind::kFin}; }
inline Step TcpReset() { return {.kind = Step::Kind::kTcpReset}; }
inline Step BlackHole() { return {.kind = Step::Kind::kBlackHole}; }
}  // namespace step

struct TestServerOptions {
  bool tls = false;
  // HTTP/2 only: the SETTINGS it announces.
  int max_concurrent_streams = 100;
  int initial_window = 1 << 20;  // bytes of request body that it accepts unread, per stream
  bool updates_windows = true;   // false: an upload sticks once initial_window is used up
  // Rapid-reset defence: the connection is ended with ENHANCE_YOUR_CALM after this many resets.
  int max_resets_per_connection = 1000;
};

// What the server saw so far.
struct TestServerStats {
  int connections = 0;  // accepted
  int open_connections = 0;
  int requests = 0;  // request headers received, refused ones included
  int bodies = 0;    // requests whose body arrived whole
  int resets = 0;    // RST_STREAM from the client (HTTP/1.1: closed before the answer's end)
  int refused = 0;   // streams beyond max_concurrent_streams
  int resumed_sessions = 0;  // TLS handshakes that resumed one
  int pings = 0;
  int max_streams = 0;     // most streams open at once on one connection
  int expect_headers = 0;  // requests with an Expect header
};

class TestServer {
 public:
  virtual ~TestServer() = default;

  // "http://127.0.0.1:port/" or "https://localhost:port/".
  virtual Url url() const = 0;
  // The PEM file that makes the certificate valid; empty without TLS.
  virtual std::string ca_file() const = 0;
  // Many calls share a connection (HTTP/2).
  virtual bool multiplexes() const = 0;

  // Requests for `path` get the scripts in turn; the last one serves all further requests. A path
  // without a script answers 404. Call before the requests are made.
  virtual void SetScripts(std::string path, std::vector<Script> scripts) = 0;
  virtual TestServerStats stats() const = 0;
  // True once `condition` holds of the stats, false after `timeout`; woken by each change.
  virtual bool WaitFor(bool (*condition)(const TestServerStats&), absl::Duration timeout) = 0;
};

}  // namespace headrace::http

#endif  // HEADRACE_TESTS_SUPPORT_HTTP_TEST_SERVER_H_
