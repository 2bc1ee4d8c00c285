// Limits of the HTTP/2 engine that users do not set; tests do.
#ifndef HEADRACE_WORKER_HTTP_H2_OPTIONS_H_
#define HEADRACE_WORKER_HTTP_H2_OPTIONS_H_

#include "absl/time/time.h"

namespace headrace::http {

struct H2Tuning {
  // A connection with streams that was silent for this long is asked with a PING. Servers end
  // connections that ask more often (cases G6: too_many_pings).
  absl::Duration ping_after = absl::Seconds(30);
  // No byte at all for this long after the PING: the connection is lost. Chosen, not measured.
  absl::Duration ping_timeout = absl::Seconds(15);
  // How long a stream may take to end by itself after its end marker (http.md section 3.3: 1-2 s).
  absl::Duration complete_grace = absl::Milliseconds(1500);
  // Rapid-reset defences end a connection after about 1,000 resets (nghttp2's default burst); a
  // connection with this many gets no new streams, and at most 100 more can follow from its old
  // ones.
  int max_resets_per_connection = 900;
  // Replays of one request that was surely not processed. Chosen, not measured.
  int max_replays = 8;
  // ENHANCE_YOUR_CALM: no new streams for this long, doubled each time up to the maximum.
  absl::Duration calm_pause = absl::Seconds(1);
  absl::Duration max_calm_pause = absl::Seconds(30);
  // Handshakes under way at once. Chosen: one costs 1-2 ms of CPU.
  int max_connecting = 8;
  // Gap between attempts after failed ones, doubled up to the maximum.
  absl::Duration connect_gap = absl::Milliseconds(50);
  absl::Duration max_connect_gap = absl::Seconds(1);
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_H2_OPTIONS_H_
