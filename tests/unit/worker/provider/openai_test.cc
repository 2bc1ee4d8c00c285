#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using http::BodyVerdict;

constexpr char kAnswer[] =
    "{\"id\":\"c\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":"
    "{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":"
    "{\"prompt_tokens\":3,\"completion_tokens\":1}}";

TEST(OpenAi, APromptBecomesAChatRequest) {
  auto codec = MakeCodec(OpenAiModel(false), Secret("k")).value();
  ItemRequest item;
  item.user = "What \"is\" it?";
  item.system = "Be brief.";
  const BuiltRequest built = codec->Build(item).value();
  EXPECT_EQ(built.request.body,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
            "{\"role\":\"user\",\"content\":\"What \\\"is\\\" it?\"}]}");
  EXPECT_EQ(built.request.path, "/v1/chat/completions");
  EXPECT_EQ(built.features.messages, 2);
  EXPECT_EQ(*http::FindHeader(built.request.headers, "authorization"), "Bearer k");
}

TEST(OpenAi, AWholeAnswerIsKeptOnOneLine) {
  Exchange exchange;
  exchange.pieces = {"\n\n", "{ \"id\": \"c\",\n",
                     " \"choices\": [ {\"index\":0,\"message\":{\"content\":",
                     "\"h  i\"},\"finish_reason\":\"stop\"} ] ,\"usage\":{\"prompt_tokens\":3}}\n"};
  const Played played = Play(OpenAiModel(false), exchange);
  EXPECT_EQ(played.reply.error_class, ErrorClass::kNone) << played.reply.message;
  EXPECT_EQ(played.reply.body,
            "{\"id\":\"c\",\"choices\":[{\"index\":0,\"message\":{\"content\":\"h  i\"},"
            "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3}}");
  EXPECT_EQ(played.reply.finish_reason, "stop");
  EXPECT_EQ(played.reply.usage.prompt_tokens, 3);
  EXPECT_EQ(played.reply.usage.completion_tokens, std::nullopt);
  EXPECT_EQ(AnswerText(played.reply.body), "h  i");
  EXPECT_EQ(played.verdicts[0], BodyVerdict::kKeepAlive);
  EXPECT_EQ(played.verdicts[1], BodyVerdict::kProgress);
}

TEST(OpenAi, AStreamBecomesTheAnswerOfACallWithoutStreaming) {
  const std::string stream =
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m1\","
      "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
      "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m1\","
      "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\\u00e9\"},\"finish_reason\":null}]}\n\n"
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m1\","
      "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo\"},\"finish_reason\":null}]}\n\n"
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m1\","
      "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
      "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m1\","
      "\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n"
      "data: [DONE]\n\n";
  const std::string want =
      "{\"object\":\"chat.completion\",\"id\":\"c\",\"created\":7,\"model\":\"m1\",\"choices\":"
      "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"h\\u00e9llo\"},"
      "\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,"
      "\"completion_tokens\":2}}";
  for (const auto& pieces : {std::vector<std::string>{stream}, Bytes(stream)}) {
    Exchange exchange;
    exchange.headers = EventStream();
    exchange.pieces = pieces;
    const Played played = Play(OpenAiModel(true), exchange);
    EXPECT_EQ(played.reply.error_class, ErrorClass::kNone) << played.reply.message;
    EXPECT_EQ(played.reply.body, want);
    EXPECT_EQ(played.reply.flags, "");
    EXPECT_EQ(played.reply.usage.completion_tokens, 2);
    EXPECT_EQ(played.verdicts.back(), BodyVerdict::kComplete);
    EXPECT_EQ(AnswerText(played.reply.body), "h\xC3\xA9llo");
  }
}

TEST(OpenAi, AnErrorStatusIsClassifiedAndItsBodyKept) {
  Exchange exchange;
  exchange.status = 429;
  exchange.headers.emplace_back("retry-after", "2");
  exchange.pieces = {
      "{\"error\":{\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\","
      "\"message\":\"slow\"}}"};
  const Played played = Play(OpenAiModel(true), exchange);
  EXPECT_EQ(played.reply.error_class, ErrorClass::kRateLimited);
  EXPECT_EQ(played.reply.retry_after, absl::Seconds(2));
  EXPECT_EQ(played.reply.penalty, quota::Penalty::Kind::kRate);
  EXPECT_EQ(played.reply.penalty_dimension, quota::Dimension::kTokens);
  EXPECT_EQ(played.reply.settlement, quota::Settlement::kRejected);
  EXPECT_EQ(played.reply.body, exchange.pieces[0]);
  EXPECT_EQ(played.reply.message, "HTTP 429 (rate_limit_exceeded): slow");
}

TEST(OpenAi, AnAnswerWithoutStreamingIsTakenWhereAStreamWasAskedFor) {
  Exchange exchange;
  exchange.pieces = {kAnswer};
  const Played played = Play(OpenAiModel(true), exchange);
  EXPECT_EQ(played.reply.error_class, ErrorClass::kNone);
  EXPECT_EQ(played.reply.body, kAnswer);
  EXPECT_EQ(played.reply.flags, "not_streamed");
}

}  // namespace
}  // namespace headrace::provider
