#include "worker/provider/reply_reader.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json_reader.h"
#include "common/base/json_writer.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "worker/provider/rate_headers.h"
#include "worker/provider/redact.h"
#include "worker/provider/transport.h"

namespace headrace::provider {
namespace {

using http::BodyVerdict;

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some .NET servers send one
constexpr size_t kMaxMessageBytes = 500;                      // of Reply::message
constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxLocationBytes = 200;

// The stronger verdict of two pieces of one read.
BodyVerdict Stronger(BodyVerdict a, BodyVerdict b) {
  const auto rank = [](BodyVerdict verdict) {
    switch (verdict) {
      case BodyVerdict::kKeepAlive:
        return 0;
      case BodyVerdict::kProgress:
        return 1;
      case BodyVerdict::kComplete:
        return 2;
      case BodyVerdict::kAbort:
        return 3;
    }
    return 0;
  };
  return rank(a) >= rank(b) ? a : b;
}

std::string RequestIdOf(const http::Headers& headers) {
  for (absl::string_view name :
       {"x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "cf-ray"}) {
    if (const std::string* id = http::FindHeader(headers, name)) {
      return ExcerptUtf8(*id, kMaxRequestIdBytes);
    }
  }
  return "";
}

// "HTTP 429 (rate_limit_exceeded): the provider's words".
std::string ErrorText(int http_status, int meant_status, const ProviderError& error,
                      absl::string_view fallback) {
  std::string text = absl::StrCat("HTTP ", http_status);
  if (meant_status != 0 && meant_status != http_status) {
    absl::StrAppend(&text, " with an error of the kind ", meant_status);
  }
  if (!error.words.empty() && error.words.back() != error.message) {
    absl::StrAppend(&text, " (", error.words.back(), ")");
  }
  const absl::string_view words = error.message.empty() ? absl::StripAsciiWhitespace(fallback)
                                                        : absl::string_view(error.message);
  if (!words.empty()) absl::StrAppend(&text, ": ", words);
  return text;
}

}  // namespace

BodyReader::BodyReader(const ReaderContext* context, Api api, bool stream, int64_t choices)
    : context_(context), api_(api), stream_(stream), choices_(choices) {}

void BodyReader::OnHeaders(int status, http::Headers headers) {
  status_ = status;
  headers_ = std::move(headers);
  if (const std::string* type = http::FindHeader(headers_, "content-type")) {
    event_type_ = absl::StartsWithIgnoreCase(*type, "text/event-stream");
  }
  if (const std::string* encoding = http::FindHeader(headers_, "content-encoding")) {
    encoded_ = !encoding->empty() && !absl::EqualsIgnoreCase(*encoding, "identity");
  }
  if (status_ < 200 || status_ >= 300) mode_ = Mode::kError;
}

BodyVerdict BodyReader::OnBody(absl::string_view piece) {
  if (encoded_ && mode_ != Mode::kError) return BodyVerdict::kAbort;
  switch (mode_) {
    case Mode::kSniff:
      return Sniff(piece);
    case Mode::kEvents:
      return OnEvents(piece);
    case Mode::kPlain:
      break;
    case Mode::kError: {
      const size_t room = kMaxErrorBody - std::min(body_.size(), kMaxErrorBody);
      body_.append(piece.data(), std::min(room, piece.size()));
      return BodyVerdict::kProgress;
    }
  }
  body_.append(piece.data(), piece.size());
  const bool blank = absl::StripAsciiWhitespace(piece).empty();
  return blank ? BodyVerdict::kKeepAlive : BodyVerdict::kProgress;
}

// Neither the content type nor what was asked for is to be trusted alone: errors come as JSON in
// place of a stream, and gateways send web pages (http.md 3.2). A body that begins like JSON or
// HTML is no event stream: no field of one begins so.
BodyVerdict BodyReader::Sniff(absl::string_view piece) {
  // Blank lines keep a queued call alive (DeepSeek) and mean nothing in either form.
  absl::string_view rest = piece;
  if (mark_bytes_ == 0) rest = absl::StripLeadingAsciiWhitespace(rest);
  while (mark_bytes_ < kByteOrderMark.size() && !rest.empty() &&
         rest.front() == kByteOrderMark[mark_bytes_]) {
    rest.remove_prefix(1);
    ++mark_bytes_;
  }
  if (mark_bytes_ == kByteOrderMark.size()) rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty()) return BodyVerdict::kKeepAlive;
  // Bytes that began like a mark and went on as something else.
  std::string joined;
  if (mark_bytes_ > 0 && mark_bytes_ < kByteOrderMark.size()) {
    joined = absl::StrCat(kByteOrderMark.substr(0, mark_bytes_), rest);
    rest = joined;
  }
  const bool plain = absl::StrContains("{[<\"", rest.substr(0, 1)) || !(event_type_ || stream_);
  if (plain) {
    mode_ = Mode::kPlain;
    if (stream_) flags_.push_back("not_streamed");
    body_.append(rest.data(), rest.size());
    return BodyVerdict::kProgress;
  }
  mode_ = Mode::kEvents;
  assembler_ = MakeAssembler(api_, choices_);
  return OnEvents(rest);
}

BodyVerdict BodyReader::OnEvents(absl::string_view piece) {
  BodyVerdict verdict = BodyVerdict::kKeepAlive;
  if (too_large_) return BodyVerdict::kAbort;
  parser_.Feed(piece);
  SseEvent event;
  SseParser::Step step;
  while ((step = parser_.Next(&event)) == SseParser::Step::kEvent) {
    verdict = Stronger(verdict, assembler_->OnEvent(event));
  }
  if (step != SseParser::Step::kTooLarge) return verdict;
  too_large_ = true;
  return BodyVerdict::kAbort;
}

bool BodyReader::IsHtml() const {
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(body_), "<")) return true;
  const std::string* type = http::FindHeader(headers_, "content-type");
  return type != nullptr && absl::StartsWithIgnoreCase(*type, "text/html");
}

