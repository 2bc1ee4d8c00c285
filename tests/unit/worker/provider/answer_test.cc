// Bodies that were not streamed: cases B9, B10, B18, C1 to C11, H1, H4, H7.
#include "worker/provider/answer.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using enum ErrorClass;
using testing::HasSubstr;

Reply Answer(const std::string& body, const char* url = "",
             http::CallEnd end = http::CallEnd::kComplete) {
  Exchange exchange;
  exchange.pieces = {body};
  exchange.end = end;
  ItemRequest item;
  if (*url != '\0') {
    item.body = "{}";
    item.url = url;
  }
  return Play(OpenAiModel(false), exchange, item).reply;
}

std::string Choice(const std::string& message, const std::string& finish = "\"stop\"") {
  return "{\"choices\":[{\"index\":0,\"message\":" + message + ",\"finish_reason\":" + finish +
         "}]}";
}

TEST(Answer, WithoutChoicesItIsInvalidAndKept) {  // C1
  for (const char* body : {R"({"id":"x","choices":null,"usage":null})", "{}", R"({"choices":[]})",
                           "[]", "1", "null", "\"text\""}) {
    const Reply reply = Answer(body);
    EXPECT_EQ(reply.error_class, kInvalidResponse) << body;
    EXPECT_TRUE(reply.possibly_billed);
    EXPECT_EQ(reply.body, body);
  }
}

TEST(Answer, ReasoningOnlyOrNothingAtAllIsEmpty) {  // C2, C3
  for (const char* message :
       {R"({"content":null,"reasoning_content":"...42"})", R"({"content":"","reasoning":"r"})",
        R"({"content":null})", R"({"content":""})", R"({})", R"({"content":[]})",
        R"({"content":[{"type":"thinking","thinking":"x"}]})",
        R"({"content":null,"tool_calls":[]})"}) {
    for (const char* finish : {"\"stop\"", "\"length\""}) {
      const Reply reply = Answer(Choice(message, finish));
      EXPECT_EQ(reply.error_class, kEmptyAnswer) << message;
      EXPECT_EQ(reply.body, Choice(message, finish));
      EXPECT_TRUE(reply.possibly_billed);
    }
  }
  EXPECT_THAT(Answer(Choice(R"({"content":null,"reasoning":"r"})")).message,
              HasSubstr("reasoning only"));
}

TEST(Answer, ToolCallsAndAudioAreContent) {
  EXPECT_EQ(Answer(Choice(R"({"content":null,"tool_calls":[{"id":"c"}]})")).error_class, kNone);
  EXPECT_EQ(Answer(Choice(R"({"content":null,"function_call":{"name":"f"}})")).error_class, kNone);
  EXPECT_EQ(Answer(Choice(R"({"content":null,"audio":{"id":"a"}})")).error_class, kNone);
}

TEST(Answer, AChoiceWithoutAMessageSaysWhy) {  // C4
  const Reply reply = Answer(
      R"({"choices":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"no such tool"}]})");
  EXPECT_EQ(reply.error_class, kInvalidResponse);
  EXPECT_THAT(reply.message, HasSubstr("MALFORMED_FUNCTION_CALL: no such tool"));
}

TEST(Answer, OnlyWhatIsUsedIsRequired) {  // C5, C6
  const Reply reply =
      Answer(R"({"created":1.5,"x":{"y":[]},"choices":[{"message":{"content":"a"}}]})");
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.usage.prompt_tokens, std::nullopt);
  EXPECT_EQ(reply.usage.completion_tokens, std::nullopt);
  EXPECT_EQ(reply.settlement, quota::Settlement::kUnknown);
  EXPECT_EQ(reply.flags, "no_finish_reason");
  EXPECT_EQ(AnswerText(reply.body), "a");
}

TEST(Answer, NaNAndInfinityAreInvalid) {  // C7
  for (const char* number : {"NaN", "-Infinity", "Infinity"}) {
    const Reply reply =
        Answer(R"({"choices":[{"message":{"content":"a"},"logprobs":{"content":[{"logprob":)" +
               std::string(number) + "}]}}]}");
    EXPECT_EQ(reply.error_class, kInvalidResponse);
    EXPECT_THAT(reply.message, HasSubstr("NaN or Infinity"));
    // Kept, as a string: the body of a record is always JSON.
    EXPECT_THAT(reply.body, testing::StartsWith("\"{\\\"choices\\\""));
  }
}

TEST(Answer, ASurrogatePairIsOneCharacter) {  // C8
  EXPECT_EQ(AnswerText(Answer(Choice(R"({"content":"\ud83d\ude00"})")).body), "\xF0\x9F\x98\x80");
}

