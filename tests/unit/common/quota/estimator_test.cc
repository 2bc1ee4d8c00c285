#include "common/quota/estimator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace headrace::quota {
namespace {

PromptFeatures Count(absl::string_view text) {
  PromptFeatures features;
  CountFeatures(text, &features);
  return features;
}

std::vector<int64_t> Values(const PromptFeatures& f) {
  return {f.letters, f.symbols, f.latin, f.cjk, f.other};
}

using Numbers = std::vector<int64_t>;

TEST(CountFeatures, EveryScriptHasItsPlace) {
  EXPECT_EQ(Values(Count("")), (Numbers{0, 0, 0, 0, 0}));
  EXPECT_EQ(Values(Count("Answer briefly: 2+2=4\n")), (Numbers{15, 7, 0, 0, 0}));
  EXPECT_EQ(Values(Count("\xC3\xA9\xC4\x81")), (Numbers{0, 0, 2, 0, 0}));  // é ā
  EXPECT_EQ(Values(Count("\xE4\xBD\xA0\xE3\x81\x82\xED\x95\x9C")), (Numbers{0, 0, 0, 3, 0}));
  EXPECT_EQ(Values(Count("\xF0\xA0\x80\x80")), (Numbers{0, 0, 0, 1, 0}));          // U+20000
  EXPECT_EQ(Values(Count("\xD0\x9F\xF0\x9F\x98\x80")), (Numbers{0, 0, 0, 0, 2}));  // П, emoji
}

TEST(CountFeatures, InvalidBytesCountAsOther) {
  EXPECT_EQ(Values(Count("\xFF\x80")), (Numbers{0, 0, 0, 0, 2}));
  EXPECT_EQ(Values(Count("\xE4\xBD")), (Numbers{0, 0, 0, 0, 2}));  // cut off at the end
  EXPECT_EQ(Values(Count("\xE4"
                         "ab")),
            (Numbers{2, 0, 0, 0, 1}));  // the rest is not swallowed
}

TEST(CountFeatures, EveryByteStringIsCountedToItsEnd) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string text(random.Below(200), '\0');
    for (char& c : text) c = static_cast<char>(random.Chance(0.5) ? random.Below(128) : random());
    const PromptFeatures whole = Count(text);
    const Numbers counts = Values(whole);
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    EXPECT_LE(sum, static_cast<int64_t>(text.size()));
    EXPECT_GE(sum * 4, static_cast<int64_t>(text.size()));
    int64_t ascii = 0;
    for (const char c : text) ascii += static_cast<unsigned char>(c) < 0x80;
    EXPECT_EQ(whole.letters + whole.symbols, ascii);
  }
}

PromptFeatures Prose(int64_t letters) {
  PromptFeatures features;
  features.letters = letters;
  features.messages = 1;
  return features;
}

TEST(TokenEstimator, StartsFromPriorsOnTheHighSide) {
  TokenEstimator estimator(512);
  const TokenEstimate estimate = estimator.Estimate(Prose(4000));
  EXPECT_GE(estimate.input, 1000);
  EXPECT_LE(estimate.input, 1200);
  EXPECT_EQ(estimate.output, 256);
  EXPECT_EQ(TokenEstimator(100).Estimate(Prose(1)).output, 100);
  EXPECT_EQ(TokenEstimator(std::nullopt).Estimate(Prose(1)).output, 256);
}

TEST(TokenEstimator, LearnsATemplateInTensOfCalls) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenEstimator estimator(std::nullopt);
    // Romanised Pali: 2.3 characters to a token, where prose has four.
    for (int i = 0; i < 50; ++i) {
      const int64_t letters = random.Between(int64_t{2000}, int64_t{8000});
      const double tokens = static_cast<double>(letters) / 2.3 * (0.97 + 0.06 * random.Unit());
      estimator.Learn(Prose(letters), std::llround(tokens), std::nullopt);
    }
    const double expected = 5000 / 2.3;
    EXPECT_NEAR(static_cast<double>(estimator.Estimate(Prose(5000)).input), expected,
                0.08 * expected);
  }
}

TEST(TokenEstimator, AsciiTextTeachesNothingAboutOtherScripts) {
  // One factor for all text drove the ratio of CJK to its clamp on samples that were ASCII only.
  TokenEstimator estimator(std::nullopt);
  PromptFeatures cjk;
  cjk.cjk = 1000;
  cjk.messages = 1;
  const int64_t before = estimator.Estimate(cjk).input;
  for (int i = 0; i < 500; ++i) estimator.Learn(Prose(4000), 700, std::nullopt);
  const int64_t after = estimator.Estimate(cjk).input;
  EXPECT_GE(after, before * 7 / 10);
  EXPECT_LE(after, before * 13 / 10);
}

