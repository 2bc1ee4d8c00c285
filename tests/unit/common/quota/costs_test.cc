#include "common/quota/costs.h"

#include <gtest/gtest.h>

#include <string>

#include "common/quota/memory_store.h"
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
  EXPECT_EQ(DefaultCharging("anthropic"), Charging::kActuals);
  EXPECT_EQ(DefaultCharging("openai"), Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("openai", "https://api.openai.com/v1"), Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("openai", "https://x.openai.azure.com/openai"), Charging::kSum);
  EXPECT_EQ(DefaultCharging("openai", "http://127.0.0.1:8000/v1"), Charging::kLargerOf);
  EXPECT_EQ(DefaultCharging("mistral"), Charging::kSum);
  EXPECT_EQ(DefaultCharging("something"), Charging::kActuals);
}

TEST(EstimateCosts, FollowTheChargingRule) {
  const TokenEstimate estimate{.input = 100, .output = 40};
  EXPECT_EQ(EstimateCosts(estimate, 512, Charging::kActuals), (Costs{1, 140, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 512, Charging::kLargerOf), (Costs{1, 512, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 64, Charging::kLargerOf), (Costs{1, 140, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 512, Charging::kSum), (Costs{1, 612, 100, 40, 1}));
  EXPECT_EQ(EstimateCosts(estimate, 10, Charging::kActuals), (Costs{1, 110, 100, 10, 1}));
  EXPECT_EQ(EstimateCosts(estimate, std::nullopt, Charging::kSum), (Costs{1, 140, 100, 40, 1}));
}

TEST(ActualCosts, AreRefundedOnlyWhereTheProviderRefunds) {
  const Costs reserved = {1, 512, 100, 40, 1};
  EXPECT_EQ(ActualCosts(reserved, 90, 30, Charging::kActuals), (Costs{1, 120, 90, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, 90, 30, Charging::kLargerOf), (Costs{1, 512, 90, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, 600, 30, Charging::kLargerOf), (Costs{1, 630, 600, 30, 1}));
  EXPECT_EQ(ActualCosts(reserved, std::nullopt, std::nullopt, Charging::kActuals), reserved);
  EXPECT_EQ(ActualCosts(reserved, 90, std::nullopt, Charging::kActuals),
            (Costs{1, 512, 90, 40, 1}));
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
