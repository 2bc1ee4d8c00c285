// Answers of the messages API, streamed and not: cases A10, C10, H3, H4.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using enum ErrorClass;
using http::BodyVerdict;
using testing::HasSubstr;

std::string Event(const std::string& type, const std::string& members) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" +
         (members.empty() ? "" : "," + members) + "}\n\n";
}

std::string Start() {
  return Event("message_start",
               R"("message":{"id":"msg_1","type":"message","role":"assistant","model":"m",)"
               R"("content":[],"stop_reason":null,"stop_sequence":null,)"
               R"("usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":1}})");
}

std::string BlockStart(int index, const std::string& block) {
  return Event("content_block_start",
               "\"index\":" + std::to_string(index) + ",\"content_block\":" + block);
}

std::string Delta(int index, const std::string& delta) {
  return Event("content_block_delta", "\"index\":" + std::to_string(index) + ",\"delta\":" + delta);
}

std::string BlockStop(int index) {
  return Event("content_block_stop", "\"index\":" + std::to_string(index));
}

std::string End(const std::string& reason, int output_tokens = 15) {
  return Event("message_delta", "\"delta\":{\"stop_reason\":\"" + reason +
                                    "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":" +
                                    std::to_string(output_tokens) + "}") +
         Event("message_stop", "");
}

std::string Text(const std::string& text) {
  return BlockStart(0, R"({"type":"text","text":""})") +
         Delta(0, R"({"type":"text_delta","text":")" + text + "\"}") + BlockStop(0);
}

Reply Stream(const std::string& stream) { return PlayStream(AnthropicModel(true), stream); }

Reply Whole(const std::string& body, int status = 200) {
  Exchange exchange;
  exchange.status = status;
  exchange.pieces = {body};
  return Play(AnthropicModel(false), exchange).reply;
}

TEST(MessageStream, EventsBecomeTheMessage) {
  const Reply reply =
      Stream(Start() + Event("ping", "") + BlockStart(0, R"({"type":"text","text":""})") +
             Delta(0, R"({"type":"text_delta","text":"Hel"})") +
             Delta(0, R"({"type":"text_delta","text":"lo\n"})") + BlockStop(0) + End("end_turn"));
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_EQ(
      reply.body,
      R"({"id":"msg_1","type":"message","role":"assistant","model":"m",)"
      R"("content":[{"type":"text","text":"Hello\n"}],"stop_reason":"end_turn",)"
      R"("stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":15}})");
  EXPECT_EQ(reply.usage.prompt_tokens, 30);
  EXPECT_EQ(reply.usage.cached_tokens, 5);
  EXPECT_EQ(reply.usage.completion_tokens, 15);
  EXPECT_EQ(reply.finish_reason, "end_turn");
  EXPECT_EQ(reply.flags, "");
  EXPECT_EQ(AnswerText(reply.body), "Hello\n");
}

TEST(MessageStream, ThinkingSignaturesToolsAndCitationsAreAssembled) {
  const Reply reply =
      Stream(Start() + BlockStart(0, R"({"type":"thinking","thinking":"","signature":""})") +
             Delta(0, R"({"type":"thinking_delta","thinking":"a"})") +
             Delta(0, R"({"type":"thinking_delta","thinking":"b"})") +
             Delta(0, R"({"type":"signature_delta","signature":"sig=="})") + BlockStop(0) +
             BlockStart(1, R"({"type":"text","text":"","citations":[]})") +
             Delta(1, R"({"type":"citations_delta","citation":{"cited_text":"x"}})") +
             Delta(1, R"({"type":"text_delta","text":"t"})") + BlockStop(1) +
             BlockStart(2, R"({"type":"tool_use","id":"tu","name":"f","input":{}})") +
             Delta(2, R"({"type":"input_json_delta","partial_json":""})") +
             Delta(2, R"({"type":"input_json_delta","partial_json":"{\"a\": \"\\n"})") +
             Delta(2, R"({"type":"input_json_delta","partial_json":"\"}"})") + BlockStop(2) +
             End("tool_use"));
  EXPECT_EQ(reply.error_class, kNone) << reply.message;
  EXPECT_THAT(reply.body,
              HasSubstr(R"("content":[{"type":"thinking","thinking":"ab","signature":"sig=="},)"
                        R"({"type":"text","text":"t","citations":[{"cited_text":"x"}]},)"
                        R"({"type":"tool_use","id":"tu","name":"f","input":{"a":"\n"}}])"));
  EXPECT_EQ(AnswerText(reply.body), "t");
}

TEST(MessageStream, AToolInputCutByTheLimitIsKeptAndNotRepaired) {  // H3
  const Reply reply =
      Stream(Start() + BlockStart(0, R"({"type":"tool_use","id":"t","name":"f","input":{}})") +
             Delta(0, R"({"type":"input_json_delta","partial_json":"{\"a\": [1"})") + BlockStop(0) +
             End("max_tokens"));
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.finish_reason, "max_tokens");
  EXPECT_THAT(reply.body, HasSubstr(R"("input":{},"partial_json":"{\"a\": [1"})"));
}

TEST(MessageStream, OnlyMessageStopEndsAMessage) {
  const std::string whole = Start() + Text("x") + End("end_turn");
  const std::string cut = whole.substr(0, whole.size() - Event("message_stop", "").size());
  const Reply reply = Stream(cut);
  EXPECT_EQ(reply.error_class, kIncomplete);
  EXPECT_TRUE(reply.possibly_billed);
  EXPECT_EQ(AnswerText(reply.body), "x");
  EXPECT_EQ(Stream(Start() + Text("x")).error_class, kIncomplete);
}

