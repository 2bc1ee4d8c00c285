// One line of results.jsonl or errors.jsonl: the OpenAI Batch output shape plus a "headrace"
// object, closed by a CRC-32C over all bytes before it. Built by the worker, checked by the
// coordinator and by every reader of a run directory. docs/file_formats.md shows it.
//
//   {"id":"hr-7","custom_id":"q1","response":{"status_code":200,"request_id":"r","body":{...}},
//    "error":null,"headrace":{"item":7,"row":7,"model":"m","status":"ok",...,"crc":"1a2b3c4d"}}
#ifndef HEADRACE_COMMON_OUTCOME_RESULT_LINE_H_
#define HEADRACE_COMMON_OUTCOME_RESULT_LINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/outcome/error_class.h"

namespace headrace {

// Tokens as the provider reports them; absent when it does not, never 0 for "unknown".
struct Usage {
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> completion_tokens;
  std::optional<int64_t> cached_tokens;  // part of prompt_tokens (read from the prompt cache)
  std::optional<int64_t> cache_write_tokens;
  std::optional<int64_t> reasoning_tokens;  // part of completion_tokens
};

// Where an item's time went. All by the worker's own steady clock.
struct ItemTimes {
  absl::Duration queue;    // from the item's start in the worker to the last attempt's sending
  absl::Duration connect;  // of the last attempt; zero on a reused connection
  std::optional<absl::Duration> first_byte;   // last attempt: sent to response headers
  std::optional<absl::Duration> first_token;  // last attempt: sent to first data event (streams)
  absl::Duration network;                     // last attempt: sent to end
  absl::Duration total;      // the item's start to its outcome, all attempts and waits
  absl::Duration read_tick;  // how late a stamp may be, because reads were batched
};

// Everything that one line says. Views must stay valid while the line is built.
struct ResultLine {
  ItemId item;
  RowIndex row;
  absl::string_view model;  // the model's label, unique within the job
  absl::string_view custom_id;
  ErrorClass error_class = ErrorClass::kNone;
  absl::string_view error_message;  // empty when ok
  int http_status = 0;              // of the last attempt; 0 without a response
  absl::string_view request_id;     // the provider's, may be empty
  absl::string_view body;           // one JSON value on one line, or empty for null
  absl::string_view finish_reason;
  absl::string_view expected;    // empty: not written
  uint32_t attempts = 0;         // HTTP calls made for the item in this pass
  uint32_t possibly_billed = 0;  // attempts whose outcome is unknown
  uint32_t pass = 1;
  Usage usage;
  ItemTimes times;
  absl::string_view worker;
  BatchId batch;
  absl::Time started;
  absl::string_view flags;  // comma-separated remarks on an accepted answer, e.g. "no_done_marker"
};

// Appends the line without its line end.
void AppendResultLine(const ResultLine& line, std::string* out);

// What a reader needs from a line without parsing the answer in it.
struct ResultLineKey {
  ItemId item;
  ErrorClass error_class = ErrorClass::kNone;
};

// Checks the CRC and reads the key from the tail of `line` (without line end). DataLoss when the
// line is cut, damaged or not one of ours.
absl::StatusOr<ResultLineKey> CheckResultLine(absl::string_view line);

}  // namespace headrace

#endif  // HEADRACE_COMMON_OUTCOME_RESULT_LINE_H_
