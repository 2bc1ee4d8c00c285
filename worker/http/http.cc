#include "worker/http/http.h"

namespace headrace::http {

const std::string* FindHeader(const Headers& headers, absl::string_view name) {
  for (const auto& [key, value] : headers) {
    if (absl::string_view(key) == name) return &value;
  }
  return nullptr;
}

absl::string_view CallEndName(CallEnd end) {
  switch (end) {
    case CallEnd::kComplete:
      return "complete";
    case CallEnd::kNotSent:
      return "not_sent";
    case CallEnd::kLost:
      return "lost";
    case CallEnd::kTimedOut:
      return "timed_out";
    case CallEnd::kCancelled:
      return "cancelled";
    case CallEnd::kAborted:
      return "aborted";
    case CallEnd::kTooLarge:
      return "too_large";
    case CallEnd::kBadResponse:
      return "bad_response";
  }
  return "unknown";
}

absl::string_view TimerKindName(TimerKind timer) {
  switch (timer) {
    case TimerKind::kNone:
      return "none";
    case TimerKind::kConnect:
      return "connect";
    case TimerKind::kFirstByte:
      return "first_byte";
    case TimerKind::kSilence:
      return "silence";
    case TimerKind::kProgress:
      return "progress";
    case TimerKind::kTotal:
      return "total";
  }
  return "unknown";
}

}  // namespace headrace::http