TEST(Answer, BrokenUtf8IsInvalidAndKeptReadable) {  // C9
  for (const char* bad : {"abc\xE5", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    const Reply reply = Answer(Choice("{\"content\":\"" + std::string(bad) + "\"}"));
    EXPECT_EQ(reply.error_class, kInvalidResponse);
    EXPECT_THAT(reply.body, HasSubstr("\xEF\xBF\xBD"));
  }
}

TEST(Answer, ARefusalIsARefusal) {  // H4
  const Reply reply = Answer(Choice(R"({"content":null,"refusal":"I can't help"})"));
  EXPECT_EQ(reply.error_class, kRefusal);
  EXPECT_THAT(reply.message, HasSubstr("I can't help"));
  EXPECT_EQ(Answer(Choice(R"({"content":"x","refusal":null})")).error_class, kNone);
}

TEST(Answer, TheOutputLimitIsRecordedAndNoError) {  // H1, H7
  const Reply cut = Answer(Choice(R"({"content":"{\"name\":\"Jo"})", "\"length\""));
  EXPECT_EQ(cut.error_class, kNone);
  EXPECT_EQ(cut.finish_reason, "length");
  EXPECT_EQ(cut.flags, "");
  std::string tail;
  for (int i = 0; i < 40; ++i) tail += " \\n";
  EXPECT_EQ(Answer(Choice("{\"content\":\"{}" + tail + "\"}", "\"length\"")).flags,
            "white_space_tail");
}

TEST(Answer, OtherChoicesThatFailedAreFlagged) {
  EXPECT_EQ(Answer(R"({"choices":[{"message":{"content":"a"},"finish_reason":"stop"},)"
                   R"({"message":{"content":null},"finish_reason":"stop"}]})")
                .flags,
            "some_choices_failed");
}

TEST(Answer, AnErrorObjectInA200IsTheError) {  // B9
  EXPECT_EQ(Answer(R"({"error":{"message":"upstream error","code":504,"metadata":{"raw":"x"}}})")
                .error_class,
            kServerError);
  const Reply flagged = Answer(R"({"error":{"message":"The prompt was flagged","code":502}})");
  EXPECT_EQ(flagged.error_class, kContentFilter);
  EXPECT_EQ(flagged.http_status, 200);
  EXPECT_EQ(flagged.message, "HTTP 200 with an error of the kind 502: The prompt was flagged");
}

TEST(Answer, AnErrorThatSaysNothingBesideAnAnswerIsNone) {
  for (const char* none : {"null", "false", "0", "\"\"", "{}", "[]", "{ }"}) {
    const std::string error = absl::StrCat("\"error\":", none);
    EXPECT_EQ(Answer(absl::StrCat("{", error, R"(,"choices":[{"message":{"content":"a"},)",
                                  R"("finish_reason":"stop"}]})"))
                  .error_class,
              kNone)
        << none;
    EXPECT_EQ(Answer(absl::StrCat("{", error, R"(,"status":"completed","output":[{"type":)",
                                  R"("message","content":[{"type":"output_text","text":"a"}]}]})"),
                     "/v1/responses")
                  .error_class,
              kNone)
        << none;
    EXPECT_EQ(Answer(absl::StrCat("{", error, "}")).error_class, kInvalidResponse) << none;
    EXPECT_EQ(
        PlayStream(OpenAiModel(true), absl::StrCat("data: {", error, R"(,"choices":[{"delta")",
                                                   R"(:{"content":"a"}}]})", "\n\n", kStop, kDone))
            .error_class,
        kNone)
        << none;
  }
}

TEST(Answer, AFailedResponseIsItsError) {  // B10
  EXPECT_EQ(Answer(R"({"status":"failed","error":{"code":"server_error","message":"m"},)"
                   R"("output":[{"type":"reasoning"}]})",
                   "/v1/responses")
                .error_class,
            kServerError);
  EXPECT_EQ(
      Answer(R"({"status":"failed","error":{"code":"context_length_exceeded"}})", "/v1/responses")
          .error_class,
      kNeverFits);
  EXPECT_EQ(Answer(R"({"status":"failed","error":null,"output":[]})", "/v1/responses").error_class,
            kServerError);
  EXPECT_EQ(Answer(R"({"status":"in_progress","output":[]})", "/v1/responses").error_class,
            kIncomplete);
  EXPECT_EQ(Answer(R"({"status":"completed","output":[{"type":"message","content":)"
                   R"([{"type":"refusal","refusal":"no"}]}]})",
                   "/v1/responses")
                .error_class,
            kRefusal);
}

TEST(Answer, EmbeddingsNeedData) {
  const Reply reply =
      Answer(R"({"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":2}})", "/v1/embeddings");
  EXPECT_EQ(reply.error_class, kNone);
  EXPECT_EQ(reply.usage.prompt_tokens, 2);
  EXPECT_EQ(AnswerText(reply.body), "");
  EXPECT_EQ(Answer(R"({"data":[]})", "/v1/embeddings").error_class, kInvalidResponse);
}

TEST(Answer, ABodyCutShortIsIncompleteAndNotBadOutput) {  // B18
  const std::string whole = Choice(R"({"content":"x"})");
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    EXPECT_EQ(Answer(whole.substr(0, cut)).error_class, kIncomplete) << cut;
    EXPECT_EQ(Answer(whole.substr(0, cut), "", http::CallEnd::kLost).error_class, kConnectionLost);
  }
  EXPECT_EQ(Answer("").error_class, kIncomplete);
  const Reply late = Answer(whole, "", http::CallEnd::kLost);
  EXPECT_EQ(late.error_class, kNone);
  EXPECT_EQ(late.flags, "transport_error_after_end");
}

TEST(Answer, AWebPageIsNoAnswer) {
  Exchange exchange;
  exchange.headers = {{"content-type", "text/html"}};
  exchange.pieces = {"<html>hello</html>"};
  const Reply reply = Play(OpenAiModel(true), exchange).reply;
  EXPECT_EQ(reply.error_class, kInvalidResponse);
  EXPECT_EQ(reply.message, "the answer is a web page, not the API");
  EXPECT_EQ(reply.body, "\"<html>hello</html>\"");
}

TEST(AnswerText, EveryTextPartIsRead) {  // C11
  EXPECT_EQ(AnswerText(R"({"output":[{"type":"reasoning"},{"type":"message","content":[)"
                       R"({"type":"output_text","text":"a"}]},{"type":"message","content":[)"
                       R"({"type":"output_text","text":"b"},{"type":"refusal","refusal":"x"}]}]})"),
            "ab");
  EXPECT_EQ(
      AnswerText(R"({"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},)"
                 R"({"type":"tool_use","input":{}},{"type":"text","text":"b"}]})"),
      "ab");
  EXPECT_EQ(AnswerText(Choice(R"({"content":[{"type":"text","text":"p"}]})")), "p");
  EXPECT_EQ(AnswerText(R"({"choices":[{"text":"a"},{"text":"b"}]})"), "a");
  for (const char* body : {"", "null", "[]", "{", R"({"choices":null})", R"({"choices":[1]})",
                           R"({"choices":[{"message":null}]})"}) {
    EXPECT_EQ(AnswerText(body), "") << body;
  }
}

