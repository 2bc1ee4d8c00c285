// The reader around the dialects: transports that break, odd bodies, secrets.
#include "worker/provider/reply_reader.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/provider/exchange.h"
#include "worker/provider/transport.h"

namespace headrace::provider {
namespace {

using enum ErrorClass;
using http::CallEnd;
using http::TimerKind;
using quota::Settlement;
using testing::HasSubstr;
using testing::Not;

constexpr char kWhole[] =
    R"({"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]})";

TEST(Transport, EveryEndHasItsClassAndItsBill) {  // B14, B15
  const struct {
    CallEnd end;
    TimerKind timer;
    int sends;
    ErrorClass error_class;
    Settlement settlement;
    bool billed;
  } kRows[] = {
      {CallEnd::kNotSent, TimerKind::kNone, 0, kConnect, Settlement::kNotSent, false},
      // Refused by the server before it was processed, though it was on the wire.
      {CallEnd::kNotSent, TimerKind::kNone, 1, kConnect, Settlement::kNotSent, false},
      {CallEnd::kLost, TimerKind::kNone, 1, kConnectionLost, Settlement::kUnknown, true},
      {CallEnd::kTimedOut, TimerKind::kConnect, 0, kConnect, Settlement::kNotSent, false},
      {CallEnd::kTimedOut, TimerKind::kFirstByte, 1, kTimeout, Settlement::kUnknown, true},
      {CallEnd::kTimedOut, TimerKind::kSilence, 1, kTimeout, Settlement::kUnknown, true},
      {CallEnd::kTimedOut, TimerKind::kTotal, 1, kTimeout, Settlement::kUnknown, true},
      {CallEnd::kTimedOut, TimerKind::kTotal, 0, kTimeout, Settlement::kNotSent, false},
      {CallEnd::kTimedOut, TimerKind::kProgress, 1, kIncomplete, Settlement::kUnknown, true},
      {CallEnd::kCancelled, TimerKind::kNone, 0, kCancelled, Settlement::kNotSent, false},
      {CallEnd::kCancelled, TimerKind::kNone, 1, kCancelled, Settlement::kUnknown, true},
      {CallEnd::kTooLarge, TimerKind::kNone, 1, kInvalidResponse, Settlement::kUnknown, true},
      {CallEnd::kBadResponse, TimerKind::kNone, 1, kInvalidResponse, Settlement::kUnknown, true},
      {CallEnd::kComplete, TimerKind::kNone, 1, kIncomplete, Settlement::kUnknown, true},
      {CallEnd::kAborted, TimerKind::kNone, 1, kIncomplete, Settlement::kUnknown, true},
  };
  for (const auto& row : kRows) {
    Exchange exchange;
    exchange.no_headers = true;
    exchange.end = row.end;
    exchange.timer = row.timer;
    exchange.sends = row.sends;
    const Reply reply = Play(OpenAiModel(true), exchange).reply;
    const std::string name(http::CallEndName(row.end));
    EXPECT_EQ(ErrorClassName(reply.error_class), ErrorClassName(row.error_class)) << name;
    EXPECT_EQ(reply.settlement, row.settlement) << name;
    EXPECT_EQ(reply.possibly_billed, row.billed) << name;
    EXPECT_EQ(reply.http_status, 0);
    EXPECT_FALSE(reply.message.empty());
    EXPECT_EQ(reply.body, "");
  }
}

TEST(Reader, AnErrorStatusCountsWhateverTheTransportDoesNext) {
  Exchange exchange;
  exchange.status = 429;
  exchange.headers.emplace_back("retry-after", "3");
  exchange.pieces = {"{\"error\":{\"mess"};
  exchange.end = CallEnd::kLost;
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kRateLimited);
  EXPECT_EQ(reply.retry_after, absl::Seconds(3));
  EXPECT_EQ(reply.body, "\"{\\\"error\\\":{\\\"mess\"");
}

TEST(Reader, AnEnormousWaitStopsTheAccountAndSaysHowLong) {  // B2
  Exchange exchange;
  exchange.status = 429;
  exchange.headers.emplace_back("retry-after", "1296000");
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kNoMoney);
  EXPECT_EQ(reply.penalty, quota::Penalty::Kind::kStop);
  EXPECT_EQ(reply.retry_after, absl::Hours(24 * 15));
  EXPECT_EQ(reply.message, "HTTP 429; it asks to wait 360h00m");
}

TEST(Reader, ACancelledCallIsCancelledEvenWithAnErrorStatus) {
  Exchange exchange;
  exchange.status = 500;
  exchange.end = CallEnd::kCancelled;
  EXPECT_EQ(Play(OpenAiModel(false), exchange).reply.error_class, kCancelled);
}

TEST(Reader, ALongErrorBodyIsBounded) {
  Exchange exchange;
  exchange.status = 500;
  exchange.pieces.assign(100, std::string(4096, 'x'));
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kServerError);
  EXPECT_EQ(reply.body.size(), kMaxErrorBody + 2);
  EXPECT_LE(reply.message.size(), 503u);
}

