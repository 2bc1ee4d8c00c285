// Blocking clients for tests of the simulator on the wire: a raw socket, libcurl, and a small
// HTTP/2 client that sees every frame.
#ifndef HEADRACE_TESTS_UNIT_SIMULATOR_WIRE_H_
#define HEADRACE_TESTS_UNIT_SIMULATOR_WIRE_H_

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace headrace::simulator {

// How a raw connection ended.
enum class WireEnd { kFin, kReset, kTimeout };

// A blocking TCP connection to 127.0.0.1. Reads give up after five seconds.
class RawSocket {
 public:
  explicit RawSocket(int port);
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;

  void Send(absl::string_view bytes);
  // One read; empty at the end, see end().
  std::string Read();
  // All until the peer closes.
  std::string ReadAll();
  // Until `text` has been seen, or the end.
  std::string ReadUntil(absl::string_view text);
  // Closes with a reset.
  void Reset();
  std::optional<WireEnd> end() const { return end_; }
  // Reads give up after this.
  void SetTimeoutMs(int ms);

 private:
  int fd_;
  std::optional<WireEnd> end_;
};

enum class Version { kHttp1, kH2c, kTls, kTlsHttp1 };

struct Response {
  int curl_code = 0;  // CURLE_OK or why not
  long status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::vector<std::string> pieces;  // as libcurl delivered it

  std::string Header(absl::string_view name) const;
};

struct Ask {
  int port = 0;
  Version version = Version::kHttp1;
  std::string ca_file;  // for TLS
  std::string path = "/v1/chat/completions";
  std::string body;                  // empty: GET
  std::vector<std::string> headers;  // "name: value"
  long timeout_ms = 5'000;
};

// One call over libcurl.
Response Fetch(const Ask& ask);

// What an HTTP/2 client saw of one stream.
struct H2Seen {
  int status = 0;
  std::string body;
  bool end_stream = false;
  std::optional<uint32_t> reset;    // error code of RST_STREAM
  std::vector<std::string> frames;  // of DATA
};

// An h2c client over a blocking socket.
class H2Client {
 public:
  explicit H2Client(int port);
  ~H2Client();
  H2Client(const H2Client&) = delete;

  // Sends a POST and returns its stream id.
  int32_t Post(absl::string_view path, absl::string_view body,
               const std::vector<std::pair<std::string, std::string>>& headers = {});
  void Cancel(int32_t stream);
  // Reads frames until `done` streams have ended, the connection has, or five seconds are over.
  void Run(size_t done);

  const H2Seen& seen(int32_t stream) { return seen_[stream]; }
  struct GoAway {
    int32_t last_stream_id;
    uint32_t error;
  };
  const std::optional<GoAway>& goaway() const { return goaway_; }
  std::optional<WireEnd> end() const { return socket_.end(); }
  uint32_t max_streams() const;

 private:
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t,
                      const uint8_t* value, size_t, uint8_t, void* self);
  static int OnData(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t size,
                    void* self);
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self);
  void Flush();
  size_t Ended() const;

  RawSocket socket_;
  nghttp2_session* h2_ = nullptr;
  std::map<int32_t, H2Seen> seen_;
  std::map<int32_t, std::pair<std::string, size_t>> bodies_;
  std::optional<GoAway> goaway_;
};

}  // namespace headrace::simulator

#endif  // HEADRACE_TESTS_UNIT_SIMULATOR_WIRE_H_
