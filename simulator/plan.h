// What the simulator is going to answer to one request: decided once, then played by Call.
#ifndef HEADRACE_SIMULATOR_PLAN_H_
#define HEADRACE_SIMULATOR_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "simulator/answer.h"
#include "simulator/exchange.h"
#include "simulator/faults.h"
#include "simulator/options.h"

namespace headrace::simulator {

// What comes after the last byte of the body.
enum class Ending : uint8_t {
  kEnd,        // END_STREAM, last chunk, or just the length reached
  kHang,       // nothing, ever
  kRstStream,  // RST_STREAM(INTERNAL_ERROR), or a TCP reset on HTTP/1.1
  kFin,        // the connection is closed in order
  kTcpRst,     // the connection is reset
  kRefuse,     // instead of a response: RST_STREAM(REFUSED_STREAM)
  kGoAwayHard,
  kGoAwayCalm,
};

inline constexpr absl::string_view kJsonType = "application/json";
inline constexpr absl::string_view kSseType = "text/event-stream; charset=utf-8";

struct Plan {
  // Head. Without one (`no_head`) only the ending is played.
  bool no_head = false;
  absl::Duration delay;  // from now to the head
  int status = 200;
  absl::string_view content_type = kJsonType;
  HeaderList headers;
  std::optional<uint64_t> length;  // declared, if it is not the body's

  // Body: either one piece, or a stream: generated events, or pieces one per interval.
  bool stream = false;
  std::string whole;
  std::unique_ptr<EventWriter> events;
  std::vector<std::string> pieces;
  bool repeat_last = false;  // the last piece comes again and again
  bool apart = false;        // pieces never share a write, however late they are
  absl::Duration interval;
  size_t gap_before = ~size_t{0};  // this piece comes only after `gap`
  absl::Duration gap;

  bool one_byte = false;
  Ending ending = Ending::kEnd;
  bool goaway = false;    // a graceful GOAWAY together with the head
  bool complete = false;  // a whole answer: counts as a completion when it has been sent
  TokenUse use;           // what is charged in the end
};

// The plan of a plain answer without any fault.
Plan AnswerPlan(AnswerSpec spec, bool stream, const SimulatorOptions& options);

// The plan of `fault` for a request that would have got `spec`. `wall` is for HTTP dates.
// HasPlace() must be true.
Plan FaultPlan(Fault fault, AnswerSpec spec, const Request& request, bool stream,
               const SimulatorOptions& options, absl::Time wall);

// Whether `fault` can strike this request.
bool HasPlace(Fault fault, Endpoint endpoint, bool stream, const Request& request);

// A plain error answer of the dialect: {"error":{...}}.
Plan ErrorPlan(int status, bool anthropic, absl::string_view type, absl::string_view code,
               absl::string_view message);

// For FaultPlan(): the faults that reshape a stream, and those that are another status or body.
// False when `fault` is none of theirs.
bool ReshapeStream(Fault fault, const AnswerSpec& spec, const Request& request,
                   const SimulatorOptions& options, Plan* plan);
bool StatusFault(Fault fault, const AnswerSpec& spec, absl::Time wall, Plan* plan);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_PLAN_H_
