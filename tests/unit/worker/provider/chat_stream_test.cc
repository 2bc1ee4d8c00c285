// Streams of chat completions: cases A1 to A21 and C8, each also one byte per read.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using enum ErrorClass;
using http::BodyVerdict;
using testing::HasSubstr;

Reply Stream(const std::string& stream) { return PlayStream(OpenAiModel(true), stream); }

TEST(ChatStream, AMultiByteCharacterSplitBetweenReadsIsWhole) {  // A1
  const std::string stream = Content("\xF0\x9F\x8C\x8D") + kStop + kDone;
  const size_t at = stream.find('\xF0');
  for (size_t cut = at; cut < at + 5; ++cut) {
    Exchange exchange;
    exchange.headers = EventStream();
    exchange.pieces = {stream.substr(0, cut), stream.substr(cut)};
    const Reply reply = Play(OpenAiModel(true), exchange).reply;
    EXPECT_EQ(reply.error_class, kNone);
    EXPECT_EQ(AnswerText(reply.body), "\xF0\x9F\x8C\x8D");
  }
}

TEST(ChatStream, AnEventWithBrokenUtf8IsAnErrorAndNoReplacement) {  // A1, C9
  for (const char* bad : {"abc\xE5", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    const Reply reply = Stream(Content(bad) + kStop + kDone);
    EXPECT_EQ(reply.error_class, kInvalidResponse);
    EXPECT_TRUE(reply.possibly_billed);
  }
}

TEST(ChatStream, UnicodeLineSeparatorsStayInTheText) {  // A2
  const Reply reply = Stream(Content("a\xE2\x80\xA8"
                                     "b\xC2\x85"
                                     "c\xE2\x80\xA9") +
                             kStop + kDone);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(AnswerText(reply.body),
            "a\xE2\x80\xA8"
            "b\xC2\x85"
            "c\xE2\x80\xA9");
}

TEST(ChatStream, RawControlCharactersAreOneErrorAndNoSplit) {  // A2
  EXPECT_EQ(Stream(Content("a\x0B") + kStop + kDone).error_class, kInvalidResponse);
  EXPECT_EQ(Stream(Content("a\x0C") + kStop + kDone).error_class, kInvalidResponse);
}

TEST(ChatStream, TextIsUtf8WhateverTheCharset) {  // A3
  Exchange exchange;
  exchange.headers = {{"content-type", "text/event-stream; charset=ISO-8859-1"}};
  exchange.pieces = {Content("\xE2\x9C\x85") + kStop + kDone};
  EXPECT_EQ(AnswerText(Play(OpenAiModel(true), exchange).reply.body), "\xE2\x9C\x85");
}

TEST(ChatStream, NoSpaceAfterDataAndAnyLineEnd) {  // A4, A5
  const std::string stream =
      "data:{\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n" +
      std::string(kStop) + "data:[DONE]\n\n";
  const Reply plain = Stream(stream);
  EXPECT_EQ(plain.error_class, kNone);
  EXPECT_EQ(AnswerText(plain.body), "hi");
  for (const char* end : {"\r\n", "\r"}) {
    std::string other;
    for (char c : stream) other += c == '\n' ? std::string(end) : std::string(1, c);
    EXPECT_EQ(Stream(other).body, plain.body);
  }
}

TEST(ChatStream, CommentsAndBlocksWithoutDataAreIgnored) {  // A6, A7, A8
  const Reply reply = Stream(": OPENROUTER PROCESSING\n\n: keep-alive\n\nretry: 1000\n\nid: 7\n" +
                             Content("a") + ": ping\n\nevent: keepalive\n\ndata:\n\ndata: \n\n" +
                             "data: \"\"\n\n" + Content("b") + kStop + kDone);
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_EQ(AnswerText(reply.body), "ab");
}

TEST(ChatStream, AStreamWithoutAnEndIsIncompleteAndKeptToLookAt) {  // A9
  const Reply reply = Stream(Content("a") + Content("b") + Content("c"));
  EXPECT_EQ(reply.error_class, kIncomplete);
  EXPECT_TRUE(reply.possibly_billed);
  EXPECT_EQ(reply.settlement, quota::Settlement::kUnknown);
  EXPECT_EQ(AnswerText(reply.body), "abc");
  EXPECT_EQ(reply.finish_reason, "");
}

TEST(ChatStream, AnErrorObjectAsAChunkIsTheError) {  // A11
  const std::string error =
      "{\"error\":{\"message\":\"daily limit\",\"code\":429,\"metadata\":{\"headers\":"
      "{\"X-RateLimit-Remaining\":\"0\",\"X-RateLimit-Reset\":\"1760000000000\"}}},\"user_id\":"
      "\"u\"}\n\n";
  for (const std::string head : {"data: ", "event: error\ndata: "}) {
    const Reply reply = Stream(head + error);
    EXPECT_EQ(reply.error_class, kRateLimited);
    EXPECT_EQ(reply.penalty, quota::Penalty::Kind::kRate);
    EXPECT_EQ(reply.settlement, quota::Settlement::kRejected);
    EXPECT_FALSE(reply.possibly_billed);
    EXPECT_EQ(reply.retry_after, absl::ZeroDuration());
    EXPECT_EQ(reply.http_status, 200);
    EXPECT_THAT(reply.message, HasSubstr("daily limit"));
  }
}

TEST(ChatStream, AnErrorAfterHalfAnAnswerMayBeBilled) {  // A10, A11
  const Reply reply = Stream(Content("half") +
                             "data: {\"error\":{\"type\":\"server_error\",\"message\":\"m\"}}\n\n");
  EXPECT_EQ(reply.error_class, kServerError);
  EXPECT_TRUE(reply.possibly_billed);
  EXPECT_EQ(reply.settlement, quota::Settlement::kUnknown);
  EXPECT_EQ(AnswerText(reply.body), "half");
}

TEST(ChatStream, FlatErrorsAreErrors) {
  EXPECT_EQ(Stream("data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n").error_class,
            kBadRequest);
  EXPECT_EQ(Stream("event: error\ndata: {\"message\":\"m\",\"code\":429}\n\n").error_class,
            kRateLimited);
  EXPECT_EQ(Stream("event: error\ndata: boom\n\n").error_class, kServerError);
  EXPECT_EQ(Stream("error: {\"code\":500,\"message\":\"m\"}\n\n").error_class, kServerError);
}

TEST(ChatStream, AnErrorGluedToHalfAnEventKeepsItsClass) {  // A12
  const Reply reply = Stream(
      "data: {\"choices\":[{\"delta\":{\"con\nevent: error\n"
      "data: {\"error\":{\"type\":\"overloaded_error\"}}\n\n");
  EXPECT_EQ(reply.error_class, kOverloaded);
  const Reply unknown = Stream("data: {\"choices\":[{\"delta\":{\"con\ndata: {\"x\":1}\n\n");
  EXPECT_EQ(unknown.error_class, kInvalidResponse);
}

TEST(ChatStream, ADeterministicErrorIsNotCalledIncomplete) {  // A13
  const Reply reply = Stream(
      "event: error\ndata: {\"error\":{\"type\":\"invalid_request_error\","
      "\"message\":\"bad\"}}\n\n");
  EXPECT_EQ(reply.error_class, kBadRequest);
  EXPECT_THAT(reply.message, HasSubstr("bad"));
}

TEST(ChatStream, CommentsPingsAndWhiteSpaceAreSignsOfLifeAndNoProgress) {  // A14, A21
  Exchange exchange;
  exchange.headers = EventStream();
  exchange.pieces = {": keepalive\n\n",
                     Chunk("{\"role\":\"assistant\",\"content\":\"\"}"),
                     Content("x"),
                     Content(" \\n\\t"),
                     "data:\n\n",
                     Chunk("{\"reasoning_content\":\"hm\"}"),
                     "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
                     Content("y").substr(0, 20),
                     Content("y").substr(20),
                     kStop,
                     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n",
                     kDone};
  using enum BodyVerdict;
  EXPECT_THAT(
      Play(OpenAiModel(true), exchange).verdicts,
      testing::ElementsAre(kKeepAlive, kKeepAlive, kProgress, kKeepAlive, kKeepAlive, kProgress,
                           kKeepAlive, kKeepAlive, kProgress, kProgress, kComplete, kComplete));
}

TEST(ChatStream, EndlessWhiteSpaceEndsAsIncompleteAndIsKept) {  // A21
  std::string stream = Content("{\\\"a\\\":1}");
  for (int i = 0; i < 100; ++i) stream += Content("  \\n");
  Exchange exchange;
  exchange.end = http::CallEnd::kTimedOut;
  exchange.timer = http::TimerKind::kProgress;
  const Reply reply = PlayStream(OpenAiModel(true), stream, exchange);
  EXPECT_EQ(reply.error_class, kIncomplete);
  EXPECT_THAT(AnswerText(reply.body), testing::StartsWith("{\"a\":1}  \n"));
}

TEST(ChatStream, OnlyTheFirstColonSplitsALine) {  // A17
  EXPECT_EQ(AnswerText(Stream(Content("k: v, x: y") + kStop + kDone).body), "k: v, x: y");
}

TEST(ChatStream, ToolCallsWithoutIndexAreOneCall) {  // A18
  const Reply reply =
      Stream(Chunk(R"({"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a\""}}]})") +
             Chunk(R"({"tool_calls":[{"function":{"arguments":":1}"}}]})") +
             Chunk("{}", "\"tool_calls\"") + kDone);
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_EQ(reply.flags, "");
  EXPECT_EQ(
      reply.body,
      R"({"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",)"
      R"("content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f",)"
      R"("arguments":"{\"a\":1}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null})");
}