TEST(Reader, AnHtmlErrorIsNamedAndKept) {
  Exchange exchange;
  exchange.status = 502;
  exchange.headers = {{"content-type", "text/html"}};
  exchange.pieces = {"<html>\r\n<h1>502 Bad Gateway</h1>"};
  const Reply reply = Play(OpenAiModel(true), exchange).reply;
  EXPECT_EQ(reply.error_class, kServerError);
  EXPECT_EQ(reply.message, "HTTP 502: a web page, not the API");
  EXPECT_EQ(reply.body, "\"<html>\\r\\n<h1>502 Bad Gateway</h1>\"");
}

TEST(Reader, A404NamesTheUrl) {  // I3
  Exchange exchange;
  exchange.status = 404;
  EXPECT_THAT(Play(OpenAiModel(false), exchange).reply.message,
              HasSubstr("http://127.0.0.1:1/v1/chat/completions"));
}

TEST(Reader, ARedirectSaysWhereto) {  // I4: often a slash too many, or http for https
  Exchange exchange;
  exchange.status = 301;
  exchange.headers = {{"location", "https://h/v1/chat/completions?key=abc"}};
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kConfig);
  EXPECT_EQ(reply.message,
            "HTTP 301 at http://127.0.0.1:1/v1/chat/completions, a redirect to "
            "https://h/v1/chat/completions");
}

TEST(Reader, AnEchoedKeyIsTakenOut) {
  Exchange exchange;
  exchange.status = 401;
  exchange.pieces = {
      "{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"Incorrect API key: "
      "sk-test-0123456789.\"}}"};
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kAuth);
  EXPECT_THAT(reply.message, HasSubstr("[redacted]"));
  EXPECT_THAT(reply.message, Not(HasSubstr("sk-test-0123456789")));
  EXPECT_THAT(reply.body, Not(HasSubstr("sk-test-0123456789")));
}

TEST(Reader, AnEchoedKeyThatDoesNotFitIsTakenOut) {
  // As long as those of projects are: a word of an error keeps less.
  const std::string key = "sk-proj-" + std::string(156, 'x') + "y";
  for (const std::string& body :
       {"{\"error\":\"Incorrect API key provided: " + key + ".\"}",
        "{\"error\":{\"code\":\"" + key + "\",\"type\":\"" + key + "\"}}", "no: " + key}) {
    for (const int status : {200, 401}) {
      Exchange exchange;
      exchange.status = status;
      exchange.pieces = {body};
      const Reply reply = Play(OpenAiModel(false), exchange, {}, key).reply;
      EXPECT_NE(reply.error_class, kNone);
      EXPECT_THAT(reply.message, Not(HasSubstr("sk-proj-xxxx"))) << body;
      EXPECT_THAT(reply.body, Not(HasSubstr("sk-proj-xxxx"))) << body;
    }
  }
}

TEST(Reader, AKeyThatIsEchoedAnywhereIsTakenOut) {
  const std::string key = "sk-test-0123456789";
  Exchange exchange;
  exchange.headers = {{"x-request-id", "a " + key}};
  exchange.pieces = {"{\"user\":\"" + key + R"(","choices":[{"message":{"content":"hi"},)" +
                     "\"finish_reason\":\"" + key + "\"}]}"};
  const Reply reply = Play(OpenAiModel(false), exchange, {}, key).reply;
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.request_id, "a [redacted]");
  EXPECT_EQ(reply.finish_reason, "[redacted]");
  EXPECT_EQ(reply.body, R"({"user":"[redacted]","choices":[{"message":{"content":"hi"},)"
                        R"("finish_reason":"[redacted]"}]})");
}

TEST(Reader, AnErrorWithoutAMessageShowsWhatCame) {
  Exchange exchange;
  exchange.pieces = {R"({"error":{"reason_code":17}})"};
  EXPECT_EQ(Play(OpenAiModel(false), exchange).reply.message,
            R"(HTTP 200: {"error":{"reason_code":17}})");
  exchange.headers = EventStream();
  exchange.pieces = {"data: {\"error\":{\"reason_code\":17}}\n\n"};
  EXPECT_EQ(Play(OpenAiModel(true), exchange).reply.message,
            R"(HTTP 200: {"error":{"reason_code":17}})");
}

TEST(Reader, AProvidersWordsCannotSteerATerminal) {
  Exchange exchange;
  exchange.status = 400;
  exchange.pieces = {R"({"error":{"message":"no\u001b]0;title\u0007\r\nmore\u009b2J"}})"};
  EXPECT_EQ(Play(OpenAiModel(false), exchange).reply.message, "HTTP 400: no ]0;title   more 2J");
}

