#include "worker/provider/rate_headers.h"

#include <string>

#include <gtest/gtest.h>

namespace headrace::provider {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1760000000);  // 2025-10-09T08:53:20Z

TEST(ParseReset, EveryFormOfCaseF1) {
  const struct {
    const char* text;
    absl::Duration want;
  } kRows[] = {
      {"6m0s", absl::Minutes(6)},
      {"1m30.5s", absl::Seconds(90.5)},
      {"500ms", absl::Milliseconds(500)},
      {"6ms", absl::Milliseconds(6)},
      {"1s", absl::Seconds(1)},
      {"8.64s", absl::Milliseconds(8640)},
      {"23h18m29.144s", absl::Hours(23) + absl::Minutes(18) + absl::Milliseconds(29144)},
      {"1h2m3s", absl::Seconds(3723)},
      {"60", absl::Seconds(60)},
      {"0", absl::ZeroDuration()},
      {"1.5", absl::Seconds(1.5)},
      {" 10 ", absl::Seconds(10)},
      {"300", absl::Minutes(5)},
      {"2025-10-09T08:54:20Z", absl::Seconds(60)},
      {"2025-10-09T10:54:20+02:00", absl::Seconds(60)},
      {"2025-10-09T08:53:20.5Z", absl::Milliseconds(500)},
      {"1760000060", absl::Seconds(60)},
      {"1760000060000", absl::Seconds(60)},
      {"1759999940", absl::ZeroDuration()},  // past
      {"1759999940000", absl::ZeroDuration()},
      {"2025-10-09T08:00:00Z", absl::ZeroDuration()},
      {"Thu, 09 Oct 2025 08:54:20 GMT", absl::Seconds(60)},
      {"-1", absl::ZeroDuration()},
  };
  for (const auto& row : kRows) EXPECT_EQ(ParseReset(row.text, kNow), row.want) << row.text;
}

TEST(ParseReset, NonsenseIsUnknown) {
  for (const char* text : {"",
                           " ",
                           "soon",
                           "s",
                           "ms",
                           "1x",
                           "1m2",
                           "m1",
                           "1..5s",
                           "..",
                           "-",
                           "1e9",
                           "nan",
                           "inf",
                           "0x10",
                           "99999999999999999999",
                           "2025-13-01T00:00:00Z",
                           "2025-10-09",
                           "1 2",
                           "--5",
                           "Thu, 32 Oct 2025 08:54:20 GMT",
                           "Thu, 09 Okt 2025 08:54:20 GMT"}) {
    EXPECT_EQ(ParseReset(text, kNow), std::nullopt) << text;
  }
}

TEST(ParseReset, AWaitIsNeverLongerThanAYear) {
  EXPECT_EQ(ParseReset("999999999", kNow), kLongestReset);
  EXPECT_EQ(ParseReset("99999999h", kNow), kLongestReset);
  EXPECT_EQ(ParseReset("9999-12-31T00:00:00Z", kNow), kLongestReset);
}

TEST(ParseHttpDate, AllThreeFormsOfTheRfcGiveTheSameTime) {
  const absl::Time want =
      absl::FromCivil(absl::CivilSecond(2026, 10, 21, 7, 28, 0), absl::UTCTimeZone());
  EXPECT_EQ(ParseHttpDate("Wed, 21 Oct 2026 07:28:00 GMT"), want);
  EXPECT_EQ(ParseHttpDate("Wednesday, 21-Oct-26 07:28:00 GMT"), want);
  EXPECT_EQ(ParseHttpDate("Wed Oct 21 07:28:00 2026"), want);
  EXPECT_EQ(ParseHttpDate("Wed Oct  1 07:28:00 2026"), want - absl::Hours(24 * 20));
}

TEST(ParseHttpDate, NonsenseIsUnknown) {
  for (const char* text : {"", "Wed", "Wed, 21 Oct 2026 07:28 GMT", "Wed, 21 Oct 2026 25:28:00 GMT",
                           "Wed, x Oct 2026 07:28:00 GMT", "Wed, 21 Oct -5 07:28:00 GMT",
                           "Wednesday, 21/Oct/26 07:28:00 GMT", "a b c d e", "a, b c d e f"}) {
    EXPECT_EQ(ParseHttpDate(text), std::nullopt) << text;
  }
}

TEST(ParseUnitDuration, GoogleDurationsHaveNineDecimals) {
  EXPECT_EQ(ParseUnitDuration("41.250000001s"), absl::Milliseconds(41250) + absl::Nanoseconds(1));
  EXPECT_EQ(ParseUnitDuration("31167s"), absl::Seconds(31167));
  EXPECT_EQ(ParseUnitDuration("12"), std::nullopt);
}

TEST(ParseLimit, MinusOneAndZeroAreUnknownLimits) {
  EXPECT_EQ(ParseLimit("5000", true), 5000);
  EXPECT_EQ(ParseLimit("5,000,000", true), 5000000);
  EXPECT_EQ(ParseLimit("0", true), std::nullopt);
  EXPECT_EQ(ParseLimit("-1", true), std::nullopt);
  EXPECT_EQ(ParseLimit("", true), std::nullopt);
  EXPECT_EQ(ParseLimit("many", true), std::nullopt);
  EXPECT_EQ(ParseLimit("99999999999999999999", true), std::nullopt);
  EXPECT_EQ(ParseLimit("0", false), 0);
  EXPECT_EQ(ParseLimit("-1", false), std::nullopt);
}