TEST(ChatStream, AmbiguousToolCallsAreFlagged) {  // A18
  const Reply reply = Stream(
      Chunk(R"({"tool_calls":[{"function":{"arguments":"a"}},{"function":{"arguments":"b"}}]})") +
      Chunk("{}", "\"tool_calls\"") + kDone);
  EXPECT_EQ(reply.flags, "tool_calls_ambiguous");
}

TEST(ChatStream, UsageChunksAreTakenAtAnyPlace) {  // A19
  const std::string first =
      "data: {\"choices\":[],\"model\":\"\",\"id\":\"\",\"created\":0,"
      "\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n";
  const std::string middle =
      "data: {\"id\":\"c\",\"model\":\"m1\",\"created\":5,\"choices\":[{\"index\":0,"
      "\"delta\":{\"content\":\"x\"},\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":1}}\n\n";
  const std::string without_delta =
      "data: {\"choices\":[{\"index\":0,\"content_filter_results\":{}}]}\n\n";
  for (const std::string last : {"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n",
                                 "data: {\"choices\":null,\"usage\":{\"prompt_tokens\":9}}\n\n",
                                 "data: {\"usage\":{\"prompt_tokens\":9}}\n\n"}) {
    const Reply reply = Stream(first + middle + without_delta + kStop + last + kDone);
    EXPECT_EQ(reply.error_class, kNone) << reply.message;
    EXPECT_EQ(reply.usage.prompt_tokens, 9);
    EXPECT_THAT(reply.body, testing::StartsWith(
                                "{\"object\":\"chat.completion\",\"model\":\"m1\",\"id\":\"c\","
                                "\"created\":5,\"prompt_filter_results\":[{\"prompt_index\":0}]"));
    EXPECT_THAT(reply.body, HasSubstr("\"content_filter_results\":{}"));
  }
}

