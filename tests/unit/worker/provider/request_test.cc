#include "worker/provider/request_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using testing::HasSubstr;

std::string Streaming(const std::string& body, bool usage = true) {
  return WithStreaming(body, ScanRequest(body).value(), usage);
}

BuiltRequest Build(const ModelConfig& config, const ItemRequest& item) {
  return MakeCodec(config, Secret("k")).value()->Build(item).value();
}

std::string BuildError(const ModelConfig& config, const ItemRequest& item) {
  return std::string(MakeCodec(config, Secret("k")).value()->Build(item).status().message());
}

TEST(WithStreaming, MembersArePutInFrontAndNothingElseChanges) {
  EXPECT_EQ(Streaming("{ \"model\" : \"m\",\n \"x\":1e2 }"),
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true}, \"model\" : \"m\",\n "
            "\"x\":1e2 }");
  EXPECT_EQ(Streaming("{}"), "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
  EXPECT_EQ(Streaming("{\"a\":1}", false), "{\"stream\":true,\"a\":1}");
}

TEST(WithStreaming, AStreamMemberIsSetWhereItStands) {
  EXPECT_EQ(Streaming("{\"a\":1, \"stream\" : false ,\"b\":2}", false),
            "{\"a\":1, \"stream\" : true ,\"b\":2}");
  EXPECT_EQ(Streaming("{\"stream\":null,\"stream\":false}", false),
            "{\"stream\":true,\"stream\":true}");
  EXPECT_EQ(Streaming("{\"stream\":true}"),
            "{\"stream_options\":{\"include_usage\":true},\"stream\":true}");
}

TEST(WithStreaming, UsageIsAskedForWithinTheOptionsThatAreThere) {
  EXPECT_EQ(Streaming("{\"stream\":true,\"stream_options\":{\"include_usage\":true}}"),
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
  EXPECT_EQ(Streaming("{\"stream\":true,\"stream_options\":{ \"include_usage\" : false }}"),
            "{\"stream\":true,\"stream_options\":{ \"include_usage\" : true }}");
  EXPECT_EQ(Streaming("{\"stream\":true,\"stream_options\":{\"x\":1}}"),
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true,\"x\":1}}");
  EXPECT_EQ(Streaming("{\"stream\":true,\"stream_options\":{ }}"),
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true }}");
  EXPECT_EQ(Streaming("{\"stream\":true,\"stream_options\":null}"),
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
}

TEST(ScanRequest, LimitsAndChoicesAreRead) {
  EXPECT_EQ(ScanRequest("{\"max_tokens\":7}")->max_output, 7);
  EXPECT_EQ(ScanRequest("{\"max_completion_tokens\":9,\"max_tokens\":7}")->max_output, 9);
  EXPECT_EQ(ScanRequest("{\"max_output_tokens\":11}")->max_output, 11);
  EXPECT_EQ(ScanRequest("{\"max_tokens\":null}")->max_output, std::nullopt);
  EXPECT_EQ(ScanRequest("{\"n\":3}")->choices, 3);
  EXPECT_EQ(ScanRequest("{\"n\":-3}")->choices, 1);
  for (const char* body : {"", "[]", "{", "{} {}", "null", "{\"a\":NaN}"}) {
    EXPECT_EQ(ScanRequest(body).status().code(), absl::StatusCode::kInvalidArgument) << body;
  }
}

TEST(ScanRequest, PromptTextIsCountedAndMarkupIsNot) {
  const auto features = [](const char* body) { return ScanRequest(body)->features; };
  quota::PromptFeatures got =
      features(R"({"model":"mmmmm","messages":[{"role":"user","content":"abc"}]})");
  EXPECT_EQ(got.letters, 3);
  EXPECT_EQ(got.messages, 1);
  got = features(R"({"messages":[{"role":"user","content":[{"type":"text","text":"ab\u00e9"},)"
                 R"({"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]})");
  EXPECT_EQ(got.letters, 2);
  EXPECT_EQ(got.latin, 1);
  EXPECT_EQ(got.images, 1);
  EXPECT_EQ(got.symbols, 0);
  EXPECT_EQ(features(R"({"input":["ab","cd"]})").letters, 4);
  EXPECT_EQ(features(R"({"prompt":[1,2,3]})").other, 3);
}

TEST(OpenAiRequest, ParamsFollowTheMessagesAndStreamingFollowsThem) {
  ModelConfig config = OpenAiModel(true);
  config.params_json = "{\"temperature\": 0, \"max_tokens\":16,\"n\":2}";
  ItemRequest item;
  item.user = "q";
  const BuiltRequest built = Build(config, item);
  EXPECT_EQ(built.request.body,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"
            "\"temperature\":0,\"max_tokens\":16,\"n\":2,\"stream\":true,"
            "\"stream_options\":{\"include_usage\":true}}");
  EXPECT_TRUE(built.stream);
  EXPECT_EQ(built.choices, 2);
  EXPECT_EQ(built.max_output, 16);
}

TEST(OpenAiRequest, MessagesGoOutAsTheyAreAfterTheSystemMessage) {
  ItemRequest item;
  item.system = "s";
  item.messages_json = " [ {\"role\":\"user\", \"content\":\"q\"} ] ";
  EXPECT_EQ(Build(OpenAiModel(false), item).request.body,
            "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
            "{\"role\":\"user\", \"content\":\"q\"}]}");
}

