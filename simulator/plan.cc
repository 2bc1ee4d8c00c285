#include "simulator/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace::simulator {
namespace {

TokenUse UseOf(const AnswerSpec& spec) {
  const bool embeddings = spec.endpoint == Endpoint::kEmbeddings;
  // What Anthropic reads from its cache counts towards no limit ("Rate limits", 2025).
  const int64_t free = IsAnthropic(spec.endpoint) ? spec.cached_tokens : 0;
  return {.input = spec.prompt_tokens - free,
          .output = embeddings ? 0 : spec.completion_tokens * spec.choices};
}

// Sends about the first half of the body, then `ending`.
Plan CutPlan(AnswerSpec spec, bool stream, const SimulatorOptions& options, Ending ending) {
  Plan plan = AnswerPlan(spec, stream, options);
  plan.complete = false;
  plan.ending = ending;
  plan.use.output = (plan.use.output + 1) / 2;
  if (stream) {
    const int64_t half = (spec.completion_tokens + 1) / 2;
    std::string piece;
    while (plan.events->sent_tokens() < half && plan.events->Next(&piece)) {
      plan.pieces.push_back(std::exchange(piece, {}));
    }
    // A single token would bring the end marker with it.
    if (spec.completion_tokens == 1) plan.pieces.back().resize(plan.pieces.back().size() / 2);
    plan.events.reset();
    // The pieces must be on the wire before the stream breaks.
    plan.interval = std::max(plan.interval, absl::Milliseconds(5));
    return plan;
  }
  plan.length = plan.whole.size();
  plan.whole.resize(plan.whole.size() / 2);
  return plan;
}

bool ConnectionFault(Fault fault, const AnswerSpec& spec, bool stream,
                     const SimulatorOptions& options, Plan* plan) {
  const auto no_head = [&](Ending ending) {
    *plan = Plan();
    plan->no_head = true;
    plan->ending = ending;
    plan->use.input = spec.prompt_tokens;
    return true;
  };
  switch (fault) {
    case Fault::kLostAfterAccept:
      return no_head(Ending::kFin);
    case Fault::kNoFirstByte:
      return no_head(Ending::kHang);
    case Fault::kRefusedStream:
      return no_head(Ending::kRefuse);
    case Fault::kGoawayHard:
      return no_head(Ending::kGoAwayHard);
    case Fault::kEnhanceYourCalm:
      return no_head(Ending::kGoAwayCalm);
    case Fault::kSlowFirstByte:
      *plan = AnswerPlan(spec, stream, options);
      plan->delay = options.hang_time;
      return true;
    case Fault::kGoaway:
      *plan = AnswerPlan(spec, stream, options);
      plan->goaway = true;
      return true;
    case Fault::kShortBody:
      *plan = CutPlan(spec, stream, options, Ending::kEnd);
      return true;
    case Fault::kSilentHang:
      *plan = CutPlan(spec, stream, options, Ending::kHang);
      return true;
    case Fault::kRstMidBody:
      *plan = CutPlan(spec, stream, options, Ending::kRstStream);
      return true;
    case Fault::kFinMidBody:
      *plan = CutPlan(spec, stream, options, Ending::kFin);
      return true;
    case Fault::kTcpRst:
      *plan = CutPlan(spec, stream, options, Ending::kTcpRst);
      return true;
    case Fault::kTruncatedStream:
      *plan = CutPlan(spec, stream, options, Ending::kEnd);
      return true;
    case Fault::kOneByteWrites:
      *plan = AnswerPlan(spec, stream, options);
      plan->one_byte = true;
      return true;
    default:
      return false;
  }
}

}  // namespace

Plan AnswerPlan(AnswerSpec spec, bool stream, const SimulatorOptions& options) {
  Plan plan;
  plan.complete = true;
  plan.use = UseOf(spec);
  plan.stream = stream;
  if (stream) {
    plan.content_type = kSseType;
    plan.interval = options.chunk_interval;
    plan.events = std::make_unique<EventWriter>(std::move(spec));
  } else {
    // A plain answer comes when the last token would have.
    plan.delay = options.chunk_interval * (spec.completion_tokens - 1);
    AppendBody(spec, &plan.whole);
  }
  return plan;
}

Plan ErrorPlan(int status, bool anthropic, absl::string_view type, absl::string_view code,
               absl::string_view message) {
  Plan plan;
  plan.status = status;
  if (anthropic) {
    plan.whole =
        absl::StrCat("{\"type\":\"error\",\"error\":{\"type\":\"", type, "\",\"message\":\"",
                     message, "\"},\"request_id\":\"req_simulator\"}");
    return plan;
  }
  const std::string quoted = code.empty() ? "null" : absl::StrCat("\"", code, "\"");
  plan.whole = absl::StrCat("{\"error\":{\"message\":\"", message, "\",\"type\":\"", type,
                            "\",\"param\":null,\"code\":", quoted, "}}");
  return plan;
}

bool HasPlace(Fault fault, Endpoint endpoint, bool stream, const Request& request) {
  const uint8_t where = GetFaultInfo(fault).where;
  if (fault == Fault::kNone) return false;
  if ((where & kStreamOnly) != 0 && !stream) return false;
  if ((where & kPlainOnly) != 0 && stream) return false;
  if ((where & kOpenAiOnly) != 0 && IsAnthropic(endpoint)) return false;
  if ((where & kAnthropicOnly) != 0 && !IsAnthropic(endpoint)) return false;
  if ((where & kH2Only) != 0 && !request.is_h2) return false;
  if ((where & kExpectOnly) != 0) return false;  // strikes before the body, see ExpectFault()
  return fault != Fault::kZstdFrames || request.accepts_zstd;
}

Plan FaultPlan(Fault fault, AnswerSpec spec, const Request& request, bool stream,
               const SimulatorOptions& options, absl::Time wall) {
  Plan plan;
  if (ConnectionFault(fault, spec, stream, options, &plan)) return plan;
  if (stream && ReshapeStream(fault, spec, request, options, &plan)) return plan;
  if (StatusFault(fault, spec, wall, &plan)) return plan;
  // What is left changes the text only, in streams and plain answers alike.
  switch (fault) {
    case Fault::kUnicodeSeparators:
      spec.first_word =
          "a\xE2\x80\xA8"
          "b\xE2\x80\xA9"
          "c\xC2\x85"
          "d";
      break;
    case Fault::kNoCharset:
      spec.first_word = "\xE2\x9C\x85";
      break;
    case Fault::kColonContent:
      spec.first_word = "k: v, x: y";
      break;
    case Fault::kRawControl:
      spec.first_word =
          "a\x0B"
          "b";
      break;
    case Fault::kBadUtf8:
      spec.first_word = "abc\xE5 \xC0\x80 \xED\xA0\x80 \xF4\x90\x80\x80";
      break;
    default:
      break;
  }
  const bool whole = fault == Fault::kUnicodeSeparators || fault == Fault::kNoCharset ||
                     fault == Fault::kColonContent;
  plan = AnswerPlan(std::move(spec), stream, options);
  plan.complete = whole;
  if (fault == Fault::kNoCharset && stream) plan.content_type = "text/event-stream";
  return plan;
}

}  // namespace headrace::simulator