TEST(MessageStream, AnOverloadInA200IsAnOverload) {  // A10
  const std::string error =
      Event("error", R"("error":{"type":"overloaded_error","message":"Overloaded"})");
  const Reply first = Stream(error);
  EXPECT_EQ(first.error_class, kOverloaded);
  EXPECT_EQ(first.penalty, quota::Penalty::Kind::kCapacity);
  EXPECT_FALSE(first.possibly_billed);
  EXPECT_EQ(first.settlement, quota::Settlement::kRejected);
  const Reply later = Stream(Start() + Text("half") + error);
  EXPECT_EQ(later.error_class, kOverloaded);
  EXPECT_TRUE(later.possibly_billed);
  EXPECT_EQ(later.settlement, quota::Settlement::kUnknown);
}

TEST(MessageStream, AnErrorTypeStandsForItsStatus) {  // A10, A13
  const struct {
    const char* type;
    ErrorClass error_class;
  } kRows[] = {{"rate_limit_error", kRateLimited},
               {"api_error", kServerError},
               {"invalid_request_error", kBadRequest},
               {"authentication_error", kAuth},
               {"permission_error", kAuth},
               {"request_too_large", kNeverFits},
               {"timeout_error", kServerError},
               {"billing_error", kNoMoney},
               {"not_found_error", kConfig}};
  for (const auto& row : kRows) {
    EXPECT_EQ(Stream(Event("error",
                           R"("error":{"type":")" + std::string(row.type) + R"(","message":"m"})"))
                  .error_class,
              row.error_class)
        << row.type;
  }
}

TEST(MessageStream, PingsAreNoProgressAndUnknownEventsAreIgnored) {
  Exchange exchange;
  exchange.headers = EventStream();
  exchange.pieces = {Start(),
                     Event("ping", ""),
                     BlockStart(0, R"({"type":"text","text":""})"),
                     Delta(0, R"({"type":"text_delta","text":"\n"})"),
                     Delta(0, R"({"type":"text_delta","text":"x"})"),
                     Event("news", R"("a":1)"),
                     BlockStop(0),
                     End("end_turn")};
  const Played played = Play(AnthropicModel(true), exchange);
  using enum BodyVerdict;
  EXPECT_THAT(played.verdicts, testing::ElementsAre(kKeepAlive, kKeepAlive, kKeepAlive, kKeepAlive,
                                                    kProgress, kKeepAlive, kKeepAlive, kComplete));
  EXPECT_EQ(played.reply.error_class, kNone);
}

TEST(MessageStream, ADeltaForNoBlockIsCorrupt) {
  EXPECT_EQ(Stream(Start() + Delta(3, R"({"type":"text_delta","text":"x"})")).error_class,
            kInvalidResponse);
}

TEST(MessageStream, ATypeThatIsNotKnownYetIsKept) {
  const Reply reply =
      Stream(Start() + BlockStart(0, R"({"type":"future"})") +
             Delta(0, R"({"type":"future_delta","v":1})") +
             Delta(0, R"({"type":"future_delta","v":2})") + BlockStop(0) + End("end_turn"));
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.flags, "unknown_delta");
  EXPECT_THAT(reply.body,
              HasSubstr(R"({"type":"future","unknown_deltas":[{"type":"future_delta","v":1},)"
                        R"({"type":"future_delta","v":2}]})"));
}

TEST(MessageStream, ARefusalEndsTheStreamAsOne) {  // C10, H4
  const Reply reply = Stream(Start() + End("refusal"));
  EXPECT_EQ(reply.error_class, kRefusal);
  EXPECT_THAT(reply.body, HasSubstr("\"content\":[]"));
}

TEST(Message, ARefusalWithoutContentIsARefusal) {  // C10
  const Reply reply = Whole(
      R"({"type":"message","content":[],"stop_reason":"refusal","stop_details":{"category":"bio"}})");
  EXPECT_EQ(reply.error_class, kRefusal);
  EXPECT_THAT(reply.message, HasSubstr("bio"));
  EXPECT_EQ(Whole(R"({"content":[{"type":"text","text":"I can't"}],"stop_reason":"refusal"})")
                .error_class,
            kRefusal);
}

TEST(Message, StopReasonsAreRecorded) {
  for (const char* reason : {"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn"}) {
    const Reply reply = Whole(R"({"content":[{"type":"text","text":"x"}],"stop_reason":")" +
                              std::string(reason) + "\"}");
    EXPECT_EQ(reply.error_class, kNone);
    EXPECT_EQ(reply.finish_reason, reason);
  }
}

TEST(Message, NothingButThinkingIsEmpty) {
  EXPECT_EQ(Whole(R"({"content":[],"stop_reason":"end_turn"})").error_class, kEmptyAnswer);
  EXPECT_EQ(Whole(R"({"content":[{"type":"thinking","thinking":"t"}],"stop_reason":"max_tokens"})")
                .error_class,
            kEmptyAnswer);
  EXPECT_EQ(Whole(R"({"stop_reason":"end_turn"})").error_class, kInvalidResponse);
  EXPECT_EQ(Whole(R"({"content":null})").error_class, kInvalidResponse);
}

TEST(Message, AnErrorBodyKeepsItsRequestId) {
  const Reply reply = Whole(
      R"({"type":"error","error":{"type":"rate_limit_error","message":"m"},"request_id":"req_1"})",
      429);
  EXPECT_EQ(reply.error_class, kRateLimited);
  EXPECT_EQ(reply.request_id, "req_1");
  EXPECT_EQ(reply.message, "HTTP 429 (rate_limit_error): m");
}

}  // namespace
}  // namespace headrace::provider
