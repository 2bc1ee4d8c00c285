#include "common/quota/profiles.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace headrace::quota {
namespace {

const DimensionSpec* Find(const PoolSpec& pool, Dimension dimension) {
  for (const DimensionSpec& spec : pool.dimensions) {
    if (spec.dimension == dimension) return &spec;
  }
  return nullptr;
}

TEST(Profiles, EachHasAUniqueNameASourceWithItsYearAndMakesAValidPool) {
  std::set<std::string> names;
  for (const Profile& profile : AllProfiles()) {
    SCOPED_TRACE(profile.name);
    EXPECT_TRUE(names.emplace(profile.name).second);
    if (profile.hosts.size() > 0) {
      EXPECT_NE(profile.source.find("20"), absl::string_view::npos);
    }
    PoolDescription description;
    description.name = "p";
    description.profile = std::string(profile.name);
    description.requests_per_minute = 600;
    description.tokens_per_minute = 2'000'000;
    description.input_tokens_per_minute = 2'000'000;
    description.output_tokens_per_minute = 400'000;
    description.requests_per_day = 10'000;
    description.tokens_per_day = 1'000'000;
    description.max_in_flight = 100;
    const absl::StatusOr<PoolSpec> pool = MakePool(description);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_EQ(pool->dimensions.size(), 7u);
  }
}

TEST(Profiles, AnEndpointsHostDecidesAndNothingElseInIt) {
  const auto name = [](absl::string_view provider, absl::string_view endpoint) {
    return ProfileOfEndpoint(provider, endpoint)->name;
  };
  EXPECT_EQ(name("openai", "https://api.openai.com/v1"), "openai");
  EXPECT_EQ(name("openai", "https://API.OpenAI.com.:443/v1"), "openai");
  EXPECT_EQ(name("openai", "https://west.openai.azure.com/openai"), "azure");
  EXPECT_EQ(name("openai", "https://proxy.example/api.openai.com"), "generic");
  EXPECT_EQ(name("openai", "https://api.openai.com.evil.example"), "generic");
  EXPECT_EQ(name("openai", "https://user@api.groq.com/openai/v1"), "groq");
  EXPECT_EQ(name("anthropic", "https://api.anthropic.com"), "anthropic");
  EXPECT_EQ(name("anthropic", "https://api.deepseek.com/anthropic"), "deepseek");
  EXPECT_EQ(name("openai", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"), "dashscope");
  EXPECT_EQ(name("openai", "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1"), "bedrock");
  EXPECT_EQ(name("openai", "http://127.0.0.1:8000/v1"), "generic");
  EXPECT_EQ(name("openai", ""), "openai");
  EXPECT_EQ(name("nobody", ""), "generic");
}

TEST(MakePool, OfAzureCountsMinutesOfTokensAndTenSecondsOfRequests) {
  PoolDescription description{.name = "main", .profile = "azure"};
  description.requests_per_minute = 600;
  description.tokens_per_minute = 100'000;
  const absl::StatusOr<PoolSpec> pool = MakePool(description);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->utilisation, 1);
  const DimensionSpec* requests = Find(*pool, Dimension::kRequests);
  const DimensionSpec* tokens = Find(*pool, Dimension::kTokens);
  EXPECT_EQ(requests->mechanics, Mechanics::kWindow);
  EXPECT_EQ(requests->window, absl::Seconds(10));
  EXPECT_EQ(tokens->mechanics, Mechanics::kWindow);
  EXPECT_EQ(tokens->window, absl::Minutes(1));
  EXPECT_EQ(tokens->burst, absl::Seconds(5));
}

TEST(MakePool, WhatTheJobSaysWinsOverTheProfile) {
  PoolDescription description{.name = "main", .profile = "azure"};
  description.requests_per_minute = 600;
  description.tokens_per_minute = 2'000'000;
  description.window = "1s";
  description.requests_window = "continuous";
  description.guard = absl::Milliseconds(10);
  description.burst = absl::Milliseconds(20);
  description.utilisation = 0.9;
  description.ramp_start = 500'000;
  description.ramp_growth = 0.5;
  const absl::StatusOr<PoolSpec> pool = MakePool(description);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ(pool->utilisation, 0.9);
  EXPECT_EQ(Find(*pool, Dimension::kRequests)->mechanics, Mechanics::kBucket);
  const DimensionSpec* tokens = Find(*pool, Dimension::kTokens);
  EXPECT_EQ(tokens->window, absl::Seconds(1));
  EXPECT_EQ(tokens->guard, absl::Milliseconds(10));
  EXPECT_EQ(tokens->burst, absl::Milliseconds(20));
  EXPECT_EQ(tokens->ramp_start, 500'000);
  EXPECT_EQ(tokens->ramp_growth, 0.5);
}

TEST(MakePool, OfOpenAiStartsAtAMillionOnlyWhereTheLimitIsHigher) {
  PoolDescription description{.name = "main", .profile = "openai"};
  description.tokens_per_minute = 5'000'000;
  EXPECT_EQ(Find(*MakePool(description), Dimension::kTokens)->ramp_start, 1'000'000);
  description.tokens_per_minute = 1'000'000;
  EXPECT_EQ(Find(*MakePool(description), Dimension::kTokens)->ramp_start, 0);
  description.tokens_per_minute = 5'000'000;
  description.ramp_start = 0;
  EXPECT_EQ(Find(*MakePool(description), Dimension::kTokens)->ramp_start, 0);
}

TEST(MakePool, WordsThatMeanNothingAreNamed) {
  PoolDescription description{.name = "main", .profile = "azur"};
  EXPECT_EQ(MakePool(description).status().message(), "pool main: 'azur' is no known profile");
  description.profile = "azure";
  description.window = "hour";
  EXPECT_EQ(MakePool(description).status().message(),
            "pool main: 'hour' is no window: continuous, minute, 10s or 1s");
}

}  // namespace
}  // namespace headrace::quota