TEST(ChatStream, AFinishReasonWithoutDoneIsWholeAndFlagged) {
  const Reply reply = Stream(Content("x") + kStop);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.flags, "no_done_marker");
}

TEST(ChatStream, DoneWithoutAFinishReasonIsWholeAndFlagged) {
  const Reply reply = Stream(Content("x") + kDone);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.flags, "no_finish_reason");
}

TEST(ChatStream, EveryChoiceNeedsItsFinishReason) {
  ModelConfig config = OpenAiModel(true);
  config.params_json = "{\"n\":2}";
  const std::string one = Content("a") + kStop;
  EXPECT_EQ(PlayStream(config, one).error_class, kIncomplete);
  const std::string second =
      "data: "
      "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n";
  const Reply reply = PlayStream(config, second + one);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(AnswerText(reply.body), "a");
  EXPECT_THAT(reply.body,
              HasSubstr("{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"b\"}"));
}

TEST(ChatStream, DoneWithoutItsBlankLineCounts) {
  for (const std::string done : {"data: [DONE]", "data: [DONE]\n", "data: [DONE]\r\n"}) {
    const Reply reply = Stream(Content("x") + kStop + done);
    EXPECT_EQ(reply.error_class, kNone);
    EXPECT_EQ(reply.flags, "no_last_blank_line");
  }
  const std::string stop(kStop);
  EXPECT_EQ(Stream(Content("x") + stop.substr(0, stop.size() - 2)).flags,
            "no_last_blank_line,no_done_marker");
  EXPECT_EQ(Stream(Content("x") + stop.substr(0, stop.size() - 4)).error_class, kIncomplete);
}