TEST(TokenEstimator, TellsMixedScriptsApart) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenEstimator estimator(std::nullopt);
    for (int i = 0; i < 200; ++i) {
      PromptFeatures features = Prose(random.Between(int64_t{100}, int64_t{4000}));
      features.cjk = random.Between(int64_t{0}, int64_t{2000});
      const double tokens =
          0.2 * static_cast<double>(features.letters) + 1.5 * static_cast<double>(features.cjk) + 8;
      estimator.Learn(features, std::llround(tokens), std::nullopt);
    }
    PromptFeatures cjk;
    cjk.cjk = 1000;
    EXPECT_NEAR(static_cast<double>(estimator.Estimate(cjk).input), 1500, 120);
    EXPECT_NEAR(static_cast<double>(estimator.Estimate(Prose(4000)).input), 808, 80);
  }
}

TEST(TokenEstimator, OneWrongPairingCannotRuinWhatWasLearnt) {
  TokenEstimator estimator(std::nullopt);
  for (int i = 0; i < 100; ++i) estimator.Learn(Prose(4000), 1000, std::nullopt);
  const int64_t before = estimator.Estimate(Prose(4000)).input;
  for (const int64_t nonsense :
       {int64_t{47'000}, int64_t{1}, int64_t{0}, int64_t{-5}, int64_t{1} << 60}) {
    estimator.Learn(Prose(4000), nonsense, nonsense);
    const int64_t after = estimator.Estimate(Prose(4000)).input;
    EXPECT_GE(after, before * 9 / 10) << nonsense;
    EXPECT_LE(after, before * 11 / 10) << nonsense;
  }
}

TEST(TokenEstimator, AFirstPairingThatIsWrongIsForgotten) {
  TokenEstimator estimator(std::nullopt);
  estimator.Learn(Prose(4000), 900'000, std::nullopt);
  for (int i = 0; i < 100; ++i) estimator.Learn(Prose(4000), 1000, std::nullopt);
  EXPECT_NEAR(static_cast<double>(estimator.Estimate(Prose(4000)).input), 1000, 150);
}

TEST(TokenEstimator, StaysWithinBoundsWhateverItIsTold) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenEstimator estimator(4096);
    for (int i = 0; i < 2'000; ++i) {
      PromptFeatures features;
      for (int64_t* count : {&features.letters, &features.symbols, &features.latin, &features.cjk,
                             &features.other, &features.messages, &features.images}) {
        if (random.Chance(0.5)) *count = static_cast<int64_t>(random.Below(100'000));
      }
      estimator.Learn(features, static_cast<int64_t>(random()),
                      static_cast<int64_t>(random.Below(9000)));
      const TokenEstimate estimate = estimator.Estimate(features);
      ASSERT_GE(estimate.input, 0);
      ASSERT_LE(estimate.input, 1'000'000'000);
      ASSERT_GE(estimate.output, 0);
      ASSERT_LE(estimate.output, 4096);
    }
    // No letter costs more than eight times its prior, and no margin is above 300 %.
    EXPECT_LE(estimator.Estimate(Prose(1000)).input, (250 + 4) * 8 * 4);
  }
}

TEST(TokenEstimator, CoversNineOfTenInputsAndFourOfFiveOutputs) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    TokenEstimator estimator(std::nullopt);
    int covered_input = 0;
    int covered_output = 0;
    constexpr int kCalls = 2'000;
    for (int i = 0; i < 300 + kCalls; ++i) {
      const int64_t letters = random.Between(int64_t{1000}, int64_t{6000});
      const int64_t input =
          std::llround(static_cast<double>(letters) * (0.2 + 0.1 * random.Unit()));
      const int64_t output = random.Between(int64_t{10}, int64_t{1000});
      const TokenEstimate estimate = estimator.Estimate(Prose(letters));
      if (i >= 300) {
        covered_input += estimate.input >= input;
        covered_output += estimate.output >= output;
      }
      estimator.Learn(Prose(letters), input, output);
    }
    EXPECT_NEAR(covered_input, 0.9 * kCalls, 0.05 * kCalls);
    EXPECT_NEAR(covered_output, 0.8 * kCalls, 0.05 * kCalls);
  }
}

}  // namespace
}  // namespace headrace::quota
