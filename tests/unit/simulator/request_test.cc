#include "simulator/request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace headrace::simulator {
namespace {

TEST(ScanBody, MalformedBodiesAreInvalid) {
  for (const char* body :
       {"", " ", "[]", "null", "{", "{\"model\"", "{\"model\":", "{\"model\":\"a\"", "{\"a\":1,}",
        "{\"a\" 1}", "{a:1}", "{\"a\":\"b}", "{\"a\":\"b\\\"}", "{\"a\":[1,2}", "{\"a\":}",
        "{\"max_tokens\":\"ten\"}", "{\"model\":\"a\"} x"}) {
    EXPECT_FALSE(ScanBody(body).valid) << body;
  }
}

TEST(ScanBody, VeryDeepNestingIsInvalidAndDoesNotOverflowTheStack) {
  EXPECT_FALSE(ScanBody(absl::StrCat("{\"a\":", std::string(1'000'000, '['), "}")).valid);
}

TEST(ScanBody, DamagedBodiesNeverReadOutOfBounds) {
  const uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::string good =
      R"({"model":"m","stream":true,"messages":[{"role":"u\"","content":["a",1.5e3,null]}],"n":2})";
  for (int i = 0; i < 20'000; ++i) {
    std::string body = good.substr(0, random.Below(good.size() + 1));
    for (uint64_t change = random.Below(4); change > 0 && !body.empty(); --change) {
      body[random.Below(body.size())] = "{}[]\",:\\ x0"[random.Below(12)];
    }
    // A copy of its exact size on the heap, so that a sanitizer sees a read past its end.
    const std::vector<char> exact(body.begin(), body.end());
    const BodyFacts facts = ScanBody({exact.data(), exact.size()});
    EXPECT_LE(facts.model.size(), body.size());
  }
}

TEST(ScanBody, ReadsTheFactsWhereverTheyStand) {
  const BodyFacts facts = ScanBody(
      R"( {"messages":[{"role":"user","content":"four"}], "stream" : true ,
          "stream_options":{"include_usage":true}, "max_tokens":77,"n":2,
          "model":"gpt-x","temperature":0.5,"metadata":{"model":"other","stream":false}} )");
  EXPECT_TRUE(facts.valid);
  EXPECT_EQ(facts.model, "gpt-x");
  EXPECT_TRUE(facts.stream);
  EXPECT_TRUE(facts.include_usage);
  EXPECT_EQ(facts.max_tokens, 77);
  EXPECT_EQ(facts.choices, 2);
  EXPECT_EQ(facts.temperature, 0.5);
  EXPECT_EQ(facts.prompt_bytes, 8);  // "user" and "four"
}

TEST(ScanBody, KeysInsideStringsAndDeeperObjectsDoNotCount) {
  const BodyFacts facts = ScanBody(
      R"({"messages":[{"content":"\"stream\":true, \\","stream":true,"model":"deep"}],"model":"m"})");
  EXPECT_TRUE(facts.valid);
  EXPECT_EQ(facts.model, "m");
  EXPECT_FALSE(facts.stream);
}

TEST(ScanBody, NullAndFalseAreAbsent) {
  const BodyFacts facts = ScanBody(R"({"model":"m","max_tokens":null,"stream":false})");
  EXPECT_TRUE(facts.valid);
  EXPECT_EQ(facts.max_tokens, 0);
  EXPECT_FALSE(facts.stream);
}

TEST(ScanBody, CountsEmbeddingInputs) {
  EXPECT_EQ(ScanBody(R"({"model":"e","input":"one"})").inputs, 1);
  EXPECT_EQ(ScanBody(R"({"model":"e","input":["one","two","three"]})").inputs, 3);
  EXPECT_EQ(ScanBody(R"({"model":"e","input":["one","two"]})").prompt_bytes, 6);
}

TEST(StableHash, IsTheSameForEverAndDiffersForNearInputs) {
  EXPECT_EQ(StableHash("abc", 1), StableHash("abc", 1));
  EXPECT_NE(StableHash("abc", 1), StableHash("abc", 2));
  EXPECT_NE(StableHash("abc", 1), StableHash("abd", 1));
  EXPECT_NE(StableHash(std::string(8, '\0'), 1), StableHash(std::string(16, '\0'), 1));
  EXPECT_NE(StableHash("aaaaaaaabbbbbbbb", 1), StableHash("bbbbbbbbaaaaaaaa", 1));
}

TEST(Request, TakesTheKeyOfEitherDialect) {
  Request request;
  request.AddHeader("authorization", "Bearer sk-1");
  EXPECT_EQ(request.key, "sk-1");
  request.AddHeader("x-api-key", "sk-2");
  EXPECT_EQ(request.key, "sk-2");
  request.SetTarget("/v1/models?a=b&x-sim-barrier=7&x-sim-fault=503");
  EXPECT_EQ(request.path, "/v1/models");
  EXPECT_EQ(request.query, "a=b&x-sim-barrier=7&x-sim-fault=503");
  EXPECT_EQ(request.barrier, "7");
  EXPECT_EQ(request.forced_fault, "503");
}

}  // namespace
}  // namespace headrace::simulator
