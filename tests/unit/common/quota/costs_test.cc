#include "common/quota/costs.h"

#include <gtest/gtest.h>

#include <string>

#include "common/quota/quota.h"
#include "tests/unit/common/quota/harness.h"

namespace headrace::quota {
namespace {

TEST(ValidatePool, EveryNumberOutOfRangeIsNamed) {
  const auto error_of = [](DimensionSpec dimension) {
    return std::string(ValidatePool(Pool({dimension})).message());
  };
  DimensionSpec spec = PerMinute(Dimension::kTokens, 0);
  EXPECT_EQ(error_of(spec), "pool p: tokens/min: the limit must be in [1, 1000000000000], not 0");
  spec = PerMinute(Dimension::kInFlight, 10);
  EXPECT_EQ(error_of(spec), "pool p: in flight: slots in flight are metered by a gauge");
  spec = PerMinute(Dimension::kRequests, 10);
  spec.period = absl::Milliseconds(999);
  EXPECT_EQ(error_of(spec), "pool p: requests/min: the period must be in [1 s, 31 days]");
  spec.period = absl::Minutes(1);
  spec.burst = absl::Seconds(61);
  EXPECT_EQ(error_of(spec), "pool p: requests/min: the burst must be in [0, period]");
  EXPECT_EQ(ValidatePool(Pool({Slots(1), Slots(2)})).message(), "pool p: in flight: limited twice");
  EXPECT_EQ(ValidatePool(Pool({}, 1.01)).message(), "pool p: utilisation must be in [0.1, 1]");
  EXPECT_TRUE(ValidatePool(Pool({Slots(1), PerMinute(Dimension::kTokens, 1)})).ok());
}

TEST(DefaultCharging, FollowsTheProviderAndTheHost) {
  EXPECT_EQ(DefaultCharging("anthropic").charging, Charging::kActuals);
  EXPECT_EQ(DefaultCharging("openai").charging, Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("openai", "https://api.openai.com/v1").charging, Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("openai", "https://x.openai.azure.com/openai").charging,
            Charging::kSum);
  EXPECT_EQ(DefaultCharging("openai", "http://127.0.0.1:8000/v1").charging, Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("mistral").charging, Charging::kSum);
  EXPECT_EQ(DefaultCharging("something").charging, Charging::kActuals);
}

TEST(EstimateCosts, FollowTheChargingRule) {
  const TokenEstimate estimate{.input = 100, .output = 40};
  EXPECT_EQ(EstimateCosts(estimate, 512, ChargeRules{.charging = Charging::kActuals}),
            (Costs{1, 140, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 512, ChargeRules{.charging = Charging::kLargerOf}),
            (Costs{1, 512, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 64, ChargeRules{.charging = Charging::kLargerOf}),
            (Costs{1, 140, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 512, ChargeRules{.charging = Charging::kSum}),
            (Costs{1, 612, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 10, ChargeRules{.charging = Charging::kActuals}),
            (Costs{1, 110, 100, 10, 1}));
  EXPECT_EQ(EstimateCosts(estimate, std::nullopt, ChargeRules{.charging = Charging::kSum}),
            (Costs{1, 140, 100, 40, 1}));
}

TEST(ActualCosts, AreRefundedOnlyWhereTheProviderRefunds) {
  const Costs reserved = {1, 512, 100, 40, 1};
  EXPECT_EQ(ActualCosts(reserved, 90, 30, ChargeRules{.charging = Charging::kActuals}),
            (Costs{1, 120, 90, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, 90, 30, ChargeRules{.charging = Charging::kLargerOf}),
            (Costs{1, 512, 90, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, 600, 30, ChargeRules{.charging = Charging::kLargerOf}),
            (Costs{1, 630, 600, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, std::nullopt, std::nullopt,
                        ChargeRules{.charging = Charging::kActuals}),
            reserved);
  EXPECT_EQ(ActualCosts(reserved, 90, std::nullopt, ChargeRules{.charging = Charging::kActuals}),
            (Costs{1, 512, 90, 40, 1}));
}

TEST(ChargeRules, FollowTheProfileTheModelAndTheDialect) {
  EXPECT_TRUE(DefaultCharging("anthropic").cached_input_is_free);
  EXPECT_TRUE(DefaultCharging("anthropic", "http://gateway:1234").cached_input_is_free);
  EXPECT_FALSE(
      ChargeRulesOf("anthropic", "anthropic", "", "claude-3-5-haiku-latest").cached_input_is_free);
  EXPECT_EQ(ChargeRulesOf("bedrock", "anthropic", "", "us.anthropic.claude-opus-4-8").output_factor,
            15);
  EXPECT_EQ(ChargeRulesOf("bedrock", "anthropic", "", "claude-sonnet-4-5").output_factor, 5);
  EXPECT_EQ(ChargeRulesOf("bedrock", "openai", "", "nova-pro").output_factor, 1);
  EXPECT_EQ(ChargeRulesOf("azure", "openai", "http://proxy/v1", "x").charging, Charging::kSum);
  EXPECT_EQ(ChargeRulesOf("auto", "openai", "https://api.groq.com/openai/v1", "x").charging,
            Charging::kActuals);
}

TEST(ChargeRules, OfBedrockHoldMaxTokensAndSettleByTheModel) {
  const ChargeRules rules = ChargeRulesOf("bedrock", "anthropic", "", "claude-sonnet-5");
  const Costs reserved = EstimateCosts({.input = 100, .output = 40}, 512, rules);
  EXPECT_EQ(reserved, (Costs{1, 612, 100, 512, 1}));
  EXPECT_EQ(ActualCosts(reserved, 90, 30, rules, 50), (Costs{1, 340, 40, 300, 1}));
}

TEST(ChargeRules, OfMistralAndAzureCountAnUnsetMaximum) {
  const TokenEstimate estimate{.input = 7, .output = 40};
  EXPECT_EQ(EstimateCosts(estimate, std::nullopt, DefaultCharging("mistral"))[1], 32'007);
  EXPECT_EQ(EstimateCosts(estimate, std::nullopt, DefaultCharging("azure"))[1], 23);
  EXPECT_EQ(EstimateCosts(estimate, std::nullopt, DefaultCharging("openai"))[1], 47);
}

TEST(SettlementBy, CountsFailedCallsAsTheProviderDoes) {
  const ChargeRules groq = ChargeRulesOf("groq", "openai", "", "");
  const ChargeRules azure = ChargeRulesOf("azure", "openai", "", "");
  const ChargeRules openai = ChargeRulesOf("openai", "openai", "", "");
  EXPECT_EQ(SettlementBy(groq, Settlement::kRejected, true), Settlement::kNotSent);
  EXPECT_EQ(SettlementBy(openai, Settlement::kRejected, true), Settlement::kRejected);
  EXPECT_EQ(SettlementBy(azure, Settlement::kRejected, true), Settlement::kRejected);
  EXPECT_EQ(SettlementBy(azure, Settlement::kRejected, false), Settlement::kUnknown);
  EXPECT_EQ(SettlementBy(openai, Settlement::kRejected, false), Settlement::kRejected);
  EXPECT_EQ(SettlementBy(groq, Settlement::kUnknown, true), Settlement::kUnknown);
}

TEST(SettledCosts, FollowTheTable) {
  const Costs reserved = {1, 500, 300, 200, 1};
  const Costs actual = {0, 450, -1, 190, 0};
  EXPECT_EQ(SettledCosts(Settlement::kCharged, reserved, actual), (Costs{1, 450, 0, 190, 0}));
  EXPECT_EQ(SettledCosts(Settlement::kUnknown, reserved, actual), reserved);
  EXPECT_EQ(SettledCosts(Settlement::kRejected, reserved, actual), (Costs{1, 0, 0, 0, 0}));
  EXPECT_EQ(SettledCosts(Settlement::kNotSent, reserved, actual), Costs{});
}

}  // namespace
}  // namespace headrace::quota