// Keeps an error body as one JSON value on one line: as it is when it is JSON, else as a string.
void BodyReader::KeepErrorBody(std::string body, Reply* reply) {
  std::string error;
  bool truncated = false;
  if (body.empty()) return;
  RedactKey(context_->key, &body);  // before the body is cut
  if (body.size() <= kMaxErrorBody && MinifyJson(&body, &error, &truncated)) {
    reply->body = std::move(body);
    return;
  }
  reply->body.clear();
  AppendJsonString(ExcerptUtf8(body, kMaxErrorBody), &reply->body);
}

void BodyReader::FinishError(const ProviderError& error, absl::string_view body, Reply* reply) {
  ErrorAnswer answer;
  answer.vendor = context_->vendor;
  answer.http_status = status_;
  answer.headers = &headers_;
  answer.error = error;
  answer.html = IsHtml();
  answer.local_time = absl::Now();
  const Verdict verdict = Classify(answer);
  reply->error_class = verdict.error_class;
  reply->rule = verdict.rule;
  reply->retry_after = verdict.retry_after;
  reply->penalty = verdict.penalty;
  reply->penalty_dimension = verdict.dimension;
  reply->settlement = verdict.settlement;
  reply->possibly_billed = verdict.possibly_billed;
  const absl::string_view fallback =
      answer.html ? absl::string_view("a web page, not the API") : body.substr(0, kMaxErrorBody);
  reply->message = ErrorText(status_, verdict.status, error, fallback);
  if (verdict.retry_after && *verdict.retry_after > kLongestWait) {
    absl::StrAppend(&reply->message, "; it asks to wait ",
                    headrace::FormatDuration(*verdict.retry_after));
  }
  if (verdict.status == 404) absl::StrAppend(&reply->message, " at ", context_->url);
  if (status_ >= 300 && status_ < 400) {
    absl::StrAppend(&reply->message, " at ", context_->url);
    if (const std::string* location = http::FindHeader(headers_, "location")) {
      // Without its query, which may hold anything.
      absl::StrAppend(&reply->message, ", a redirect to ",
                      ExcerptUtf8(location->substr(0, location->find('?')), kMaxLocationBytes));
    }
  }
  if (reply->request_id.empty()) reply->request_id = error.request_id;
}

// Half an answer in a 200 was paid for, whatever ended it.
void BodyReader::SettleAnswer(Reply* reply) {
  const bool known = reply->usage.prompt_tokens || reply->usage.completion_tokens;
  reply->settlement = known ? quota::Settlement::kCharged : quota::Settlement::kUnknown;
  reply->possibly_billed = reply->error_class != ErrorClass::kNone;
}

void BodyReader::Accept(std::string body, const http::CallResult& result, Reply* reply) {
  std::string error;
  bool truncated = false;
  if (!MinifyJson(&body, &error, &truncated)) {
    reply->error_class = truncated ? ErrorClass::kIncomplete : ErrorClass::kInvalidResponse;
    reply->message = IsHtml() ? "the answer is a web page, not the API" : error;
    SettleAnswer(reply);
    KeepErrorBody(std::move(body), reply);
    return;
  }
  Judgement judgement = JudgeAnswer(api_, body, choices_);
  if (judgement.error) {
    FinishError(*judgement.error, body, reply);
    KeepErrorBody(std::move(body), reply);
    return;
  }
  reply->error_class = judgement.error_class;
  reply->message = std::move(judgement.message);
  reply->finish_reason = std::move(judgement.finish_reason);
  reply->usage = judgement.usage;
  reply->body = std::move(body);
  for (std::string& flag : judgement.flags) {
    if (!absl::c_linear_search(flags_, flag)) flags_.push_back(std::move(flag));
  }
  if (result.end != http::CallEnd::kComplete) flags_.push_back("transport_error_after_end");
  SettleAnswer(reply);
}

