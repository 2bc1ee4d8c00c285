#include "worker/provider/endpoint.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/provider/exchange.h"

namespace headrace::provider {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string UrlOf(Dialect dialect, absl::string_view text, Api api) {
  absl::StatusOr<Endpoint> endpoint = Endpoint::Make(dialect, text);
  return endpoint.ok() ? endpoint->Url(api) : std::string(endpoint.status().message());
}

TEST(Endpoint, OneRuleJoinsBaseUrlAndPath) {
  // Cases I3, I4.
  const struct {
    const char* base;
    const char* want;
  } kRows[] = {
      {"http://h", "http://h/v1/chat/completions"},
      {"http://h/", "http://h/v1/chat/completions"},
      {"http://h//", "http://h/v1/chat/completions"},
      {"http://h/v1", "http://h/v1/chat/completions"},
      {"http://h/v1/", "http://h/v1/chat/completions"},
      {"http://h/v1//", "http://h/v1/chat/completions"},
      {"http://h/api/v1/", "http://h/api/v1/chat/completions"},
      {"http://h/v10", "http://h/v10/chat/completions"},
      {"http://h/openai", "http://h/openai/chat/completions"},
      {"http://h/v1beta/openai/", "http://h/v1beta/openai/chat/completions"},
      {"http://h/v1/chat/completions", "http://h/v1/chat/completions"},
      {"http://h/chat/completions/", "http://h/v1/chat/completions"},
      {"http://h/v1/embeddings", "http://h/v1/chat/completions"},
      {"http://h:8000", "http://h:8000/v1/chat/completions"},
      {"https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
       "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"},
      {" http://h/v1 \n", "http://h/v1/chat/completions"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(UrlOf(Dialect::kOpenAi, row.base, Api::kChat), row.want) << row.base;
  }
}

TEST(Endpoint, AnthropicAddsTheVersionUnlessThereIsOne) {
  const struct {
    const char* base;
    const char* want;
  } kRows[] = {
      {"https://api.anthropic.com", "https://api.anthropic.com/v1/messages"},
      {"https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"},
      {"https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"},
      {"http://gateway/anthropic", "http://gateway/anthropic/v1/messages"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(UrlOf(Dialect::kAnthropic, row.base, Api::kMessages), row.want) << row.base;
  }
}

TEST(Endpoint, EveryApiHasItsPath) {
  EXPECT_EQ(UrlOf(Dialect::kOpenAi, "http://h", Api::kCompletions), "http://h/v1/completions");
  EXPECT_EQ(UrlOf(Dialect::kOpenAi, "http://h", Api::kEmbeddings), "http://h/v1/embeddings");
  EXPECT_EQ(UrlOf(Dialect::kOpenAi, "http://h", Api::kResponses), "http://h/v1/responses");
  EXPECT_EQ(Endpoint::Make(Dialect::kOpenAi, "http://h/x?a=b")->Target(Api::kChat),
            "/x/chat/completions?a=b");
}

TEST(Endpoint, AKeyInTheUrlIsRefusedWithoutItsValue) {
  for (const char* url : {"http://h/v1?key=SECRET", "http://h/v1?a=b&api_key=SECRET",
                          "http://h/v1?Token=SECRET", "http://user:SECRET@h/v1"}) {
    const absl::StatusOr<Endpoint> endpoint = Endpoint::Make(Dialect::kOpenAi, url);
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("endpoint: "));
    EXPECT_THAT(std::string(endpoint.status().message()), Not(HasSubstr("SECRET")));
  }
}

TEST(Endpoint, WhatIsNoHttpUrlIsRefused) {
  for (const char* url : {"", "h/v1", "ftp://h", "http://", "http://h:99999", "http://h/a b"}) {
    EXPECT_FALSE(Endpoint::Make(Dialect::kOpenAi, url).ok()) << url;
  }
}

TEST(ApiOfUrl, BatchUrlsNameTheirApi) {
  EXPECT_EQ(ApiOfUrl("/v1/chat/completions").value(), Api::kChat);
  EXPECT_EQ(ApiOfUrl("/v1/completions").value(), Api::kCompletions);
  EXPECT_EQ(ApiOfUrl("/v1/embeddings").value(), Api::kEmbeddings);
  EXPECT_EQ(ApiOfUrl("/v1/responses").value(), Api::kResponses);
  EXPECT_EQ(ApiOfUrl("/chat/completions").value(), Api::kChat);
  for (const char* url : {"/v1/images", "", "http://h/v1/chat/completions", "/v1//chat/completions",
                          "/v1/chat/completions/../../admin"}) {
    EXPECT_FALSE(ApiOfUrl(url).ok()) << url;
  }
}

TEST(CleanKey, WhiteSpaceAroundAKeyIsDropped) {
  // Case I1.
  for (const char* key : {"sk-test\n", "sk-test\r\n", " sk-test\t", "sk-test"}) {
    EXPECT_EQ(CleanKey(Secret(key))->Reveal(), "sk-test");
  }
  EXPECT_TRUE(CleanKey(Secret(" \n"))->empty());
}

TEST(CleanKey, AKeyThatNoHeaderCarriesIsRefusedWithoutItsValue) {
  for (const std::string& key :
       {std::string("sk-te\nst"), std::string("sk-te\r\nX-Evil: 1"), std::string("sk-te\xC2\xA0"),
        std::string("sk-te\0st", 8), std::string("sk-te st"), std::string("sk-te\x7F"),
        std::string("\"sk-te\""), std::string("'sk-te'")}) {
    const absl::StatusOr<Secret> clean = CleanKey(Secret(key));
    ASSERT_FALSE(clean.ok());
    EXPECT_EQ(clean.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(clean.status().message()), HasSubstr("api_key: "));
    EXPECT_THAT(std::string(clean.status().message()), Not(HasSubstr("sk-te")));
  }
}

http::Headers HeadersOf(ModelConfig config, const char* key) {
  auto codec = MakeCodec(std::move(config), Secret(key)).value();
  ItemRequest item;
  item.user = "q";
  return codec->Build(item)->request.headers;
}

TEST(Headers, WithoutAKeyThereIsNoAuthorization) {
  // Case I2.
  EXPECT_EQ(http::FindHeader(HeadersOf(OpenAiModel(false), ""), "authorization"), nullptr);
  EXPECT_EQ(http::FindHeader(HeadersOf(AnthropicModel(false), " \n"), "x-api-key"), nullptr);
}

TEST(Headers, EachDialectHasItsOwn) {
  const http::Headers openai = HeadersOf(OpenAiModel(false), "sk-test\n");
  EXPECT_EQ(*http::FindHeader(openai, "authorization"), "Bearer sk-test");
  EXPECT_EQ(*http::FindHeader(openai, "content-type"), "application/json");
  EXPECT_EQ(http::FindHeader(openai, "accept-encoding"), nullptr);
  EXPECT_EQ(http::FindHeader(openai, "idempotency-key"), nullptr);
  const http::Headers anthropic = HeadersOf(AnthropicModel(false), "sk-test");
  EXPECT_EQ(*http::FindHeader(anthropic, "x-api-key"), "sk-test");
  EXPECT_EQ(*http::FindHeader(anthropic, "anthropic-version"), "2023-06-01");
  EXPECT_EQ(http::FindHeader(anthropic, "authorization"), nullptr);
}

TEST(Headers, AUsersHeaderTakesThePlaceOfOurs) {
  ModelConfig config = AnthropicModel(false);
  config.headers = {{"Anthropic-Version", "2099-01-01"}, {"X-Team", "eval"}};
  const http::Headers headers = HeadersOf(config, "k");
  EXPECT_EQ(*http::FindHeader(headers, "anthropic-version"), "2099-01-01");
  EXPECT_EQ(*http::FindHeader(headers, "x-team"), "eval");
  ModelConfig azure = OpenAiModel(false);
  azure.headers = {{"api-key", "azure-key"}};
  const http::Headers azure_headers = HeadersOf(azure, "k");
  EXPECT_EQ(*http::FindHeader(azure_headers, "api-key"), "azure-key");
  EXPECT_EQ(http::FindHeader(azure_headers, "authorization"), nullptr);
}

TEST(Headers, WhatHttpDoesNotAllowIsRefusedByName) {
  const struct {
    const char* name;
    const char* value;
  } kRows[] = {{"bad name", "v"},
               {"", "v"},
               {"x:y", "v"},
               {"x\n", "v"},
               {"x", "a\r\nb: c"},
               {"x", "\xC3\xA9"},
               {"Host", "h"},
               {"content-length", "1"},
               {"Expect", "100-continue"},
               {"Accept-Encoding", "gzip"},
               {"transfer-encoding", "chunked"}};
  for (const auto& row : kRows) {
    ModelConfig config = OpenAiModel(false);
    config.headers = {{row.name, row.value}};
    const auto codec = MakeCodec(config, Secret());
    ASSERT_FALSE(codec.ok()) << row.name;
    EXPECT_THAT(std::string(codec.status().message()), HasSubstr("headers"));
  }
}

TEST(MakeCodec, ErrorsNameTheField) {
  ModelConfig config = OpenAiModel(false);
  config.provider = "opneai";
  EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()), HasSubstr("provider: "));
  config = OpenAiModel(false);
  config.name = "";
  EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()), HasSubstr("name: "));
  config = OpenAiModel(false);
  config.endpoint = "nonsense";
  EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()), HasSubstr("endpoint: "));
  config = OpenAiModel(false);
  config.params_json = "[]";
  EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()), HasSubstr("params: "));
  for (const char* name : {"model", "messages", "prompt", "input", "stream"}) {
    config.params_json = std::string("{\"") + name + "\":1}";
    EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()),
                HasSubstr(std::string("params.") + name));
  }
  config.params_json = "{\"stream_options\":{}}";
  EXPECT_THAT(std::string(MakeCodec(config, Secret()).status().message()),
              HasSubstr("params.stream_options"));
}

TEST(MakeCodec, TheUrlIsTheOneThatIsCalled) {
  EXPECT_EQ(MakeCodec(OpenAiModel(false), Secret()).value()->url(),
            "http://127.0.0.1:1/v1/chat/completions");
  EXPECT_EQ(MakeCodec(AnthropicModel(false), Secret()).value()->url(),
            "http://127.0.0.1:1/v1/messages");
}

}  // namespace
}  // namespace headrace::provider
