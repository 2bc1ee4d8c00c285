// An incremental parser of server-sent events (WHATWG HTML section 9.2.6), for streams that arrive
// in pieces cut anywhere. It works on bytes: whoever decodes an event sees it whole, so no
// character is ever torn (cases A1, A3).
#ifndef HEADRACE_WORKER_PROVIDER_SSE_H_
#define HEADRACE_WORKER_PROVIDER_SSE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace::provider {

struct SseEvent {
  absl::string_view type;  // of the last `event` field; empty when there was none
  absl::string_view data;  // the data lines, joined with LF, without the last LF; may be empty
};

// Feed() gives the parser a piece, Next() takes events out of it until it says kNeedMore:
//
//   parser.Feed(piece);
//   SseEvent event;
//   while (parser.Next(&event) == SseParser::Step::kEvent) Use(event);
//
// Lines end with LF, CR or CRLF and with nothing else. A block without a data line is no event. One
// byte order mark at the start is dropped. `id` and `retry` are ignored: nobody reconnects a paid
// call. One leniency: an `error` field, which llama.cpp sent before its #16109, counts as a data
// line of an event named "error". An event whose data line lies in one piece is not copied.
class SseParser {
 public:
  // Images and tool arguments come as one line (http.md 3.2 names 8-16 MB).
  static constexpr size_t kMaxEventBytes = size_t{16} << 20;

  enum class Step {
    kEvent,     // *event is valid until the next call
    kNeedMore,  // the piece is used up
    kTooLarge,  // a line or an event above kMaxEventBytes: the stream is unusable
  };

  // The piece before must be used up. `piece` must stay valid until Next() has said kNeedMore.
  void Feed(absl::string_view piece) { piece_ = piece; }
  Step Next(SseEvent* event);

  // After the stream has ended: gives the event whose blank line is missing, with a last line that
  // may lack its line end. False when there is none. The caller judges whether it is whole.
  bool Finish(SseEvent* event);

  int64_t comments() const { return comments_; }
  int64_t events() const { return events_; }

 private:
  bool NextLine(absl::string_view* line);
  void DropByteOrderMark();
  void Field(absl::string_view line);
  void AddData(absl::string_view value);
  void KeepData();
  bool Dispatch(SseEvent* event);
  bool TooLarge() const;

  absl::string_view piece_;  // what is left of the current piece
  std::string line_;         // the beginning of a line that the pieces so far did not end
  bool line_given_ = false;  // line_ was handed out whole and is cleared by the next call
  bool after_cr_ = false;    // swallow one LF: the line has ended with the CR already
  int mark_bytes_ = 0;       // bytes of a byte order mark seen; -1 when the start is over
  bool has_data_ = false;
  absl::string_view data_view_;  // the data, while it is one line within the piece
  std::string data_;             // the data otherwise
  std::string type_;
  bool dispatched_ = false;  // the event of the last call is to be cleared
  int64_t comments_ = 0;
  int64_t events_ = 0;
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_SSE_H_
