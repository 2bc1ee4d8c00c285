// Collects the header lines of one HTTP/1.1 response as libcurl hands them out.
#ifndef HEADRACE_WORKER_HTTP_RESPONSE_HEAD_H_
#define HEADRACE_WORKER_HTTP_RESPONSE_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "worker/http/http.h"

namespace headrace::http {

// Header bytes that one response may have in all, interim responses and trailers included. Chosen,
// not measured: providers send 1 to 4 KB.
inline constexpr size_t kMaxHeadBytes = size_t{64} << 10;

class ResponseHead {
 public:
  enum class Event {
    kMore,     // a line of a block that goes on, or of trailers
    kHeaders,  // the final response's block is complete
    kBad,      // the peer broke HTTP: see problem()
  };

  // Takes one line with its line end. Blocks with a 1xx status are skipped, 101 apart: nobody asked
  // for an upgrade. Lines after the final block are trailers and are dropped.
  Event AddLine(absl::string_view line);

  bool complete() const { return complete_; }
  int status() const { return status_; }
  Headers& headers() { return headers_; }
  absl::string_view problem() const { return problem_; }
  // The announced length of the body; unset when it is chunked or ends with the connection.
  std::optional<int64_t> content_length() const { return content_length_; }
  // No length and no chunks: the body ends with the connection (RFC 9112 section 6.3).
  bool ends_with_connection() const { return ends_with_connection_; }

 private:
  Event EndOfBlock();
  void NoteFraming();

  bool complete_ = false;
  bool ends_with_connection_ = false;
  int status_ = 0;
  size_t bytes_ = 0;
  Headers headers_;
  std::optional<int64_t> content_length_;
  absl::string_view problem_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_RESPONSE_HEAD_H_