TEST(OpenAiRequest, ABatchBodyGoesOutByteForByte) {
  ItemRequest item;
  item.body = "{ \"model\":\"other\", \"input\":[\"a\"],\t\"x\":1.0 }";
  item.url = "/v1/embeddings";
  for (bool stream : {false, true}) {
    const BuiltRequest built = Build(OpenAiModel(stream), item);
    EXPECT_EQ(built.request.body, item.body);
    EXPECT_EQ(built.request.path, "/v1/embeddings");
    EXPECT_EQ(built.api, Api::kEmbeddings);
    EXPECT_FALSE(built.stream);
  }
}

TEST(OpenAiRequest, ABatchBodyIsStreamedWhenAskedFor) {
  ItemRequest item;
  item.body = "{\"model\":\"o\",\"messages\":[]}";
  item.url = "/v1/chat/completions";
  EXPECT_EQ(Build(OpenAiModel(true), item).request.body,
            "{\"stream\":true,\"stream_options\":{\"include_usage\":true},\"model\":\"o\","
            "\"messages\":[]}");
  item.body = "{\"input\":\"q\"}";
  item.url = "/v1/responses";
  EXPECT_EQ(Build(OpenAiModel(true), item).request.body, "{\"stream\":true,\"input\":\"q\"}");
  EXPECT_EQ(Build(OpenAiModel(true), item).request.path, "/v1/responses");
}

TEST(OpenAiRequest, ABodyThatStreamsByItselfIsLeftAlone) {
  ItemRequest item;
  item.body = "{\"stream\":true,\"messages\":[]}";
  const BuiltRequest built = Build(OpenAiModel(false), item);
  EXPECT_EQ(built.request.body, item.body);
  EXPECT_TRUE(built.stream);
}

TEST(OpenAiRequest, TheIdempotencyKeyIsAHeader) {
  ItemRequest item;
  item.user = "q";
  item.idempotency_key = "job-7-item-9";
  EXPECT_EQ(*http::FindHeader(Build(OpenAiModel(false), item).request.headers, "idempotency-key"),
            "job-7-item-9");
}

TEST(OpenAiRequest, WhatIsNoRequestIsRefusedByField) {
  ItemRequest item;
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("prompt: "));
  item.user = "\xFF";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("prompt: "));
  item.user = "";
  item.messages_json = "{}";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("messages: "));
  item.messages_json = "[]";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("messages: "));
  item.messages_json = "[{},]";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("messages: "));
  item.messages_json = "";
  item.body = "[1]";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("body: "));
  item.body = "{}";
  item.url = "/v1/images";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("url: "));
  item.url = "/v1/messages";
  EXPECT_THAT(BuildError(OpenAiModel(false), item), HasSubstr("url: "));
}

TEST(AnthropicRequest, SystemIsATopLevelMemberAndMaxTokensHasADefault) {
  ItemRequest item;
  item.user = "q";
  item.system = "s";
  const BuiltRequest built = Build(AnthropicModel(true), item);
  EXPECT_EQ(built.request.body,
            "{\"model\":\"m\",\"max_tokens\":4096,\"system\":\"s\",\"messages\":"
            "[{\"role\":\"user\",\"content\":\"q\"}],\"stream\":true}");
  EXPECT_EQ(built.max_output, 4096);
  EXPECT_EQ(built.request.path, "/v1/messages");
}

TEST(AnthropicRequest, ParamsSetMaxTokensAndSystem) {
  ModelConfig config = AnthropicModel(false);
  config.params_json = "{\"max_tokens\":64,\"system\":[{\"type\":\"text\",\"text\":\"s\"}]}";
  ItemRequest item;
  item.user = "q";
  EXPECT_EQ(Build(config, item).request.body,
            "{\"model\":\"m\",\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":"
            "[{\"role\":\"user\",\"content\":\"q\"}],\"max_tokens\":64}");
  item.system = "t";
  EXPECT_THAT(BuildError(config, item), HasSubstr("system: "));
}

TEST(AnthropicRequest, SystemMessagesMoveOutOfTheMessages) {
  ItemRequest item;
  item.messages_json =
      R"([{"role":"system","content":"a\nb"},{"role":"user","content":"q"},{"role":"developer","content":"c"}])";
  EXPECT_EQ(Build(AnthropicModel(false), item).request.body,
            "{\"model\":\"m\",\"max_tokens\":4096,\"system\":\"a\\nb\\n\\nc\",\"messages\":"
            "[{\"role\":\"user\",\"content\":\"q\"}]}");
  item.messages_json = R"([{"role":"system","content":"a"}])";
  EXPECT_THAT(BuildError(AnthropicModel(false), item), HasSubstr("messages: "));
  item.messages_json = R"([{"role":"system","content":[1]},{"role":"user","content":"q"}])";
  EXPECT_THAT(BuildError(AnthropicModel(false), item), HasSubstr("messages: "));
}

TEST(AnthropicRequest, ABodyIsStreamedWhenAskedFor) {
  ItemRequest item;
  item.body = "{\"max_tokens\":1}";
  EXPECT_EQ(Build(AnthropicModel(true), item).request.body, "{\"stream\":true,\"max_tokens\":1}");
  EXPECT_EQ(Build(AnthropicModel(false), item).request.body, item.body);
  item.url = "/v1/chat/completions";
  EXPECT_THAT(BuildError(AnthropicModel(false), item), HasSubstr("url: "));
}

}  // namespace
}  // namespace headrace::provider
