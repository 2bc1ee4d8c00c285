// The faults that reshape a stream: its form, its events, its end.
#include <zstd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "simulator/plan.h"

namespace headrace::simulator {
namespace {

// Endless pieces come at least this far apart. Chosen, not measured.
constexpr absl::Duration kForeverInterval = absl::Milliseconds(100);

std::vector<std::string> Pieces(const AnswerSpec& spec) {
  EventWriter writer(spec);
  std::vector<std::string> pieces;
  std::string piece;
  while (writer.Next(&piece)) pieces.push_back(std::exchange(piece, {}));
  return pieces;
}

// The events of `count` tokens, without what closes the stream.
std::vector<std::string> FirstPieces(const AnswerSpec& spec, int64_t count) {
  AnswerSpec longer = spec;
  longer.completion_tokens = std::max(spec.completion_tokens, count + 1);
  std::vector<std::string> pieces = Pieces(longer);
  pieces.resize(static_cast<size_t>(count));
  return pieces;
}

std::string OpenAiChunk(const AnswerSpec& spec, absl::string_view rest) {
  return absl::StrCat("data: {\"id\":\"chatcmpl-", absl::Hex(spec.hash, absl::kZeroPad16),
                      "\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
                      "\"model\":\"",
                      spec.model, "\",", rest, "}\n\n");
}

std::string ErrorEvent(const AnswerSpec& spec, absl::string_view type, absl::string_view message) {
  if (IsAnthropic(spec.endpoint)) {
    return absl::StrCat("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"", type,
                        "\",\"message\":\"", message, "\"}}\n\n");
  }
  return absl::StrCat("event: error\ndata: {\"error\":{\"message\":\"", message, "\",\"type\":\"",
                      type, "\",\"param\":null,\"code\":\"", type, "\"}}\n\n");
}

// Cuts every piece after the first byte of its first multi-byte character.
std::vector<std::string> SplitInsideCharacters(const std::vector<std::string>& pieces) {
  std::vector<std::string> halves;
  for (const std::string& piece : pieces) {
    const auto lead =
        std::find_if(piece.begin(), piece.end(), [](char c) { return (c & 0x80) != 0; });
    if (lead == piece.end()) {
      halves.push_back(piece);
      continue;
    }
    halves.emplace_back(piece.begin(), lead + 1);
    halves.emplace_back(lead + 1, piece.end());
  }
  return halves;
}

void MixLineEnds(std::vector<std::string>* pieces) {
  constexpr absl::string_view kEnds[] = {"\n", "\r\n", "\r"};
  size_t next = 0;
  for (std::string& piece : *pieces) {
    // One kind per piece: the end of a piece is a blank line of its own kind.
    const absl::string_view end = kEnds[next++ % std::size(kEnds)];
    piece = absl::StrReplaceAll(piece, {{"\n", end}});
  }
}

// Faults of the bytes: the answer is whole. False when `fault` is none of them.
bool ReshapeForm(Fault fault, AnswerSpec spec, Plan* plan) {
  std::vector<std::string>& pieces = plan->pieces;
  switch (fault) {
    case Fault::kSplitUtf8:
      spec.first_word = "\xF0\x9F\x8C\x8D";
      pieces = SplitInsideCharacters(Pieces(spec));
      plan->apart = true;
      return true;
    case Fault::kNoSpace:
      pieces = Pieces(spec);
      for (std::string& piece : pieces) {
        piece = absl::StrReplaceAll(
            piece, {{"data: {", "data:{"}, {"data: [DONE]", "data:[DONE]"}, {"event: ", "event:"}});
      }
      return true;
    case Fault::kCrlf:
    case Fault::kCr:
      pieces = Pieces(spec);
      for (std::string& piece : pieces) {
        piece = absl::StrReplaceAll(piece, {{"\n", fault == Fault::kCr ? "\r" : "\r\n"}});
      }
      return true;
    case Fault::kMixedLineEnds:
      pieces = Pieces(spec);
      MixLineEnds(&pieces);
      return true;
    case Fault::kBom:
      // Split between two writes.
      pieces = Pieces(spec);
      pieces.front().insert(0, "\xBB\xBF");
      pieces.insert(pieces.begin(), "\xEF");
      plan->apart = true;
      return true;
    case Fault::kComments:
      pieces = Pieces(spec);
      pieces.insert(pieces.begin(), {": OPENROUTER PROCESSING\n\n", ": keep-alive\n\n"});
      return true;
    case Fault::kRetryOnlyBlocks:
      pieces = Pieces(spec);
      pieces.front().insert(0, "retry: 1000\n\nid: 7\n");
      pieces.insert(pieces.begin() + 1, ": ping\n\n");
      pieces.insert(pieces.begin() + 2, "id: 8\n\n");
      return true;
    case Fault::kEmptyData:
      pieces = Pieces(spec);
      pieces.insert(pieces.begin(), {"event: keepalive\n\n", "data:\n\n", "data: \n\n"});
      return true;
    case Fault::kNoDone:
      pieces = Pieces(spec);
      pieces.back() = absl::StrReplaceAll(
          pieces.back(), {{"data: [DONE]\n\n", ""},
                          {"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", ""}});
      return true;
    default:
      return false;
  }
}

// Faults of the chunks of OpenAI-style streams: whole answers too.
bool ReshapeChunks(Fault fault, AnswerSpec spec, const Request& request, Plan* plan) {
  std::vector<std::string>& pieces = plan->pieces;
  switch (fault) {
    case Fault::kUsageChunkFirst:
      pieces = Pieces(spec);
      pieces.insert(pieces.begin(),
                    OpenAiChunk(spec,
                                "\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":"
                                "0,\"content_filter_results\":{}}]"));
      return true;
    case Fault::kUsageChunkLast:
      spec.include_usage = true;
      pieces = Pieces(spec);
      return true;
    case Fault::kUsageNoChoices:
      spec.include_usage = true;
      pieces = Pieces(spec);
      pieces.back() =
          absl::StrReplaceAll(pieces.back(), {{",\"choices\":[],\"usage\"", ",\"usage\""}});
      return true;
    case Fault::kToolCallsNoIndex:
      pieces = {
          OpenAiChunk(
              spec,
              "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{"
              "\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{\\\"a\\\"\"}}]},\"finish_reason\":null}]"),
          OpenAiChunk(spec,
                      "\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{"
                      "\"arguments\":\":1}\"}}]},\"finish_reason\":null}]"),
          OpenAiChunk(spec,
                      "\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"id\":\"c2\","
                      "\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},"
                      "\"finish_reason\":null}]"),
          absl::StrCat(OpenAiChunk(spec,
                                   "\"choices\":[{\"index\":0,\"delta\":{},"
                                   "\"finish_reason\":\"tool_calls\"}]"),
                       "data: [DONE]\n\n")};
      return true;
    case Fault::kZstdFrames: {
      if (!request.accepts_zstd) return false;
      for (const std::string& piece : Pieces(spec)) {
        std::string frame(ZSTD_compressBound(piece.size()), '\0');
        const size_t size =
            ZSTD_compress(frame.data(), frame.size(), piece.data(), piece.size(), /*level=*/1);
        if (ZSTD_isError(size)) return false;
        frame.resize(size);
        pieces.push_back(std::move(frame));
      }
      plan->headers.emplace_back("content-encoding", "zstd");
      return true;
    }
    default:
      return false;
  }
}

// Faults that leave the answer incomplete.
bool ReshapeEnd(Fault fault, const AnswerSpec& spec, const SimulatorOptions& options, Plan* plan) {
  std::vector<std::string>& pieces = plan->pieces;
  const absl::string_view overloaded =
      IsAnthropic(spec.endpoint) ? "overloaded_error" : "server_is_overloaded";
  switch (fault) {
    case Fault::kOverloadedEvent:
      pieces = {ErrorEvent(spec, overloaded, "Overloaded")};
      return true;
    case Fault::kOverloadedMidStream:
      pieces = FirstPieces(spec, 3);
      pieces.push_back(ErrorEvent(spec, overloaded, "Overloaded"));
      return true;
    case Fault::kErrorChunk:
      pieces = {absl::StrCat(
          "data: {\"error\":{\"message\":\"daily limit\",\"code\":429,\"metadata\":{"
          "\"headers\":{\"X-RateLimit-Remaining\":\"0\",\"X-RateLimit-Reset\":\"",
          absl::ToUnixMillis(absl::Now() + absl::Seconds(1)), "\"}}},\"user_id\":\"u\"}\n\n")};
      return true;
    case Fault::kGluedError:
      pieces = FirstPieces(spec, 2);
      pieces.back() = pieces.back().substr(0, pieces.back().size() / 2);
      pieces.push_back("\n" + ErrorEvent(spec, overloaded, "Overloaded"));
      return true;
    case Fault::kInvalidRequestEvent:
      pieces = {ErrorEvent(spec, "invalid_request_error", "messages: field required")};
      return true;
    case Fault::kCommentsForever:
      pieces = FirstPieces(spec, 1);
      pieces.push_back(": keepalive\n\n");
      plan->repeat_last = true;
      plan->interval = std::max(options.chunk_interval, kForeverInterval);
      return true;
    case Fault::kWhitespaceForever: {
      AnswerSpec json = spec;
      json.first_word = "{\\\"answer\\\": 42}";
      pieces = FirstPieces(json, 1);
      AnswerSpec space = spec;
      space.first_word = "\\n";
      // The second event of the same stream with white space for text.
      std::string blank = FirstPieces(space, 1).front();
      const size_t text_event = IsAnthropic(spec.endpoint)
                                    ? blank.rfind("event: content_block_delta")
                                    : blank.rfind("data: ");
      pieces.push_back(blank.substr(text_event));
      plan->repeat_last = true;
      plan->interval = std::max(options.chunk_interval, kForeverInterval);
      return true;
    }
    case Fault::kRefusal:
      pieces = FirstPieces(spec, 0);
      if (IsAnthropic(spec.endpoint)) {
        std::string open = FirstPieces(spec, 1).front();
        pieces.push_back(absl::StrCat(
            open.substr(0, open.find("event: content_block_start")),
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
            "\"refusal\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":1}}\n\n"
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
      } else {
        pieces.push_back(OpenAiChunk(spec,
                                     "\"choices\":[{\"index\":0,\"delta\":{\"role\":"
                                     "\"assistant\",\"content\":null,\"refusal\":\"I cannot "
                                     "help with that.\"},\"finish_reason\":null}]"));
        pieces.push_back(absl::StrCat(
            OpenAiChunk(spec,
                        "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]"),
            "data: [DONE]\n\n"));
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ReshapeStream(Fault fault, const AnswerSpec& spec, const Request& request,
                   const SimulatorOptions& options, Plan* plan) {
  *plan = AnswerPlan(spec, /*stream=*/true, options);
  if (fault == Fault::kSlowStream) {
    plan->interval = std::max(options.chunk_interval * 20, absl::Milliseconds(20));
    return true;
  }
  if (fault == Fault::kSilentGap) {
    plan->pieces = Pieces(spec);
    plan->gap_before = plan->pieces.size() / 2;
    plan->gap = options.hang_time;
    plan->events.reset();
    return true;
  }
  if (ReshapeForm(fault, spec, plan) || ReshapeChunks(fault, spec, request, plan)) {
    plan->events.reset();
    return true;
  }
  if (ReshapeEnd(fault, spec, options, plan)) {
    plan->events.reset();
    plan->complete = false;
    plan->use.output = std::min<int64_t>(plan->use.output, 3);
    return true;
  }
  return false;
}

}  // namespace headrace::simulator