TEST(ChatStream, ATransportErrorAfterTheEndIsNoted) {
  for (http::CallEnd end : {http::CallEnd::kLost, http::CallEnd::kTimedOut,
                            http::CallEnd::kCancelled, http::CallEnd::kBadResponse}) {
    Exchange exchange;
    exchange.end = end;
    const Reply reply = PlayStream(OpenAiModel(true), Content("x") + kStop + kDone, exchange);
    EXPECT_EQ(reply.error_class, kNone);
    EXPECT_EQ(reply.flags, "transport_error_after_end");
    EXPECT_FALSE(reply.possibly_billed);
  }
}

TEST(ChatStream, AnErrorAfterTheEndIsNoted) {
  const Reply reply = Stream(Content("x") + kStop + "data: {\"error\":{\"message\":\"late\"}}\n\n");
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.flags, "error_after_end,no_done_marker");
}

TEST(ChatStream, ACorruptEventAfterTheEndIsNoted) {
  const Reply reply = Stream(Content("x") + kStop + "data: {\"usage\":NaN}\n\n" + kDone);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.flags, "error_after_end");
}

TEST(ChatStream, AnErrorBesideItsFinishReasonIsThatError) {
  const Reply reply = Stream(
      Content("x") +
      "data: {\"error\":{\"code\":429,\"message\":\"m\"},\"choices\":[{\"index\":0,\"delta\":{},"
      "\"finish_reason\":\"error\"}]}\n\n");
  EXPECT_EQ(reply.error_class, kRateLimited);
}

TEST(ChatStream, AStreamWithoutAnyEventIsIncomplete) {
  EXPECT_EQ(Stream("").error_class, kIncomplete);
  EXPECT_EQ(Stream(": ping\n\n").error_class, kIncomplete);
  EXPECT_EQ(Stream(kDone).error_class, kInvalidResponse);
}

TEST(ChatStream, ASurrogatePairInTwoDeltasIsOneCharacter) {  // C8
  const Reply reply = Stream(Content("\\ud83d") + Content("\\ude00") + kStop + kDone);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(AnswerText(reply.body), "\xF0\x9F\x98\x80");
}