TEST(ReadUsage, AnAbsurdCountOverflowsNoSum) {
  Usage usage;
  ReadUsage(R"({"input_tokens":9223372036854775807,"completion_tokens":1000000001,)"
            R"("cache_read_input_tokens":9223372036854775807,)"
            R"("prompt_tokens_details":{"cached_tokens":9223372036854775807}})",
            &usage);
  EXPECT_EQ(usage.prompt_tokens, std::nullopt);
  EXPECT_EQ(usage.completion_tokens, std::nullopt);
  EXPECT_EQ(usage.cached_tokens, std::nullopt);
}

TEST(ReadUsage, EveryDialectAndNoInventedNumbers) {
  Usage usage;
  ReadUsage(
      R"({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},)"
      R"("completion_tokens_details":{"reasoning_tokens":3}})",
      &usage);
  EXPECT_EQ(usage.prompt_tokens, 10);
  EXPECT_EQ(usage.completion_tokens, 5);
  EXPECT_EQ(usage.cached_tokens, 4);
  EXPECT_EQ(usage.reasoning_tokens, 3);
  Usage anthropic;
  ReadUsage(R"({"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,)"
            R"("output_tokens":5})",
            &anthropic);
  EXPECT_EQ(anthropic.prompt_tokens, 130);
  EXPECT_EQ(anthropic.cached_tokens, 100);
  EXPECT_EQ(anthropic.cache_write_tokens, 20);
  Usage none;
  ReadUsage(R"({"prompt_tokens":null,"completion_tokens":-1,"prompt_tokens_details":null})", &none);
  EXPECT_EQ(none.prompt_tokens, std::nullopt);
  EXPECT_EQ(none.completion_tokens, std::nullopt);
}

}  // namespace
}  // namespace headrace::provider
