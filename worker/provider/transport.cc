#include "worker/provider/transport.h"

#include "absl/strings/str_cat.h"

namespace headrace::provider {
namespace {

ErrorClass ClassOf(const http::CallResult& result) {
  switch (result.end) {
    case http::CallEnd::kNotSent:
      return ErrorClass::kConnect;
    case http::CallEnd::kLost:
      return ErrorClass::kConnectionLost;
    case http::CallEnd::kTimedOut:
      // No connection within its time: surely not sent, so not the class that counts as billed.
      if (result.timer == http::TimerKind::kConnect) return ErrorClass::kConnect;
      // A generation that came to a standstill, or to endless white space (cases A14, A21).
      if (result.timer == http::TimerKind::kProgress) return ErrorClass::kIncomplete;
      return ErrorClass::kTimeout;
    case http::CallEnd::kCancelled:
      return ErrorClass::kCancelled;
    case http::CallEnd::kTooLarge:
    case http::CallEnd::kBadResponse:
      return ErrorClass::kInvalidResponse;
    case http::CallEnd::kComplete:
    case http::CallEnd::kAborted:
      return ErrorClass::kIncomplete;
  }
  return ErrorClass::kInternal;
}

}  // namespace

TransportVerdict ClassifyTransport(const http::CallResult& result) {
  TransportVerdict verdict;
  verdict.error_class = ClassOf(result);
  const bool sent = result.end != http::CallEnd::kNotSent && result.sends > 0;
  verdict.settlement = sent ? quota::Settlement::kUnknown : quota::Settlement::kNotSent;
  verdict.possibly_billed = sent;
  if (result.end == http::CallEnd::kTimedOut) {
    verdict.message = absl::StrCat("the ", http::TimerKindName(result.timer), " timer ran out");
  } else {
    verdict.message = absl::StrCat("the call ended as ", http::CallEndName(result.end));
  }
  if (!result.detail.empty()) absl::StrAppend(&verdict.message, ": ", result.detail);
  return verdict;
}

}  // namespace headrace::provider
