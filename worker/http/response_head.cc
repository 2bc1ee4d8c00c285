#include "worker/http/response_head.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace::http {
namespace {

// The status of "HTTP/1.1 200 OK", 0 when there is none.
int StatusOf(absl::string_view line) {
  const size_t space = line.find(' ');
  if (space == absl::string_view::npos) return 0;
  int status = 0;
  const absl::string_view digits = line.substr(space + 1, 3);
  return digits.size() == 3 && absl::SimpleAtoi(digits, &status) ? status : 0;
}

}  // namespace

ResponseHead::Event ResponseHead::AddLine(absl::string_view line) {
  bytes_ += line.size();
  if (bytes_ > kMaxHeadBytes) {
    problem_ = "response headers are over the limit of 64 KiB";
    return Event::kBad;
  }
  if (complete_) return Event::kMore;
  while (absl::EndsWith(line, "\n") || absl::EndsWith(line, "\r")) line.remove_suffix(1);
  if (line.empty()) return EndOfBlock();
  if (status_ == 0) {
    if (absl::StartsWith(line, "HTTP/")) status_ = StatusOf(line);
    if (status_ != 0) return Event::kMore;
    problem_ = "the response has no status line";
    return Event::kBad;
  }
  // A folded line (RFC 9112 section 5.2) continues the one before it.
  if (line.front() == ' ' || line.front() == '\t') {
    if (!headers_.empty()) {
      absl::StrAppend(&headers_.back().second, " ", absl::StripAsciiWhitespace(line));
    }
    return Event::kMore;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) {
    problem_ = "a response header has no name";
    return Event::kBad;
  }
  headers_.emplace_back(absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, colon))),
                        absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return Event::kMore;
}

ResponseHead::Event ResponseHead::EndOfBlock() {
  if (status_ == 0) return Event::kMore;
  if (status_ == 101) {
    problem_ = "the server switched protocols unasked";
    return Event::kBad;
  }
  if (status_ < 200) {
    status_ = 0;
    headers_.clear();
    return Event::kMore;
  }
  complete_ = true;
  NoteFraming();
  return Event::kHeaders;
}

void ResponseHead::NoteFraming() {
  if (FindHeader(headers_, "transfer-encoding") != nullptr) return;
  const std::string* length = FindHeader(headers_, "content-length");
  int64_t bytes = 0;
  if (length != nullptr && absl::SimpleAtoi(*length, &bytes) && bytes >= 0) content_length_ = bytes;
  ends_with_connection_ = !content_length_.has_value() && status_ != 204 && status_ != 304;
}

}  // namespace headrace::http