void BodyReader::FinishEvents(const http::CallResult& result, Reply* reply) {
  SseEvent event;
  // Some servers leave out the last blank line: what is whole JSON, or [DONE], counts.
  if (result.end == http::CallEnd::kComplete && !assembler_->done() && parser_.Finish(&event)) {
    JsonReader json(event.data);
    json.Skip();
    if (json.AtEnd() || absl::StartsWith(event.data, "[DONE]")) {
      assembler_->OnEvent(event);
      flags_.push_back("no_last_blank_line");
    }
  }
  for (std::string& flag : assembler_->flags()) flags_.push_back(std::move(flag));
  std::string body = assembler_->Body();
  const bool broken = assembler_->error() || !assembler_->corrupt().empty();
  if (assembler_->complete() && !broken && !body.empty()) {
    if (!assembler_->done()) flags_.push_back("no_done_marker");
    Accept(std::move(body), result, reply);
    return;
  }
  // Anything else is no answer; what came of it is kept to be looked at.
  if (assembler_->error()) {
    FinishError(*assembler_->error(), assembler_->error_event(), reply);
  } else if (!assembler_->corrupt().empty() || too_large_) {
    reply->error_class = ErrorClass::kInvalidResponse;
    reply->message = too_large_ ? "a stream event is larger than 16 MB" : assembler_->corrupt();
  } else if (result.end != http::CallEnd::kComplete) {
    FinishTransport(result, reply);
  } else if (assembler_->complete()) {
    reply->error_class = ErrorClass::kInvalidResponse;
    reply->message = "the stream ended without any content";
  } else {
    reply->error_class = ErrorClass::kIncomplete;
    reply->message =
        absl::StrCat("the stream ended before its end marker, after ", parser_.events(), " events");
  }
  if (!assembler_->error() || assembler_->has_output()) {
    reply->possibly_billed = true;
    reply->settlement = quota::Settlement::kUnknown;
  }
  KeepErrorBody(std::move(body), reply);
}

void BodyReader::FinishPlain(const http::CallResult& result, Reply* reply) {
  if (result.end == http::CallEnd::kComplete && body_.empty()) {
    reply->error_class = ErrorClass::kIncomplete;
    reply->message = "the answer has no body";
    SettleAnswer(reply);
    return;
  }
  // The transport broke: only a body that is whole by its own word is an answer.
  if (result.end != http::CallEnd::kComplete) {
    JsonReader json(body_);
    json.Skip();
    if (!json.AtEnd() || !JudgeAnswer(api_, body_, choices_).has_end) {
      FinishTransport(result, reply);
      KeepErrorBody(std::move(body_), reply);
      return;
    }
  }
  Accept(std::move(body_), result, reply);
}

void BodyReader::FinishTransport(const http::CallResult& result, Reply* reply) {
  const TransportVerdict verdict = ClassifyTransport(result);
  reply->error_class = verdict.error_class;
  reply->message = verdict.message;
  reply->possibly_billed = verdict.possibly_billed;
  reply->settlement = verdict.settlement;
}

Reply BodyReader::Finish(const http::CallResult& result) {
  Reply reply;
  reply.http_status = status_ != 0 ? status_ : result.status;
  reply.request_id = RequestIdOf(headers_);
  reply.rate = ParseRateHeaders(headers_, absl::Now());
  if (status_ == 0) {
    FinishTransport(result, &reply);
  } else if (result.end == http::CallEnd::kCancelled && mode_ == Mode::kError) {
    FinishTransport(result, &reply);
  } else if (mode_ == Mode::kError) {
    if (absl::StartsWith(body_, kByteOrderMark)) body_.erase(0, kByteOrderMark.size());
    FinishError(ReadProviderError(body_).value_or(ProviderError()), body_, &reply);
    KeepErrorBody(std::move(body_), &reply);
  } else if (encoded_) {
    reply.error_class = ErrorClass::kInvalidResponse;
    reply.message = "the answer has a content encoding that was not asked for";
    SettleAnswer(&reply);
  } else if (mode_ == Mode::kEvents) {
    FinishEvents(result, &reply);
  } else {
    FinishPlain(result, &reply);
  }
  reply.flags = absl::StrJoin(flags_, ",");
  for (std::string* echo : {&reply.request_id, &reply.finish_reason, &reply.body}) {
    RedactKey(context_->key, echo);
  }
  if (reply.error_class != ErrorClass::kNone) {
    RedactKey(context_->key, &reply.message);
    // The provider's words go to logs and terminals.
    reply.message = ExcerptUtf8(PlainLine(reply.message), kMaxMessageBytes);
  }
  return reply;
}

}  // namespace headrace::provider
