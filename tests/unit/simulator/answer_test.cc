#include "simulator/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/utf8.h"

namespace headrace::simulator {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

AnswerSpec Spec(Endpoint endpoint, uint64_t hash, int64_t tokens) {
  AnswerSpec spec;
  spec.endpoint = endpoint;
  spec.model = "m";
  spec.hash = hash;
  spec.prompt_tokens = 9;
  spec.completion_tokens = tokens;
  return spec;
}

std::string Stream(const AnswerSpec& spec) {
  EventWriter writer(spec);
  std::string out;
  while (writer.Next(&out)) {
  }
  return out;
}

// The texts of all deltas, by cutting out what stands between `before` and `after`.
std::string Deltas(const std::string& stream, const std::string& before, const std::string& after) {
  std::string text;
  size_t at = 0;
  while ((at = stream.find(before, at)) != std::string::npos) {
    at += before.size();
    text += stream.substr(at, stream.find(after, at) - at);
  }
  return text;
}

TEST(Answer, TheSameRequestGetsTheSameTextStreamedOrNot) {
  for (const uint64_t hash : {1, 2, 3, 99}) {
    std::string text;
    AppendText(Spec(Endpoint::kChat, hash, 40), &text);
    EXPECT_EQ(Deltas(Stream(Spec(Endpoint::kChat, hash, 40)), "\"delta\":{\"content\":\"",
                     "\"},\"logprobs\""),
              text);
    EXPECT_EQ(
        Deltas(Stream(Spec(Endpoint::kMessages, hash, 40)), "\"text_delta\",\"text\":\"", "\"}}\n"),
        text);
    std::string body;
    AppendBody(Spec(Endpoint::kChat, hash, 40), &body);
    EXPECT_THAT(body, HasSubstr("\"content\":\"" + text + "\""));
  }
}

TEST(Answer, DifferentRequestsGetDifferentTexts) {
  std::string a;
  std::string b;
  AppendText(Spec(Endpoint::kChat, 1, 40), &a);
  AppendText(Spec(Endpoint::kChat, 2, 40), &b);
  EXPECT_NE(a, b);
}

TEST(Answer, IsValidUtf8WithSeveralByteCharactersInIt) {
  std::string text;
  AppendText(Spec(Endpoint::kChat, 5, 2000), &text);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_THAT(text, HasSubstr("\xF0\x9F\x8C\x8A"));
}

TEST(OpenAiStream, EndsWithFinishReasonUsageAndDone) {
  AnswerSpec spec = Spec(Endpoint::kChat, 1, 3);
  spec.include_usage = true;
  spec.cut = true;
  const std::string stream = Stream(spec);
  EXPECT_THAT(stream, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_THAT(stream, HasSubstr("\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                                "\"completion_tokens\":3,\"total_tokens\":12,"));
  EXPECT_THAT(stream, EndsWith("}\n\ndata: [DONE]\n\n"));
  // role, three tokens, finish, usage, [DONE]
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(stream, "\n\n")).size(), 7u + 1);
}

TEST(OpenAiStream, HasNoUsageUnlessAskedFor) {
  EXPECT_EQ(Stream(Spec(Endpoint::kChat, 1, 3)).find("usage"), std::string::npos);
}

TEST(AnthropicStream, HasTheDocumentedEventsInOrder) {
  const std::string stream = Stream(Spec(Endpoint::kMessages, 1, 2));
  EXPECT_EQ(Deltas(stream, "event: ", "\n"),
            "message_startcontent_block_startpingcontent_block_deltacontent_block_delta"
            "content_block_stopmessage_deltamessage_stop");
  EXPECT_THAT(stream, HasSubstr("\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
                                "\"usage\":{\"output_tokens\":2}"));
}

}  // namespace
}  // namespace headrace::simulator
