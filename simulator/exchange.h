// The seam between transports and the provider's logic: a transport hands in a Request with a
// Responder, the service answers through the Responder and learns when the peer has gone.
#ifndef HEADRACE_SIMULATOR_EXCHANGE_H_
#define HEADRACE_SIMULATOR_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "simulator/account.h"
#include "simulator/request.h"

namespace headrace::simulator {

// How an unfinished call ended by the peer's doing.
enum class Gone : uint8_t {
  kRstStream,  // RST_STREAM on its stream
  kClosed,     // the connection was closed in order (FIN, close_notify)
  kReset,      // the connection broke
  kOurs,       // our own doing: a fault or the end of the simulator
};

// How much of the connection a GOAWAY ends.
enum class GoAwayKind : uint8_t {
  kGraceful,  // this stream and all before it finish
  kHard,      // this stream and later ones are cut off as not processed
  kCalm,      // ENHANCE_YOUR_CALM, then the connection is closed
};

struct ResponseHead {
  int status = 200;
  absl::string_view content_type;
  HeaderList headers;
  std::optional<uint64_t> content_length;  // absent: chunked on HTTP/1.1
};

// One response. The body is appended to `body`, then Wake() tells the transport. Nothing is sent
// inside these calls: writes are gathered at the end of the turn.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void SendHead(const ResponseHead& head) = 0;
  // Bytes that were appended to body() are to go out.
  virtual void Wake() = 0;
  // The body is complete once body() has gone out.
  virtual void SendEnd() = 0;
  // RST_STREAM with an HTTP/2 error code; a TCP reset on HTTP/1.1.
  virtual void ResetStream(uint32_t h2_error) = 0;
  // Closes the connection after what is buffered has been written; with a TCP reset if `reset`.
  virtual void CloseConnection(bool reset) = 0;
  // HTTP/1.1: kGraceful closes after this response, the others at once.
  virtual void GoAway(GoAwayKind kind) = 0;

  std::string& body() { return body_; }
  size_t buffered() const { return body_.size() - body_sent_; }
  void set_one_byte(bool on) { one_byte_ = on; }

 protected:
  std::string body_;  // bytes before body_sent_ have gone out already
  size_t body_sent_ = 0;
  bool one_byte_ = false;  // every byte in its own frame or chunk
};

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_EXCHANGE_H_
