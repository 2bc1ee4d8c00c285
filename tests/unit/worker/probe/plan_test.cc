// The plan: what it never does, and after which answers it stops.
#include "worker/probe/plan.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/probe/provider_world.h"

namespace headrace::probe {
namespace {

using ::testing::HasSubstr;

Answer Failed(const Ask& ask, int status, ErrorClass error_class, Fate fate, std::string message) {
  Answer answer;
  answer.ask = ask;
  answer.status = status;
  answer.error_class = error_class;
  answer.fate = fate;
  answer.message = std::move(message);
  return answer;
}

// The plan after its first request was answered so.
Plan After(int status, ErrorClass error_class, Fate fate, std::string message) {
  Plan plan{PlanOptions()};
  plan.Add(Failed(*plan.Next(), status, error_class, fate, std::move(message)));
  return plan;
}

TEST(Plan, StopsAtOnceForABadKey) {
  Plan plan = After(401, ErrorClass::kAuth, Fate::kFailed, "Incorrect API key provided.");
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kCredentials);
  EXPECT_THAT(plan.why(), HasSubstr("Incorrect API key provided."));
  EXPECT_THAT(plan.why(), HasSubstr("401"));
}

TEST(Plan, StopsAtOnceWithoutMoney) {
  Plan plan = After(429, ErrorClass::kNoMoney, Fate::kFailed, "You exceeded your current quota");
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kMoney);
}

TEST(Plan, StopsAtOnceForAnUnknownModel) {
  Plan plan = After(404, ErrorClass::kConfig, Fate::kRefused, "The model does not exist");
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kConfig);
  EXPECT_THAT(plan.why(), HasSubstr("The model does not exist"));
}

TEST(Plan, StopsAtOnceWithoutAConnection) {
  Plan plan = After(0, ErrorClass::kConnect, Fate::kFailed, "connection refused");
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kUnreachable);
}

TEST(Plan, StopsAtOnceForAWebPage) {
  Plan plan = After(200, ErrorClass::kInvalidResponse, Fate::kFailed, "the answer is a web page");
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kNoProvider);
}

TEST(Plan, TriesAgainAfterAFailureAndStopsAfterThree) {
  Plan plan{PlanOptions()};
  for (int i = 0; i < 3; ++i) {
    const std::optional<Ask> ask = plan.Next();
    ASSERT_TRUE(ask.has_value());
    EXPECT_EQ(ask->purpose, Purpose::kHello);
    plan.Add(Failed(*ask, 503, ErrorClass::kOverloaded, Fate::kFailed, "overloaded"));
  }
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kErrors);
}

TEST(Plan, WaitsAsLongAsA429Says) {
  Plan plan{PlanOptions()};
  Answer throttled =
      Failed(*plan.Next(), 429, ErrorClass::kRateLimited, Fate::kThrottled, "slow down");
  throttled.retry_after = absl::Seconds(7);
  plan.Add(throttled);
  const std::optional<Ask> ask = plan.Next();
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->wait, absl::Seconds(7));
}

TEST(Plan, DoesNotSitOutA429OfHours) {
  Plan plan{PlanOptions()};
  Answer throttled =
      Failed(*plan.Next(), 429, ErrorClass::kRateLimited, Fate::kThrottled, "come back later");
  throttled.retry_after = absl::Hours(3);
  plan.Add(throttled);
  EXPECT_FALSE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kThrottled);
}

TEST(Plan, UsesTheOtherNameOfMaxTokensWhenAModelWantsIt) {
  Plan plan = After(400, ErrorClass::kConfig, Fate::kRefused,
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                    "'max_completion_tokens' instead.");
  EXPECT_TRUE(plan.completion_tokens());
  EXPECT_TRUE(plan.Next().has_value());
  EXPECT_EQ(plan.end(), PlanEnd::kNotYet);
}

TEST(Plan, AsksForLessWhereAModelCannotWriteSoMuch) {
  ProviderOptions options = OpenAiLike();
  options.most_output = 1500;
  Plan plan{PlanOptions()};
  ProviderWorld world(options);
  world.Run(&plan);
  EXPECT_EQ(plan.end(), PlanEnd::kDone);
  int large = 0;
  for (const Answer& a : plan.answers())
    large += a.fate == Fate::kAnswered && a.ask.max_tokens > 16;
  EXPECT_GE(large, 4);
}

TEST(Plan, NeverSendsMoreRequestsThanAllowed) {
  for (int most = kFewestRequests; most <= 40; most += 5) {
    for (const bool exhaust : {false, true}) {
      ProviderOptions options = OpenAiLike();
      options.limits[0].mechanics = simulator::Mechanics::kSliding;
      options.limits[1].mechanics = simulator::Mechanics::kSliding;
      Plan plan({.max_requests = most, .max_tokens = 100'000, .exhaust = exhaust});
      ProviderWorld world(options);
      world.Run(&plan);
      EXPECT_LE(world.requests(), most);
    }
  }
}

TEST(Plan, NeverRisksMoreTokensThanAllowed) {
  for (const int64_t most : {1000, 5000, 20'000, 100'000}) {
    for (const bool exhaust : {false, true}) {
      ProviderOptions options = OpenAiLike();
      options.least_answer = options.most_answer = 5000;  // as long as they may be
      Plan plan({.max_requests = 40, .max_tokens = most, .exhaust = exhaust});
      ProviderWorld world(options);
      world.Run(&plan);
      int64_t tokens = 0;
      for (const Answer& a : plan.answers()) {
        tokens += a.usage.prompt_tokens.value_or(0) + a.usage.completion_tokens.value_or(0);
      }
      EXPECT_LE(tokens, most);
    }
  }
}

TEST(Plan, NeverUsesUpASmallQuotaUnlessAllowed) {
  for (const int64_t requests : {3, 8, 20}) {
    for (const int64_t tokens : {2000, 20'000}) {
      for (const auto mechanics : {simulator::Mechanics::kBucket, simulator::Mechanics::kWindow,
                                   simulator::Mechanics::kSliding}) {
        ProviderOptions options = OpenAiLike();
        options.limits[0].limit = requests;
        options.limits[1].limit = tokens;
        options.limits[0].mechanics = options.limits[1].mechanics = mechanics;
        Plan plan{PlanOptions()};
        ProviderWorld world(options);
        world.Run(&plan);
        int throttled = 0;
        for (const Answer& a : plan.answers()) throttled += a.fate == Fate::kThrottled;
        // The first two go out before anything is known.
        EXPECT_EQ(throttled, 0) << requests << " requests, " << tokens << " tokens";
      }
    }
  }
}

TEST(Plan, IsShortWhereNoHeadersAre) {
  ProviderOptions options = OpenAiLike();
  options.headers = false;
  Plan plan{PlanOptions()};
  ProviderWorld world(options);
  world.Run(&plan);
  EXPECT_EQ(plan.end(), PlanEnd::kDone);
  EXPECT_EQ(world.requests(), 4);
}

}  // namespace
}  // namespace headrace::probe