TEST(Reader, AByteOrderMarkIsNoPartOfABody) {
  Exchange exchange;
  exchange.pieces = {"\xEF\xBB\xBF" + std::string(kWhole)};
  for (const bool stream : {false, true}) {
    const Reply reply = Play(OpenAiModel(stream), exchange).reply;
    EXPECT_EQ(reply.error_class, kNone) << reply.message;
    EXPECT_EQ(AnswerText(reply.body), "hi");
  }
  exchange.status = 400;
  exchange.pieces = {"\xEF\xBB\xBF{\"error\":{\"message\":\"no\",\"code\":\"content_filter\"}}"};
  EXPECT_EQ(Play(OpenAiModel(false), exchange).reply.error_class, kContentFilter);
}

TEST(Reader, AByteOrderMarkThatComesInPiecesIsNoneTheLess) {
  const std::string body = " \xEF\xBB\xBF " + std::string(kWhole);
  for (const bool stream : {false, true}) {
    Exchange exchange;
    for (const char byte : body) exchange.pieces.push_back(std::string(1, byte));
    const Reply reply = Play(OpenAiModel(stream), exchange).reply;
    EXPECT_EQ(reply.error_class, kNone) << reply.message;
    EXPECT_EQ(AnswerText(reply.body), "hi");
  }
  // What only begins like one is what came.
  Exchange exchange;
  exchange.pieces = {"\xEF", "\xBB", "{}"};
  EXPECT_EQ(Play(OpenAiModel(false), exchange).reply.error_class, kInvalidResponse);
}

TEST(Reader, AnEncodedAnswerIsRefused) {  // A20
  Exchange exchange;
  exchange.headers = {{"content-type", "text/event-stream"}, {"content-encoding", "zstd"}};
  exchange.pieces = {"\x28\xB5\x2F\xFD"};
  const Played played = Play(OpenAiModel(true), exchange);
  EXPECT_EQ(played.reply.error_class, kInvalidResponse);
  EXPECT_THAT(played.reply.message, HasSubstr("content encoding"));
  EXPECT_EQ(played.verdicts.back(), http::BodyVerdict::kAbort);
}

TEST(Reader, AStreamIsRecognisedByItsBodyWhereTheTypeIsWrong) {
  Exchange exchange;
  exchange.headers = {{"content-type", "application/json"}};
  exchange.pieces = {"\n", Content("x") + kStop + kDone};
  EXPECT_EQ(Play(OpenAiModel(true), exchange).reply.error_class, kNone);
  exchange.headers = {};
  EXPECT_EQ(Play(OpenAiModel(true), exchange).reply.error_class, kNone);
}

TEST(Reader, AnErrorInPlaceOfAStreamIsRecognisedByItsBody) {
  Exchange exchange;
  exchange.headers = EventStream();
  exchange.pieces = {"{\"error\":{\"message\":\"m\",\"code\":", "429}}"};
  EXPECT_EQ(Play(OpenAiModel(true), exchange).reply.error_class, kRateLimited);
}

TEST(Reader, AStreamThatWasNotAskedForIsRead) {
  Exchange exchange;
  exchange.headers = EventStream();
  exchange.pieces = {Content("x") + kStop + kDone};
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(AnswerText(reply.body), "x");
}

TEST(Reader, ATooLargeEventIsInvalid) {
  Exchange exchange;
  exchange.headers = EventStream();
  exchange.pieces.push_back(Content("x"));
  exchange.pieces.push_back("data: \"");
  for (int i = 0; i < 17; ++i) exchange.pieces.push_back(std::string(size_t{1} << 20, 'x'));
  const Played played = Play(OpenAiModel(true), exchange);
  EXPECT_EQ(played.verdicts.back(), http::BodyVerdict::kAbort);
  EXPECT_EQ(played.reply.error_class, kInvalidResponse);
  EXPECT_THAT(played.reply.message, HasSubstr("16 MB"));
}

TEST(Reader, ALostStreamKeepsWhatCame) {  // A15
  Exchange exchange;
  exchange.end = CallEnd::kLost;
  const Reply reply = PlayStream(OpenAiModel(true), Content("half"), exchange);
  EXPECT_EQ(reply.error_class, kConnectionLost);
  EXPECT_TRUE(reply.possibly_billed);
  EXPECT_EQ(AnswerText(reply.body), "half");
}

TEST(Reader, RequestIdsAndLimitsComeFromTheHeaders) {
  Exchange exchange;
  exchange.headers.emplace_back("x-request-id", "req-1");
  exchange.headers.emplace_back("x-ratelimit-remaining-requests", "5");
  exchange.pieces = {
      "{\"choices\":[{\"message\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}],"
      "\"usage\":{\"prompt_tokens\":1}}"};
  const Reply reply = Play(OpenAiModel(false), exchange).reply;
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.settlement, Settlement::kCharged);
  EXPECT_FALSE(reply.possibly_billed);
  EXPECT_EQ(reply.request_id, "req-1");
  EXPECT_EQ(reply.rate.requests.remaining, 5);
}

}  // namespace
}  // namespace headrace::provider
