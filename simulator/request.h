// One request as the simulator sees it, and the few facts that it reads from the body.
#ifndef HEADRACE_SIMULATOR_REQUEST_H_
#define HEADRACE_SIMULATOR_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace headrace::simulator {

// Largest request body. Chosen, not measured: providers take 10-32 MB.
inline constexpr size_t kMaxRequestBody = size_t{16} << 20;
// Largest request head, all names and values.
inline constexpr size_t kMaxRequestHead = size_t{64} << 10;

struct Request {
  std::string method;
  std::string path;          // without the query
  std::string query;         // without '?'
  std::string key;           // of "authorization: Bearer" or "x-api-key"
  std::string item;          // x-headrace-item: the identity of the work, else the body's hash is
  std::string forced_fault;  // x-sim-fault: strikes surely; for tests
  std::string barrier;       // x-sim-barrier
  bool accepts_zstd = false;
  bool is_h2 = false;
  bool body_too_large = false;
  bool expects_continue = false;    // HTTP/1.1, "expect: 100-continue"
  bool expectation_failed = false;  // to be answered with 417, its body unread
  std::string body;

  // Takes one header; the name in lower case. Headers that mean nothing here are dropped.
  void AddHeader(absl::string_view name, absl::string_view value);
  // Splits ":path" or the request target.
  void SetTarget(absl::string_view target);
};

// The facts of a JSON body. Views point into the body.
struct BodyFacts {
  bool valid = false;       // one JSON object, as far as the scan can tell
  absl::string_view model;  // JSON-escaped text without quotes; empty: absent
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  int64_t max_tokens = 0;      // max_tokens, max_completion_tokens or max_output_tokens; 0: absent
  double temperature = 0;      // 0: absent, or no number
  int64_t choices = 1;         // "n", clamped to [1, 16]
  int64_t inputs = 1;          // elements of an "input" array (embeddings)
  int64_t prompt_bytes = 0;    // bytes of all strings below messages, prompt, system, input
};

// Reads the facts in one pass without building a document: strings are skipped with memchr, and
// what lies deeper than needed is only balanced. Not a validator: it accepts some malformed JSON.
BodyFacts ScanBody(absl::string_view body);

// A 64-bit hash, the same in every run and on every machine.
uint64_t StableHash(absl::string_view data, uint64_t seed);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_REQUEST_H_
