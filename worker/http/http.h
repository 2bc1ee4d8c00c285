// The one interface of the HTTP engines: a call goes out, its answer is streamed to a receiver, and
// the end says exactly what is known about it. Two engines stand behind it: H2Engine (nghttp2 and
// OpenSSL) and CurlEngine (libcurl, HTTP/1.1); Client chooses by the endpoint's ALPN.
//
// Everything here runs on one reactor thread.
#ifndef HEADRACE_WORKER_HTTP_HTTP_H_
#define HEADRACE_WORKER_HTTP_HTTP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/stop.h"
#include "common/async/task.h"
#include "common/base/time.h"

namespace headrace::http {

// Names in lower case.
using Headers = std::vector<std::pair<std::string, std::string>>;

// The first value of `name` (lower case), nullptr when absent.
const std::string* FindHeader(const Headers& headers, absl::string_view name);

// Four timers, separately set and separately reported, plus the payload clock. InfiniteDuration()
// switches one off.
struct Timeouts {
  absl::Duration connect = absl::Seconds(10);      // name, TCP and TLS of a new connection
  absl::Duration first_byte = absl::Seconds(120);  // request sent to response headers
  absl::Duration silence = absl::Seconds(90);      // between any two pieces of the body
  absl::Duration progress =
      absl::Seconds(300);                     // between two pieces that the receiver calls progress
  absl::Duration total = absl::Seconds(120);  // call start to end, the wait for a stream excluded
};

struct Request {
  std::string method = "POST";
  std::string path;  // origin form: path and query, beginning with '/'
  Headers headers;   // without host, content-length and connection headers: the engine sets those
  std::string body;
  Timeouts timeouts;
  size_t max_response_bytes = size_t{64} << 20;  // a larger body ends the call, not the connection
};

// What the receiver makes of a piece of the body.
enum class BodyVerdict {
  kProgress,   // real content
  kKeepAlive,  // comments, pings, white space: a sign of life of the transport only
  kComplete,   // the end marker was seen: the call is a success whatever the transport does next.
               // The engine lets the stream end by itself for a moment, then cancels it.
  kAbort,      // the answer is worthless: cancel
};

// Takes one response. Called on the reactor thread, never after Call() has returned.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // The final response's status and headers, once, before any body. Informational 1xx are skipped.
  virtual void OnHeaders(int status, Headers headers) = 0;
  // A piece of the body, valid during the call only. Piece boundaries mean nothing.
  virtual BodyVerdict OnBody(absl::string_view piece) = 0;
};

enum class CallEnd {
  kComplete,     // the transport ended cleanly, or after kComplete of the receiver
  kNotSent,      // surely not processed: no connection, refused stream, GOAWAY above last_stream_id
  kLost,         // sent in part or whole, then the connection or the stream broke: outcome unknown
  kTimedOut,     // one of our timers: see CallResult::timer
  kCancelled,    // the stop token: see its reason
  kAborted,      // the receiver said kAbort
  kTooLarge,     // max_response_bytes
  kBadResponse,  // the peer broke HTTP itself (bad framing, headers over the limit)
};
absl::string_view CallEndName(CallEnd end);

enum class TimerKind { kNone, kConnect, kFirstByte, kSilence, kProgress, kTotal };
absl::string_view TimerKindName(TimerKind timer);

// Steady-clock stamps of one call; unset when not reached.
struct Stamps {
  MonoTime queued;                     // Call() was entered
  std::optional<MonoTime> sent;        // the request's headers were handed to a ready connection
  std::optional<MonoTime> headers;     // response headers arrived
  std::optional<MonoTime> first_body;  // first piece with progress
  MonoTime end;
  absl::Duration connect;    // zero on a reused connection
  absl::Duration read_tick;  // reads were batched by up to this: stamps may be this late
};

struct CallResult {
  CallEnd end = CallEnd::kNotSent;
  TimerKind timer = TimerKind::kNone;
  int status = 0;      // HTTP status, 0 when no response headers came
  std::string detail;  // for people: what broke, with host and codes, never with secrets
  // How often the request, or part of it, went onto a wire. At most 1 from one Call(), except that
  // a request that was surely not processed is replayed inside the engine: those are in `replays`.
  int sends = 0;
  int replays = 0;
  bool connection_error = false;  // kNotSent because no connection could be made at all
  int http_version = 0;           // 11 or 20
  uint64_t connection_id = 0;
  int64_t body_bytes = 0;
  Stamps stamps;
};

struct EngineStats {
  int64_t connections = 0;  // open now
  int64_t connections_made = 0;
  int64_t streams = 0;  // calls on the wire now
  int64_t waiting = 0;  // calls that wait for a stream or a connection
  int64_t resets_sent = 0;
  int64_t goaways = 0;
  int64_t replays = 0;
  int64_t calls = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Makes one call. Suspends until it has ended; what it is given must outlive it. A stop cancels
  // the call at the server at once (RST_STREAM, or the connection is closed) and returns
  // kCancelled. Never sends a request twice when it may have been processed.
  virtual Task<CallResult> Call(const Request* request, Receiver* receiver, StopToken stop) = 0;

  virtual EngineStats stats() const = 0;

  // Closes idle connections and waits for the rest to end their calls, which must have been stopped
  // or be ending. No call may follow. Must have ended before the engine is destroyed.
  virtual Task<void> Shutdown() = 0;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_HTTP_H_
