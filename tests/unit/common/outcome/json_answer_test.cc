// Cases H1, H3, H6 and H7: which part of an answer is its JSON, and when there is none.
#include "common/outcome/json_answer.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

// "kind: json"
std::string Found(absl::string_view text, absl::string_view reason = "stop") {
  const JsonAnswer answer = FindJson(text, reason);
  return absl::StrCat(JsonKindName(answer.kind), ": ", answer.json);
}

TEST(JsonAnswer, TheWholeTextIsTriedFirst) {
  EXPECT_EQ(Found(R"({"a":1})"), R"(whole: {"a":1})");
  EXPECT_EQ(Found(" \r\n\t[1, 2] \n"), "whole: [1, 2]");
  EXPECT_EQ(Found(R"("text")"), R"(whole: "text")");
  EXPECT_EQ(Found("null"), "whole: null");
  EXPECT_EQ(Found("-12345678901234567890123"), "whole: -12345678901234567890123");
}

// H6: extraction began in the middle of a string.
TEST(JsonAnswer, BackTicksInAStringAreText) {
  EXPECT_EQ(Found(R"({"code":"call `foo` first"})"), R"(whole: {"code":"call `foo` first"})");
  EXPECT_EQ(Found(R"({"code":"```json\n{}\n```"})"), R"(whole: {"code":"```json\n{}\n```"})");
  EXPECT_EQ(Found("```json\n{\"code\":\"```json\\n{}\\n```\"}\n```"),
            "fenced: {\"code\":\"```json\\n{}\\n```\"}");
}

TEST(JsonAnswer, OneFenceAroundItAllIsTakenOff) {
  EXPECT_EQ(Found("```json\n{\"a\": [\n1]}\n```"), "fenced: {\"a\": [\n1]}");
  EXPECT_EQ(Found("\n```\r\n{}\r\n```\r\n"), "fenced: {}");
  EXPECT_EQ(Found("~~~~ json\n{}\n~~~~~"), "fenced: {}");
  EXPECT_EQ(Found("````\n{}\n````"), "fenced: {}");
}

// H6: a bash block before the JSON was taken for it.
TEST(JsonAnswer, OneOfTwoFencesIsNotPicked) {
  EXPECT_EQ(Found("```bash\nls\n```\n```json\n{\"a\":1}\n```"), "none: ");
  EXPECT_EQ(Found("```json\n{\"a\":1}\n```\n```json\n{\"a\":2}\n```"), "none: ");
}

// H6
TEST(JsonAnswer, AFenceInAFenceIsNotPicked) {
  EXPECT_EQ(Found("````markdown\n```json\n{\"a\":1}\n```\n````"), "none: ");
}

// H6
TEST(JsonAnswer, AnEmptyFenceIsNone) {
  EXPECT_EQ(Found("```json\n```"), "none: ");
  EXPECT_EQ(Found("```json\n\n```"), "none: ");
  EXPECT_EQ(Found("```json\n```\n{\"a\":1}"), "none: ");
}

// H6
TEST(JsonAnswer, JsonBetweenProseIsNotPicked) {
  EXPECT_EQ(Found("A set { of words: {\"a\":1}"), "none: ");
  EXPECT_EQ(Found("Here it is: {\"a\":1}"), "none: ");
  EXPECT_EQ(Found("{\"a\":1} That is all."), "none: ");
  EXPECT_EQ(Found("It looks like\n```json\n{\"a\":1}\n```\nbut I cannot do it."), "none: ");
  EXPECT_EQ(Found("{\"a\":1}\n{\"a\":2}"), "none: ");
}

TEST(JsonAnswer, WhatIsNoFenceIsNone) {
  for (const char* text : {"```{}```", "``\n{}\n``", "```json\n{}\n``", "```json\n{}\n``` x",
                           "```js`on\n{}\n```", "```json\n{}\n~~~", "````\n{}\n```", "```", "`"}) {
    EXPECT_EQ(Found(text), "none: ") << text;
  }
}

TEST(JsonAnswer, WhatJsonLacksIsNone) {
  for (const char* text : {"", " ", "{'a':1}", "{\"a\":NaN}", "{\"a\":1,}", "{a:1}", "01",
                           "// x\n{}", "\xEF\xBB\xBF{}", "{\"a\":\"x\ny\"}"}) {
    EXPECT_EQ(Found(text), "none: ") << text;
  }
  EXPECT_EQ(Found(std::string(100'000, '[')), "none: ") << "no recursion without end";
}

// H1, H3: a cut list was closed, and reported as complete.
TEST(JsonAnswer, ACutValueIsTruncatedAndNotRepaired) {
  for (const char* reason : {"length", "max_tokens", "max_output_tokens", "MAX_TOKENS",
                             "model_context_window_exceeded"}) {
    EXPECT_EQ(Found(R"({"name":"A","items":["x","y")", reason), "truncated: ");
    EXPECT_EQ(Found("```json\n{\"a\":1", reason), "truncated: ");
    EXPECT_EQ(Found("", reason), "truncated: ");
  }
  EXPECT_EQ(Found(R"({"name":"Jo)"), "none: ");
}

TEST(JsonAnswer, ABareNumberThatTheLimitCutMayLackDigits) {
  EXPECT_EQ(Found("12", "length"), "truncated: ");
  EXPECT_EQ(Found("-1.5\n", "length"), "truncated: ");
  EXPECT_EQ(Found("12", "stop"), "whole: 12");
}

// H7: paid for to the limit, and valid, since the value had ended before.
TEST(JsonAnswer, BlanksAfterACompleteValueAreFlagged) {
  std::string blanks;
  for (int i = 0; i < 890; ++i) blanks += "  \n";
  const std::string text = R"({"a":1})" + blanks;
  const JsonAnswer answer = FindJson(text, "length");
  EXPECT_EQ(answer.kind, JsonKind::kWhole);
  EXPECT_EQ(answer.json, R"({"a":1})");
  EXPECT_TRUE(answer.white_space_tail);
  EXPECT_FALSE(FindJson("{}" + std::string(64, ' '), "stop").white_space_tail);
  EXPECT_TRUE(FindJson("{}" + std::string(65, ' '), "stop").white_space_tail);
  EXPECT_TRUE(FindJson(std::string(65, '\n'), "length").white_space_tail);
}

TEST(JsonAnswer, BlanksInsideAValueAreTruncated) {
  const JsonAnswer answer = FindJson("{\"a\":1," + std::string(2000, ' '), "length");
  EXPECT_EQ(answer.kind, JsonKind::kTruncated);
  EXPECT_TRUE(answer.white_space_tail);
}

}  // namespace
}  // namespace headrace
