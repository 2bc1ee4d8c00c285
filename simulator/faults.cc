#include "simulator/faults.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"

namespace headrace::simulator {
namespace {

constexpr FaultInfo kFaults[] = {
    {Fault::kSplitUtf8, "split-utf8", "A1", kStreamOnly,
     "a multi-byte character is split between two writes"},
    {Fault::kUnicodeSeparators, "unicode-separators", "A2", 0,
     "raw U+2028, U+2029 and U+0085 in the text"},
    {Fault::kNoCharset, "no-charset", "A3", 0, "content type without charset, text in UTF-8"},
    {Fault::kNoSpace, "no-space", "A4", kStreamOnly, "\"data:\" without a space"},
    {Fault::kCrlf, "crlf", "A5", kStreamOnly, "lines end with CR LF"},
    {Fault::kCr, "cr", "A5", kStreamOnly, "lines end with a lone CR"},
    {Fault::kMixedLineEnds, "mixed-line-ends", "A5", kStreamOnly, "LF, CR LF and CR in turn"},
    {Fault::kBom, "bom", "", kStreamOnly, "the stream begins with a byte order mark"},
    {Fault::kComments, "comments", "A6", kStreamOnly, "keep-alive comments before the first event"},
    {Fault::kRetryOnlyBlocks, "retry-only-blocks", "A7", kStreamOnly,
     "blocks that hold only retry, id or a comment"},
    {Fault::kEmptyData, "empty-data", "A8", kStreamOnly,
     "an event line without data, and empty data lines"},
    {Fault::kColonContent, "colon-content", "A17", 0, "\": \" inside the text"},
    {Fault::kToolCallsNoIndex, "tool-calls-no-index", "A18", kStreamOnly | kOpenAiOnly | kSticky,
     "tool-call deltas without index"},
    {Fault::kUsageChunkFirst, "usage-chunk-first", "A19", kStreamOnly | kOpenAiOnly,
     "a first chunk with empty choices (Azure)"},
    {Fault::kUsageChunkLast, "usage-chunk-last", "A19", kStreamOnly | kOpenAiOnly,
     "a last chunk with usage and empty choices"},
    {Fault::kUsageNoChoices, "usage-no-choices", "A19", kStreamOnly | kOpenAiOnly,
     "a last chunk with usage and no choices key"},
    {Fault::kZstdFrames, "zstd-frames", "A20", kStreamOnly,
     "each event in its own zstd frame, if the client accepts zstd"},
    {Fault::kOneByteWrites, "one-byte-writes", "A1", 0, "every byte in its own frame or chunk"},
    {Fault::kRawControl, "raw-control", "A2", kSticky,
     "a raw vertical tab in a JSON string: no JSON"},
    {Fault::kNoDone, "no-done", "A9", kStreamOnly,
     "a finish reason but no [DONE] or message_stop: a complete answer"},
    {Fault::kTruncatedStream, "truncated-stream", "A9", kStreamOnly,
     "a clean end with no finish reason and no end marker"},
    {Fault::kOverloadedEvent, "anthropic-overloaded-event", "A10", kStreamOnly,
     "status 200, then an overloaded error as the first event"},
    {Fault::kOverloadedMidStream, "overloaded-mid-stream", "A10", kStreamOnly,
     "an overloaded error after some text"},
    {Fault::kErrorChunk, "error-chunk", "A11", kStreamOnly | kOpenAiOnly,
     "an error object with code 429 as a data chunk"},
    {Fault::kGluedError, "glued-error", "A12", kStreamOnly,
     "half an event, then an error event without a blank line between"},
    {Fault::kInvalidRequestEvent, "invalid-request-event", "A13", kStreamOnly | kSticky,
     "status 200, then only an invalid_request_error event"},
    {Fault::kCommentsForever, "comments-forever", "A14", kStreamOnly,
     "one event, then comments without end"},
    {Fault::kWhitespaceForever, "whitespace-forever", "A21", kStreamOnly,
     "JSON text, then white-space deltas without end"},
    {Fault::kSilentHang, "silent-hang", "A15", 0, "some bytes, then silence; the connection stays"},
    {Fault::kSlowStream, "slow-stream", "A16", kStreamOnly, "twenty times slower than configured"},
    {Fault::kSilentGap, "silent-gap", "A16", kStreamOnly,
     "one long pause in the middle (hang time), then the rest"},
    {Fault::k429Date, "429-date", "B1", 0, "429 with Retry-After as an HTTP date"},
    {Fault::k429Huge, "429-huge", "B2", 0, "429 with Retry-After: 86400"},
    {Fault::k429Bare, "429-bare", "B3", 0, "429 without any hint"},
    {Fault::k429Ms, "429-ms", "", 0, "429 with retry-after-ms: 150"},
    {Fault::kInsufficientQuota, "insufficient-quota", "B4", 0, "429 that means no money"},
    {Fault::kDashscopeThrottle, "dashscope-throttle", "B5", 0,
     "429 insufficient_quota with code Throttling.AllocationQuota: a throttle"},
    {Fault::kAzureQuotaWait, "azure-quota-wait", "B5", 0,
     "429 insufficient_quota with Retry-After: 1: a throttle"},
    {Fault::kRetryInfoBody, "retry-info-body", "B6", 0, "429 whose wait is only in the body"},
    {Fault::kDailyQuota, "daily-quota", "B6", 0, "429 whose body names a per-day quota"},
    {Fault::kSlowDown, "slow-down", "", 0, "429 slow_down: growing too fast"},
    {Fault::k529, "529", "B7", 0, "529 overloaded"},
    {Fault::k520, "520", "B7", 0, "520 with a text body"},
    {Fault::k524, "524", "B7", 0, "524 with an HTML body"},
    {Fault::k408, "408", "B8", 0, "408"},
    {Fault::k409, "409", "B8", 0, "409 conflict"},
    {Fault::k425, "425", "B7", 0, "425 too early"},
    {Fault::k500, "500", "B7", 0, "500 with a JSON error"},
    {Fault::k503, "503", "B7", 0, "503 server_is_overloaded"},
    {Fault::kHtml502, "html-502", "B7", 0, "502 with an HTML page"},
    {Fault::kShouldNotRetry, "should-not-retry", "B8", kSticky, "500 with x-should-retry: false"},
    {Fault::k200Error, "200-error", "B9", 0, "200 with an error object of code 504"},
    {Fault::k200Flagged, "200-flagged", "B9", kSticky,
     "200 with an error object: the prompt was flagged"},
    {Fault::kResponsesFailed, "responses-failed", "B10", 0, "200 with status \"failed\""},
    {Fault::kContext400, "context-400", "B11", kSticky, "400 context_length_exceeded"},
    {Fault::kUnsupportedParameter, "unsupported-parameter", "B13", kSticky,
     "400 unsupported_parameter"},
    {Fault::k404Model, "404-model", "B13", 0, "404 model not found"},
    {Fault::k401, "401", "B13", 0, "401 wrong key"},
    {Fault::k403, "403", "B13", 0, "403 no permission"},
    {Fault::k402, "402", "B4", 0, "402 insufficient balance"},
    {Fault::kLostAfterAccept, "lost-after-accept", "B14", 0,
     "reads the whole request, then closes with no response"},
    {Fault::kSlowFirstByte, "slow-first-byte", "B15", 0, "headers only after the hang time"},
    {Fault::kNoFirstByte, "no-first-byte", "B16", kSticky, "no headers, ever"},
    {Fault::kShortBody, "short-body", "B18", kPlainOnly, "content-length larger than the body"},
    {Fault::kRstMidBody, "rst-mid-body", "B18", 0, "RST_STREAM (or a TCP reset) in mid body"},
    {Fault::kFinMidBody, "fin-mid-body", "B18", 0, "the connection is closed in mid body"},
    {Fault::kTcpRst, "tcp-rst", "B18", 0, "a TCP reset in mid body"},
    {Fault::kGoaway, "goaway", "", 0, "graceful GOAWAY (or connection: close); answers finish"},
    {Fault::kGoawayHard, "goaway-hard", "", kH2Only,
     "GOAWAY whose last_stream_id cuts off this and later streams: not processed"},
    {Fault::kRefusedStream, "refused-stream", "", kH2Only, "RST_STREAM REFUSED_STREAM"},
    {Fault::kEnhanceYourCalm, "enhance-your-calm", "", kH2Only, "GOAWAY ENHANCE_YOUR_CALM"},
    {Fault::k417, "417", "B17", kExpectOnly, "417 to a request that expects 100-continue"},
    {Fault::kNoContinue, "no-continue", "B17", kExpectOnly,
     "no 100 to a request that expects 100-continue"},
    {Fault::kEmpty200, "empty-200", "B19", 0, "200 with an empty body"},
    {Fault::kChoicesNull, "choices-null", "C1", 0, "200 with choices (or content) null"},
    {Fault::kNanLogprobs, "nan-logprobs", "C7", kPlainOnly | kSticky,
     "NaN and -Infinity in the body"},
    {Fault::kBadUtf8, "bad-utf8", "C9", kSticky, "invalid UTF-8 inside a JSON string"},
    {Fault::kRefusal, "refusal", "C10", kSticky, "the model refuses; empty content"},
    {Fault::kContentFilter, "content-filter", "C6", kSticky, "400 content_filter, without usage"},
    {Fault::kReasoningOnly, "reasoning-only", "C2", kPlainOnly | kOpenAiOnly | kSticky,
     "the answer only in reasoning_content"},
};
static_assert(std::size(kFaults) == static_cast<size_t>(Fault::kCount) - 1);

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

absl::Span<const FaultInfo> AllFaults() { return kFaults; }

const FaultInfo& GetFaultInfo(Fault fault) {
  for (const FaultInfo& info : kFaults) {
    if (info.fault == fault) return info;
  }
  static constexpr FaultInfo kNoFault{Fault::kNone, "none", "", 0, "no fault"};
  return kNoFault;
}

Fault FaultFromName(absl::string_view name) {
  for (const FaultInfo& info : kFaults) {
    if (info.name == name) return info.fault;
  }
  return Fault::kNone;
}

absl::StatusOr<FaultRate> ParseFault(absl::string_view text) {
  const size_t equals = text.rfind('=');
  const absl::string_view name = text.substr(0, equals);
  FaultRate result{.fault = FaultFromName(name)};
  if (result.fault == Fault::kNone) {
    const FaultInfo* nearest = std::min_element(
        std::begin(kFaults), std::end(kFaults), [&](const FaultInfo& a, const FaultInfo& b) {
          return EditDistance(name, a.name) < EditDistance(name, b.name);
        });
    std::vector<absl::string_view> names;
    for (const FaultInfo& info : kFaults) names.push_back(info.name);
    return absl::InvalidArgumentError(absl::StrCat("unknown fault \"", name, "\"; did you mean \"",
                                                   nearest->name,
                                                   "\"? Known: ", absl::StrJoin(names, ", ")));
  }
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault \"", text, "\" has no rate: write ", text, "=0.05"));
  }
  absl::string_view number = text.substr(equals + 1);
  const bool percent = absl::EndsWith(number, "%");
  if (percent) number.remove_suffix(1);
  if (!absl::SimpleAtod(number, &result.rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rate of fault \"", text, "\" is no number: write ", name, "=0.05"));
  }
  if (percent) result.rate /= 100;
  if (!(result.rate >= 0 && result.rate <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rate of fault \"", text, "\" must be in [0, 1]"));
  }
  return result;
}

std::string ListFaults() {
  std::string out;
  for (const FaultInfo& info : kFaults) {
    absl::StrAppendFormat(&out, "%-28s %-4s %s\n", info.name, info.case_id, info.meaning);
  }
  return out;
}

}  // namespace headrace::simulator
