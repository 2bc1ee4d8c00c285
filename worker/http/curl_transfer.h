// One HTTP/1.1 call on libcurl: its options, its timers, and the verdict on how it ended.
//
//   phase      | timers that run          | leaves it when
//   idle       | -                        | Start() -> connecting
//   connecting | connect, total           | libcurl has a connection -> sent
//   sent       | first_byte, total        | the final response's headers are complete -> body
//   body       | silence, progress, total | the receiver says kComplete -> grace
//   grace      | kCompleteGrace           | -
//   ended      | -                        | the result is decided; only the first verdict counts
//
// What libcurl reports is a hint: what has been sent and what has come back decide.
//
//   sent bytes, answer seen               | end
//   none                                  | kNotSent (connection_error when never connected)
//   some, libcurl fails                   | kLost, or kBadResponse when the peer broke HTTP
//   some, libcurl wants to send again     | kLost: PREREQFUNCTION forbids the second attempt
//   all of the announced body has come    | kComplete, whatever libcurl says about the goodbye
//   a body of no announced length, TLS    | kComplete only after the peer's close_notify, else
//   kLost
#ifndef HEADRACE_WORKER_HTTP_CURL_TRANSFER_H_
#define HEADRACE_WORKER_HTTP_CURL_TRANSFER_H_

#include <curl/curl.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/async/stop.h"
#include "common/async/wait.h"
#include "common/base/time.h"
#include "worker/http/curl_connections.h"
#include "worker/http/http.h"
#include "worker/http/response_head.h"

namespace headrace::http {

class CurlShard;

// How long a response may take to end by itself after its end marker (http.md section 3.3).
inline constexpr absl::Duration kCompleteGrace = absl::Milliseconds(1500);

// What every call of one engine has in common.
struct CurlSettings {
  std::string base_url;   // "https://host:port", the request's path is appended
  std::string host;       // "host:port", for people
  std::string ca_bundle;  // PEM file; empty: libcurl's default
  std::string proxy;      // URL; empty: none, whatever the environment says
  // Whom TCP connects to, when that is a name to look up: the endpoint or the proxy.
  std::string connect_host;
  uint16_t connect_port = 0;
  absl::Duration idle_timeout;
  absl::Duration max_connection_age;
  int64_t max_requests_per_connection = 0;
};

// Lives in the frame of its call, at one address, from before Start() until done() is set.
class CurlTransfer : public ListNode<CurlTransfer> {
 public:
  // Everything must outlive the transfer. `queued`: when the call was entered.
  CurlTransfer(Reactor* reactor, const CurlSettings* settings, CurlConnections* connections,
               const Request* request, Receiver* receiver, MonoTime queued);
  ~CurlTransfer();

  // Sets up `easy` (as after curl_easy_reset) and starts the clocks; the shard adds it to its multi
  // handle. `connect_used`: what the call has spent of its connect time, on the host's name.
  // `addresses`: an entry for CURLOPT_RESOLVE, or empty.
  void Start(CurlShard* shard, CURL* easy, absl::Duration connect_used,
             const std::string& addresses);
  // Cancels the call when `stop` does; at once when it already has.
  void CancelOn(StopToken stop);

  // The shard: libcurl has ended the transfer.
  void OnCurlDone(CURLcode code);
  // The shard: the transfer cannot go on, for a reason on our side of the wire.
  void OnShardFailed(absl::string_view why);
  // The shard: the handle is out of the multi handle and will call nothing any more.
  void OnReleased();

  // Set once the transfer has its result and libcurl has let go of it.
  Event& done() { return done_; }
  CURL* easy() const { return easy_; }
  // The request, or part of it, was sent and the response has not ended: releasing it now closes
  // the connection under it.
  bool on_the_wire() const { return result_.sends > 0 && !curl_done_; }
  // Ends the transfer instead of starting it.
  void Reject(CallEnd end, TimerKind timer, absl::string_view detail);
  // The same, with kNotSent, because there can be no connection.
  void RejectUnconnected(absl::string_view detail);
  const Request& request() const { return *request_; }
  CallResult TakeResult() { return std::move(result_); }

 private:
  enum class Phase { kIdle, kConnecting, kSent, kBody, kGrace, kEnded };
  struct Deadline {
    MonoTime when = MonoTime::Max();
    TimerKind timer = TimerKind::kNone;
  };

  static int OnPrereq(void* self, char* peer_ip, char* local_ip, int peer_port, int local_port);
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static void OnTimer(void* self);
  static void OnStop(void* self);

  void SetOptions();
  void SetRequest();
  void BuildHeaders();
  void SetTimeouts();

  int Prereq(absl::string_view local_ip, int local_port);
  size_t TakeHeader(absl::string_view line);
  size_t TakeBody(absl::string_view piece);

  void NoteSent();
  void WatchGoodbye(const CurlConnections::Use& use);
  bool BodyIsWhole() const;
  bool BodyIsCut() const;
  bool IsBadResponse(CURLcode code) const;
  // Records the verdict; the first one counts.
  void Decide(CallEnd end, TimerKind timer, absl::string_view detail);
  // The same, and takes the transfer from libcurl as soon as that is possible.
  void End(CallEnd end, TimerKind timer, absl::string_view detail);
  std::string Describe(CURLcode code) const;

  Deadline NextDeadline() const;
  void ArmTimer();

  Reactor* const reactor_;
  const CurlSettings* const settings_;
  CurlConnections* const connections_;
  const Request* const request_;
  Receiver* const receiver_;

  CurlShard* shard_ = nullptr;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* addresses_ = nullptr;
  StopToken stop_;
  StopCallback on_stop_;
  Timer timer_;
  Event done_;

  Phase phase_ = Phase::kIdle;
  bool curl_done_ = false;
  bool vetoed_ = false;
  std::string tls_address_;       // of the connection whose goodbye is watched
  bool goodbye_ = false;          // the peer closed its TLS session in order
  int attempts_ = 0;              // that got a connection
  long connects_ = 0;             // CURLINFO_NUM_CONNECTS at the last attempt
  long request_size_before_ = 0;  // CURLINFO_REQUEST_SIZE when the first attempt began
  MonoTime started_;
  absl::Duration connect_used_;
  MonoTime last_byte_;
  MonoTime last_progress_;
  ResponseHead head_;
  char error_[CURL_ERROR_SIZE] = "";
  CallResult result_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CURL_TRANSFER_H_
