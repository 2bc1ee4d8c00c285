#include "worker/batch/retry_rule.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

using Kind = RetryRule::Decision::Kind;

RetryOptions WithoutJitter() {
  RetryOptions options;
  options.backoff.jitter = absl::ZeroDuration();
  return options;
}

TEST(RetryRule, AServerErrorIsRetriedUntilTheBudgetOfAttemptsIsUsed) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  RetryRule::Decision first = rule.Next(ErrorClass::kServerError, std::nullopt, &random);
  EXPECT_EQ(first.kind, Kind::kRetry);
  EXPECT_EQ(first.wait, absl::Milliseconds(500));
  RetryRule::Decision second = rule.Next(ErrorClass::kServerError, std::nullopt, &random);
  EXPECT_EQ(second.kind, Kind::kRetry);
  EXPECT_EQ(second.wait, absl::Seconds(1));
  EXPECT_EQ(rule.Next(ErrorClass::kServerError, std::nullopt, &random).kind, Kind::kFinal);
  EXPECT_EQ(rule.counted(), 3);
}

TEST(RetryRule, ThrottledAttemptsDoNotUseUpTheBudget) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, std::nullopt, &random).kind, Kind::kRetry);
  }
  EXPECT_EQ(rule.counted(), 0);
  EXPECT_EQ(rule.throttled(), 50);
  EXPECT_EQ(rule.Next(ErrorClass::kServerError, std::nullopt, &random).kind, Kind::kRetry);
}

TEST(RetryRule, AnOverloadAfterPartOfAnAnswerIsNotPaidForWithoutEnd) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  const auto next = [&rule, &random] {
    return rule.Next(ErrorClass::kOverloaded, std::nullopt, &random, /*possibly_billed=*/true).kind;
  };
  EXPECT_EQ(next(), Kind::kRetry);
  EXPECT_EQ(next(), Kind::kRetry);
  EXPECT_EQ(next(), Kind::kFinal);
}

TEST(RetryRule, AnAttemptThatWasNeverSentUsesUpNothing) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  EXPECT_EQ(rule.NextUnsent(&random).wait, absl::Milliseconds(500));
  EXPECT_EQ(rule.NextUnsent(&random).wait, absl::Seconds(1));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(rule.NextUnsent(&random).kind, Kind::kRetry);
  EXPECT_EQ(rule.NextUnsent(&random).wait, absl::Seconds(8));
  EXPECT_EQ(rule.counted(), 0);
  EXPECT_EQ(rule.throttled(), 0);
}

TEST(RetryRule, AThrottledAttemptWithoutAHintWaitsAllTheSame) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, std::nullopt, &random).wait,
            absl::Milliseconds(500));
  EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, std::nullopt, &random).wait, absl::Seconds(1));
}

TEST(RetryRule, WhatCostsNoBudgetIsNeverRepeatedWithoutAWait) {  // B3
  Random random(1);
  RetryOptions options;
  options.backoff = {absl::ZeroDuration(), absl::ZeroDuration(), absl::ZeroDuration()};
  RetryRule rule(options);
  for (const absl::Duration wait : {absl::Milliseconds(100), absl::Milliseconds(200)}) {
    EXPECT_EQ(rule.NextUnsent(&random).wait, wait);
    EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, absl::ZeroDuration(), &random).wait, wait);
  }
  for (int i = 0; i < 10; ++i) rule.Next(ErrorClass::kOverloaded, std::nullopt, &random);
  EXPECT_EQ(rule.Next(ErrorClass::kOverloaded, std::nullopt, &random).wait, absl::Seconds(1));
  // What does cost some waits as the job says.
  EXPECT_EQ(rule.Next(ErrorClass::kServerError, std::nullopt, &random).wait, absl::ZeroDuration());
}

TEST(RetryRule, AnAnswerThatWasLostIsAskedForOnceMoreAndNoMore) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  EXPECT_EQ(rule.Next(ErrorClass::kConnectionLost, std::nullopt, &random).kind, Kind::kRetry);
  EXPECT_EQ(rule.Next(ErrorClass::kConnectionLost, std::nullopt, &random).kind, Kind::kFinal);
}

TEST(RetryRule, ATimeoutIsNotRepeatedForEver) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  EXPECT_EQ(rule.Next(ErrorClass::kTimeout, std::nullopt, &random).kind, Kind::kRetry);
  EXPECT_EQ(rule.Next(ErrorClass::kTimeout, std::nullopt, &random).kind, Kind::kFinal);
}

TEST(RetryRule, AHintIsAMinimum) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, absl::Seconds(7), &random).wait, absl::Seconds(7));
  EXPECT_EQ(rule.Next(ErrorClass::kRateLimited, absl::Milliseconds(1), &random).wait,
            absl::Seconds(1));
}

TEST(RetryRule, AnEnormousHintParksInsteadOfSleepingSilently) {
  Random random(1);
  RetryRule rule(WithoutJitter());
  const RetryRule::Decision decision =
      rule.Next(ErrorClass::kRateLimited, absl::Hours(24), &random);
  EXPECT_EQ(decision.kind, Kind::kParked);
  EXPECT_EQ(decision.wait, absl::Hours(24));
}

TEST(RetryRule, FinalClassesAreNeverRetried) {
  Random random(1);
  for (const ErrorClassInfo& info : AllErrorClasses()) {
    if (info.attempt != AttemptRule::kFinal) continue;
    RetryRule rule(WithoutJitter());
    EXPECT_EQ(rule.Next(info.error_class, std::nullopt, &random).kind, Kind::kFinal) << info.name;
  }
}

}  // namespace
}  // namespace headrace