TEST(ParseRetryAfter, ADateIsTakenFromTheServersClock) {
  // Case B1: the server's Date is 30 s before the retry time; the local clock is years off.
  const http::Headers headers = {{"date", "Wed, 21 Oct 2026 07:27:30 GMT"},
                                 {"retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"}};
  EXPECT_EQ(ParseRetryAfter(headers, kNow), absl::Seconds(30));
}

TEST(ParseRetryAfter, APastDateIsZeroAndNonsenseIsUnknown) {
  EXPECT_EQ(ParseRetryAfter({{"date", "Wed, 21 Oct 2026 07:28:00 GMT"},
                             {"retry-after", "Wednesday, 21-Oct-26 07:27:00 GMT"}},
                            kNow),
            absl::ZeroDuration());
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "later"}}, kNow), std::nullopt);
  EXPECT_EQ(ParseRetryAfter({}, kNow), std::nullopt);
}

TEST(ParseRetryAfter, MillisecondsGoBeforeSeconds) {
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "2"}, {"retry-after-ms", "1234"}}, kNow),
            absl::Milliseconds(1234));
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "2"}, {"retry-after-ms", "x"}}, kNow),
            absl::Seconds(2));
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "0.5"}}, kNow), absl::Milliseconds(500));
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "86400"}}, kNow), absl::Hours(24));
  EXPECT_EQ(ParseRetryAfter({{"retry-after", "1296000"}}, kNow), absl::Hours(24 * 15));
}

TEST(ParseRateHeaders, OpenAi) {
  const RateHeaders rate = ParseRateHeaders({{"x-ratelimit-limit-requests", "10000"},
                                             {"x-ratelimit-remaining-requests", "9999"},
                                             {"x-ratelimit-reset-requests", "6ms"},
                                             {"x-ratelimit-limit-tokens", "200000"},
                                             {"x-ratelimit-remaining-tokens", "199978"},
                                             {"x-ratelimit-reset-tokens", "1m30s"}},
                                            kNow);
  EXPECT_EQ(rate.requests.limit, 10000);
  EXPECT_EQ(rate.requests.remaining, 9999);
  EXPECT_EQ(rate.requests.reset, absl::Milliseconds(6));
  EXPECT_EQ(rate.tokens.limit, 200000);
  EXPECT_EQ(rate.tokens.remaining, 199978);
  EXPECT_EQ(rate.tokens.reset, absl::Seconds(90));
  EXPECT_EQ(rate.input_tokens.limit, std::nullopt);
}

TEST(ParseRateHeaders, Anthropic) {
  const RateHeaders rate =
      ParseRateHeaders({{"anthropic-ratelimit-requests-limit", "4000"},
                        {"anthropic-ratelimit-requests-remaining", "3999"},
                        {"anthropic-ratelimit-input-tokens-limit", "400000"},
                        {"anthropic-ratelimit-input-tokens-remaining", "398000"},
                        {"anthropic-ratelimit-input-tokens-reset", "2025-10-09T08:53:21Z"},
                        {"anthropic-ratelimit-output-tokens-remaining", "0"}},
                       kNow);
  EXPECT_EQ(rate.requests.limit, 4000);
  EXPECT_EQ(rate.input_tokens.limit, 400000);
  EXPECT_EQ(rate.input_tokens.remaining, 398000);
  EXPECT_EQ(rate.input_tokens.reset, absl::Seconds(1));
  EXPECT_EQ(rate.output_tokens.remaining, 0);
}

TEST(ParseRateHeaders, Mistral) {
  const RateHeaders rate = ParseRateHeaders({{"ratelimitbysize-limit", "500000"},
                                             {"ratelimitbysize-remaining", "467993"},
                                             {"ratelimitbysize-reset", "3"}},
                                            kNow);
  EXPECT_EQ(rate.tokens.limit, 500000);
  EXPECT_EQ(rate.tokens.remaining, 467993);
  EXPECT_EQ(rate.tokens.reset, absl::Seconds(3));
}

TEST(ParseRateHeaders, OpenRouterResetIsInEpochMilliseconds) {
  const RateHeaders rate = ParseRateHeaders({{"x-ratelimit-limit", "20"},
                                             {"x-ratelimit-remaining", "0"},
                                             {"x-ratelimit-reset", "1760000030000"}},
                                            kNow);
  EXPECT_EQ(rate.requests.limit, 20);
  EXPECT_EQ(rate.requests.remaining, 0);
  EXPECT_EQ(rate.requests.reset, absl::Seconds(30));
}

TEST(ParseRateHeaders, ALimitOfMinusOneTakesItsLevelAlong) {
  const RateHeaders rate = ParseRateHeaders(
      {{"x-ratelimit-limit-tokens", "-1"}, {"x-ratelimit-remaining-tokens", "0"}}, kNow);
  EXPECT_EQ(rate.tokens.limit, std::nullopt);
  EXPECT_EQ(rate.tokens.remaining, std::nullopt);
}

}  // namespace
}  // namespace headrace::provider
