#include "simulator/account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::simulator {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

const MonoTime kNow = MonoTime::FromNanos(5'000'000'000);

LimitSpec Limit(LimitKind kind, int64_t limit) {
  LimitSpec spec;
  spec.kind = kind;
  spec.limit = limit;
  if (kind == LimitKind::kInFlight) spec.mechanics = Mechanics::kGauge;
  return spec;
}

int64_t Remaining(Account* account, const std::string& dimension) {
  HeaderList headers;
  account->AppendHeaders(kNow, absl::UnixEpoch(), /*anthropic=*/false, &headers);
  for (const auto& [name, value] : headers) {
    if (name == "x-ratelimit-remaining-" + dimension) return std::stoll(value);
  }
  return -1;
}

TEST(Account, ARejectionByOneDimensionTakesNoTokensOfTheOthers) {
  Account account({Limit(LimitKind::kRequests, 100), Limit(LimitKind::kTokens, 1'000)},
                  Charging::kReserveMax, /*count_failed=*/false);
  Charge first;
  Charge second;
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 10, 900, &first, &rejection));
  EXPECT_FALSE(account.Admit(kNow, 10, 200, &second, &rejection));
  EXPECT_EQ(rejection.kind, LimitKind::kTokens);
  EXPECT_EQ(rejection.used, 900);
  EXPECT_EQ(rejection.requested, 200);
  EXPECT_EQ(rejection.limit, 1'000);
  EXPECT_EQ(Remaining(&account, "requests"), 99);
  EXPECT_EQ(Remaining(&account, "tokens"), 100);
}

TEST(Account, RejectedRequestsCountAsRequestsWhereTheProviderCountsThem) {
  Account account({Limit(LimitKind::kRequests, 100), Limit(LimitKind::kTokens, 1'000)},
                  Charging::kReserveMax, /*count_failed=*/true);
  Charge charge;
  Rejection rejection;
  ASSERT_FALSE(account.Admit(kNow, 10, 2'000, &charge, &rejection));
  EXPECT_TRUE(rejection.never);
  EXPECT_EQ(Remaining(&account, "requests"), 99);
  EXPECT_EQ(Remaining(&account, "tokens"), 1'000);
}

TEST(Account, ReserveMaxChargesTheLargerOfMaxTokensAndEstimateAndRefundsNothing) {
  Account account({Limit(LimitKind::kTokens, 10'000)}, Charging::kReserveMax, true);
  Charge charge;
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 300, 1'000, &charge, &rejection));
  account.Settle(kNow, {.input = 300, .output = 5}, false, &charge);
  EXPECT_EQ(Remaining(&account, "tokens"), 9'000);
}

TEST(Account, EstimateThenActualIsCorrectedAtTheEndOnce) {
  Account account({Limit(LimitKind::kInputTokens, 10'000), Limit(LimitKind::kOutputTokens, 1'000)},
                  Charging::kEstimateThenActual, true);
  Charge charge;
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 300, 5'000, &charge, &rejection));
  EXPECT_EQ(Remaining(&account, "input-tokens"), 9'700);
  EXPECT_EQ(Remaining(&account, "output-tokens"), 1'000);  // max_tokens does not matter
  account.Settle(kNow, {.input = 280, .output = 40}, false, &charge);
  account.Settle(kNow, {.input = 280, .output = 40}, false, &charge);
  EXPECT_EQ(Remaining(&account, "input-tokens"), 9'720);
  EXPECT_EQ(Remaining(&account, "output-tokens"), 960);
}

TEST(Account, ChargingAtTheEndAdmitsAnythingWhileSomethingIsLeft) {
  Account account({Limit(LimitKind::kTokens, 100)}, Charging::kActual, true);
  Charge charges[3];
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 90, 900, &charges[0], &rejection));
  ASSERT_TRUE(account.Admit(kNow, 90, 900, &charges[1], &rejection));
  account.Settle(kNow, {.input = 90, .output = 30}, false, &charges[0]);
  EXPECT_FALSE(account.Admit(kNow, 90, 900, &charges[2], &rejection));
}

TEST(Account, ASlotInFlightIsFreeAfterSettling) {
  Account account({Limit(LimitKind::kInFlight, 1)}, Charging::kReserveMax, true);
  Charge first;
  Charge second;
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 1, 1, &first, &rejection));
  EXPECT_FALSE(account.Admit(kNow, 1, 1, &second, &rejection));
  EXPECT_EQ(rejection.kind, LimitKind::kInFlight);
  account.Settle(kNow, {}, false, &first);
  EXPECT_TRUE(account.Admit(kNow, 1, 1, &second, &rejection));
}

TEST(Account, AnthropicHeadersAreRoundedToThousandsAndNameTheTime) {
  Account account({Limit(LimitKind::kInputTokens, 60'000)}, Charging::kEstimateThenActual, true);
  Charge charge;
  Rejection rejection;
  ASSERT_TRUE(account.Admit(kNow, 2'400, 1, &charge, &rejection));
  HeaderList headers;
  account.AppendHeaders(kNow, absl::FromUnixSeconds(1'760'000'000), /*anthropic=*/true, &headers);
  EXPECT_THAT(headers, Contains(Pair("anthropic-ratelimit-input-tokens-limit", "60000")));
  EXPECT_THAT(headers, Contains(Pair("anthropic-ratelimit-input-tokens-remaining", "58000")));
  EXPECT_THAT(headers,
              Contains(Pair("anthropic-ratelimit-input-tokens-reset", "2025-10-09T08:53:23Z")));
}

TEST(FormatGoDuration, LooksAsInRealHeaders) {
  EXPECT_EQ(FormatGoDuration(absl::Milliseconds(6)), "6ms");
  EXPECT_EQ(FormatGoDuration(absl::Milliseconds(8'640)), "8.64s");
  EXPECT_EQ(FormatGoDuration(absl::Seconds(90)), "1m30s");
  EXPECT_EQ(FormatGoDuration(absl::Minutes(6)), "6m0s");
  EXPECT_EQ(FormatGoDuration(absl::Hours(23) + absl::Minutes(18) + absl::Milliseconds(29'144)),
            "23h18m29.144s");
  EXPECT_EQ(FormatGoDuration(absl::ZeroDuration()), "0ms");
}

TEST(RenderRejection, SaysWhatTheProvidersSay) {
  Rejection rejection;
  rejection.kind = LimitKind::kTokens;
  rejection.limit = 50'000;
  rejection.used = 47'949;
  rejection.requested = 3'006;
  rejection.retry_after = absl::Milliseconds(1'146);
  const RejectionText openai = RenderRejection(rejection, /*anthropic=*/false, "gpt-x");
  EXPECT_EQ(openai.status, 429);
  EXPECT_THAT(openai.body, HasSubstr("Limit 50000, Used 47949, Requested 3006. Please try again "
                                     "in 1.146s."));
  EXPECT_THAT(openai.body, HasSubstr("\"code\":\"rate_limit_exceeded\""));
  EXPECT_THAT(openai.headers, Contains(Pair("retry-after", "2")));
  EXPECT_THAT(openai.headers, Contains(Pair("retry-after-ms", "1146")));

  const RejectionText anthropic = RenderRejection(rejection, /*anthropic=*/true, "claude-x");
  EXPECT_THAT(anthropic.body, HasSubstr("\"type\":\"rate_limit_error\""));
  EXPECT_THAT(anthropic.headers, Contains(Pair("retry-after", "2")));

  rejection.never = true;
  const RejectionText never = RenderRejection(rejection, /*anthropic=*/false, "gpt-x");
  EXPECT_THAT(never.body, HasSubstr("Request too large for gpt-x"));
  EXPECT_EQ(never.body.find("Used"), std::string::npos);
  EXPECT_TRUE(never.headers.empty());

  rejection.never = false;
  rejection.mechanics = Mechanics::kRamp;
  EXPECT_THAT(RenderRejection(rejection, /*anthropic=*/false, "gpt-x").body,
              HasSubstr("\"code\":\"slow_down\""));
}

}  // namespace
}  // namespace headrace::simulator