TEST(ChatStream, ReasoningRefusalAndLogprobsAreKept) {
  const Reply reply = Stream(
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"a\",\"reasoning\":\"r\"},"
      "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.5}]}}]}\n\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"b\",\"reasoning_details\":[1]}"
      ","
      "\"logprobs\":{\"content\":[{\"token\":\"b\",\"logprob\":-1e-3}]}}]}\n\n" +
      Chunk("{\"content\":\"x\",\"reasoning_details\":[2,3],\"annotations\":[]}") + kStop + kDone);
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_EQ(
      reply.body,
      "{\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":"
      "{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"ab\",\"reasoning\":\"r\","
      "\"reasoning_details\":[1,2,3],\"annotations\":[]},\"logprobs\":{\"content\":"
      "[{\"token\":\"a\",\"logprob\":-0.5},{\"token\":\"b\",\"logprob\":-1e-3}]},"
      "\"finish_reason\":\"stop\"}],\"usage\":null}");
  const Reply refused = Stream(Chunk("{\"refusal\":\"I can't\"}") + kStop + kDone);
  EXPECT_EQ(refused.error_class, kRefusal);
  EXPECT_THAT(refused.message, HasSubstr("I can't"));
}

TEST(ChatStream, NaNInAKeptLogprobIsAnInvalidResponse) {  // C7
  const Reply reply = Stream(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":"
      "[{\"logprob\":-Infinity}]}}]}\n\n" +
      std::string(kStop) + kDone);
  EXPECT_EQ(reply.error_class, kInvalidResponse);
  EXPECT_THAT(reply.message, HasSubstr("NaN or Infinity"));
}

TEST(ChatStream, LegacyFunctionCallsAreJoined) {
  const Reply reply = Stream(Chunk(R"({"function_call":{"name":"f","arguments":""}})") +
                             Chunk(R"({"function_call":{"arguments":"{}"}})") +
                             Chunk("{}", "\"function_call\"") + kDone);
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_THAT(reply.body, HasSubstr(R"("function_call":{"name":"f","arguments":"{}"})"));
}

TEST(ChatStream, ALimitOrAFilterIsRecorded) {  // H1
  const Reply cut = Stream(Content("{\\\"name\\\":\\\"Jo") + Chunk("{}", "\"length\"") + kDone);
  EXPECT_EQ(cut.error_class, kNone);
  EXPECT_EQ(cut.finish_reason, "length");
  const Reply filtered = Stream(Content("x") + Chunk("{}", "\"content_filter\"") + kDone);
  EXPECT_EQ(filtered.error_class, kContentFilter);
  EXPECT_TRUE(filtered.possibly_billed);
  EXPECT_EQ(AnswerText(filtered.body), "x");
  EXPECT_EQ(Stream(Content("x") + Chunk("{}", "\"error\"") + kDone).error_class, kServerError);
}

TEST(ChatStream, ReasoningWithoutAnAnswerIsEmpty) {  // C2, C3
  const Reply reply = Stream(Chunk("{\"reasoning_content\":\"...42\"}") + kStop + kDone);
  EXPECT_EQ(reply.error_class, kEmptyAnswer);
  EXPECT_THAT(reply.message, HasSubstr("reasoning only"));
  EXPECT_THAT(reply.body, HasSubstr("\"content\":null,\"reasoning_content\":\"...42\""));
}

TEST(ChatStream, CompletionsGiveATextCompletion) {
  ItemRequest item;
  item.body = "{\"prompt\":\"q\"}";
  item.url = "/v1/completions";
  const std::string stream =
      "data: {\"id\":\"c\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"a\","
      "\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1]},\"finish_reason\":null}]}\n\n"
      "data: {\"id\":\"c\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"b\","
      "\"logprobs\":{\"tokens\":[\"b\"],\"token_logprobs\":[-2]},\"finish_reason\":\"stop\"}]}\n\n"
      "data: [DONE]\n\n";
  const Reply reply = PlayStream(OpenAiModel(true), stream, {}, item);
  EXPECT_EQ(
      reply.body,
      "{\"object\":\"text_completion\",\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"ab\","
      "\"logprobs\":{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-1,-2]},"
      "\"finish_reason\":\"stop\"}],\"usage\":null}");
  EXPECT_EQ(AnswerText(reply.body), "ab");
}

