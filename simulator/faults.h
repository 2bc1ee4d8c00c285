// The faults that the simulator can inject, by name. Each one is a case that real clients had
// (docs/testing.md); `headrace simulate --list-faults` prints the table.
#ifndef HEADRACE_SIMULATOR_FAULTS_H_
#define HEADRACE_SIMULATOR_FAULTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace headrace::simulator {

enum class Fault : uint8_t {
  kNone,
  // Streams: form.
  kSplitUtf8,
  kUnicodeSeparators,
  kNoCharset,
  kNoSpace,
  kCrlf,
  kCr,
  kMixedLineEnds,
  kBom,
  kComments,
  kRetryOnlyBlocks,
  kEmptyData,
  kColonContent,
  kToolCallsNoIndex,
  kUsageChunkFirst,
  kUsageChunkLast,
  kUsageNoChoices,
  kZstdFrames,
  kOneByteWrites,
  kRawControl,
  // Streams: how they end, or do not.
  kNoDone,
  kTruncatedStream,
  kOverloadedEvent,
  kOverloadedMidStream,
  kErrorChunk,
  kGluedError,
  kInvalidRequestEvent,
  kCommentsForever,
  kWhitespaceForever,
  kSilentHang,
  kSlowStream,
  kSilentGap,
  // Statuses.
  k429Date,
  k429Huge,
  k429Bare,
  k429Ms,
  kInsufficientQuota,
  kDashscopeThrottle,
  kAzureQuotaWait,
  kRetryInfoBody,
  kDailyQuota,
  kSlowDown,
  k529,
  k520,
  k524,
  k408,
  k409,
  k425,
  k500,
  k503,
  kHtml502,
  kShouldNotRetry,
  k200Error,
  k200Flagged,
  kResponsesFailed,
  kContext400,
  kUnsupportedParameter,
  k404Model,
  k401,
  k403,
  k402,
  // Connections.
  kLostAfterAccept,
  kSlowFirstByte,
  kNoFirstByte,
  kShortBody,
  kRstMidBody,
  kFinMidBody,
  kTcpRst,
  kGoaway,
  kGoawayHard,
  kRefusedStream,
  kEnhanceYourCalm,
  k417,
  kNoContinue,
  // Odd answers.
  kEmpty200,
  kChoicesNull,
  kNanLogprobs,
  kBadUtf8,
  kRefusal,
  kContentFilter,
  kReasoningOnly,
  kCount,
};

// Where a fault can happen; elsewhere it is skipped and not counted.
inline constexpr uint8_t kStreamOnly = 1;  // the request asked for a stream
inline constexpr uint8_t kPlainOnly = 2;   // it did not
inline constexpr uint8_t kOpenAiOnly = 4;
inline constexpr uint8_t kAnthropicOnly = 8;
inline constexpr uint8_t kH2Only = 16;
inline constexpr uint8_t kExpectOnly = 32;  // HTTP/1.1 and "expect: 100-continue"
// Not a place: the fault is caused by the request, so it strikes every attempt of an item or none.
inline constexpr uint8_t kSticky = 64;

struct FaultInfo {
  Fault fault;
  absl::string_view name;     // kebab case, stable
  absl::string_view case_id;  // of the case list: "A1"; "" for a fault of our own
  uint8_t where;              // kStreamOnly | ... | kSticky
  absl::string_view meaning;  // one line for people
};

// All faults but kNone, in table order.
absl::Span<const FaultInfo> AllFaults();
const FaultInfo& GetFaultInfo(Fault fault);
// kNone when there is no such name.
Fault FaultFromName(absl::string_view name);

struct FaultRate {
  Fault fault = Fault::kNone;
  double rate = 0;  // share of requests, [0, 1]
};

// "NAME=RATE" with RATE in [0, 1] or in percent ("5%"). InvalidArgument that names the nearest
// known name and where to find all.
absl::StatusOr<FaultRate> ParseFault(absl::string_view text);

// One line per fault: name, case, meaning.
std::string ListFaults();

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_FAULTS_H_