TEST(ChatStream, TooManyChoicesAreRefused) {
  std::string stream;
  for (int i = 0; i < 200; ++i) {
    stream += "data: {\"choices\":[{\"index\":" + std::to_string(i) +
              ",\"delta\":{\"content\":\"x\"}}]}\n\n";
  }
  EXPECT_EQ(Stream(stream + kDone).error_class, kInvalidResponse);
  EXPECT_EQ(Stream("data: {\"choices\":[{\"index\":-1,\"delta\":{}}]}\n\n").error_class,
            kInvalidResponse);
}

// Members are searched from the front: a quarter of a million of them took minutes, in which the
// worker's thread did nothing else and its leases ran out.
TEST(ChatStream, MembersWithoutEndAreDroppedAndFlagged) {
  std::string members;
  for (int i = 0; i < 250'000; ++i) absl::StrAppend(&members, ",\"k", i, "\":[", i, "]");
  const std::string chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"";
  for (const std::string& stream :
       {chunk + "}}]" + members + "}\n\n", chunk + "}" + members + "}]}\n\n",
        chunk + members + "}}]}\n\n", chunk + "},\"logprobs\":{\"x\":[]" + members + "}}]}\n\n"}) {
    const absl::Time start = absl::Now();
    Exchange exchange;
    exchange.headers = EventStream();
    exchange.pieces = {stream + kStop + kDone};
    const Reply reply = Play(OpenAiModel(true), exchange).reply;
    EXPECT_EQ(reply.error_class, kNone) << reply.message;
    EXPECT_EQ(AnswerText(reply.body), "a");
    EXPECT_THAT(reply.flags, HasSubstr("members_dropped"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  }
}

TEST(ResponsesStream, TheLastEventIsTheAnswer) {
  ItemRequest item;
  item.body = "{\"input\":\"q\"}";
  item.url = "/v1/responses";
  const std::string head =
      "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
      "\"response\":{\"status\":\"in_progress\",\"output\":[]}}\n\n"
      "event: response.output_text.delta\ndata: "
      "{\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n";
  const std::string output =
      "\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\"}]}"
      "]";
  const auto last = [&](const std::string& type, const std::string& members) {
    return head + "event: response." + type + "\ndata: {\"type\":\"response." + type +
           "\",\"response\":{" + members + "}}\n\n";
  };
  const auto play = [&](const std::string& stream) {
    return PlayStream(OpenAiModel(true), stream, {}, item);
  };
  Reply reply = play(last("completed", "\"status\":\"completed\"," + output +
                                           ",\"usage\":{\"input_tokens\":3,\"output_tokens\":1,"
                                           "\"output_tokens_details\":{\"reasoning_tokens\":0}}"));
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_EQ(AnswerText(reply.body), "hi");
  EXPECT_EQ(reply.usage.prompt_tokens, 3);
  EXPECT_EQ(reply.usage.reasoning_tokens, 0);
  EXPECT_EQ(reply.finish_reason, "completed");
  reply = play(last("incomplete",
                    "\"status\":\"incomplete\",\"incomplete_details\":"
                    "{\"reason\":\"max_output_tokens\"}," +
                        output));
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.finish_reason, "max_output_tokens");
  reply = play(last("failed",
                    "\"status\":\"failed\",\"error\":{\"code\":\"server_error\","
                    "\"message\":\"stream closed\"},\"output\":[]"));
  EXPECT_EQ(reply.error_class, kServerError);  // B10
  reply =
      play(last("failed", "\"status\":\"failed\",\"error\":{\"code\":\"server_is_overloaded\"}"));
  EXPECT_EQ(reply.error_class, kOverloaded);
  reply = play(head);
  EXPECT_EQ(reply.error_class, kIncomplete);
  EXPECT_EQ(AnswerText(reply.body), "hi");
  reply = play(head +
               "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\","
               "\"message\":\"m\"}\n\n");
  EXPECT_EQ(reply.error_class, kRateLimited);
}

}  // namespace
}  // namespace headrace::provider
