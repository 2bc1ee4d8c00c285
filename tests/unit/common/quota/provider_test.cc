// Whole runs against a metering provider in virtual time: no rejections, full use of the quota, and
// nothing left behind. Invariants 1, 2, 3 and 6 of the quota design.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/quota/costs.h"
#include "common/quota/estimator.h"
#include "tests/unit/common/quota/harness.h"
#include "tests/unit/common/quota/provider_model.h"

namespace headrace::quota {
namespace {

struct RunOptions {
  ProviderOptions provider;
  int64_t believed_tokens = 0;  // the limit that the pool was told, when it is another
  int streams = 100;            // attempts at a time
  double seconds = 600;         // attempts start until then
  double median = 1000;         // tokens of a call, lognormal
  double sigma = 0.9;           // mean = median * e^(sigma^2 / 2)
  int64_t cap = 16'000;
  double output_share = 0.3;  // of the tokens
  absl::Duration latency = absl::Seconds(4);
  bool exact = false;  // costs are known in advance, no estimator
  double utilisation = 0.995;
};

struct ProviderRun {
  ProviderRun(RunOptions o, uint64_t seed)
      : options(o),
        random(seed),
        worker(MakePool(o), {}, seed, /*shuffle=*/true),
        provider(o.provider, worker.reactor.Now()),
        estimator(std::nullopt) {}

  static PoolSpec MakePool(const RunOptions& o) {
    std::vector<DimensionSpec> dimensions;
    if (o.provider.requests_per_minute > 0) {
      dimensions.push_back(PerMinute(Dimension::kRequests, o.provider.requests_per_minute));
    }
    if (o.provider.tokens_per_minute > 0) {
      dimensions.push_back(PerMinute(Dimension::kTokens, o.believed_tokens > 0
                                                             ? o.believed_tokens
                                                             : o.provider.tokens_per_minute));
    }
    return Pool(dimensions, o.utilisation);
  }

  double Normal() {
    return std::sqrt(-2 * std::log(1 - random.Unit())) * std::cos(6.283185307 * random.Unit());
  }

  const RunOptions options;
  Random random;
  Worker worker;
  ProviderModel provider;
  TokenEstimator estimator;
  int64_t attempts = 0;
  double ended = 0;
  // Sends and charges as the pool sees them, for the safety bound.
  std::vector<std::pair<double, int64_t>> sends;
};

Task<void> OneCall(ProviderRun* run) {
  Worker& worker = run->worker;
  const double size = run->options.median * std::exp(run->options.sigma * run->Normal());
  const int64_t total = std::clamp<int64_t>(std::llround(size), 10, run->options.cap);
  const int64_t output = std::llround(static_cast<double>(total) * run->options.output_share);
  const int64_t input = total - output;
  PromptFeatures features;  // 4.5 letters and spaces to a token: the estimator has to learn that
  features.letters =
      std::llround(static_cast<double>(input) * 4.5 * (0.95 + 0.1 * run->random.Unit()));
  features.messages = 1;
  Costs costs = Tokens(total);
  if (!run->options.exact) {
    costs = EstimateCosts(run->estimator.Estimate(features), std::nullopt, ChargeRules{});
  }
  ++run->attempts;
  Ticket ticket = co_await worker.admission.Admit(run->random.Below(3), 0, 1, costs, StopToken());
  if (ticket.kind != Ticket::Kind::kAdmitted) {
    ADD_FAILURE() << ticket.text;
    co_return;
  }
  const MonoTime sent_at = worker.reactor.Now();
  run->sends.emplace_back(worker.Seconds(sent_at), costs[1]);
  const absl::Duration delay = absl::Milliseconds(1) + absl::Milliseconds(30) * run->random.Unit();
  co_await Sleep(&worker.reactor, delay, StopToken());
  if (!run->provider.Call(worker.reactor.Now(), costs[1], total)) {
    Penalty penalty;
    penalty.retry_after = absl::Seconds(1);
    penalty.sent_at = sent_at;
    worker.admission.Penalize(penalty);
    worker.admission.Settle(ticket, Settlement::kRejected, Costs{});
    co_return;
  }
  const absl::Duration latency = run->options.latency * (0.5 + run->random.Unit());
  co_await Sleep(&worker.reactor, latency, StopToken());
  ChargeRules charging;
  if (run->options.provider.keeps_estimate) charging.charging = Charging::kLargerOf;
  worker.admission.Settle(ticket, Settlement::kCharged,
                          ActualCosts(costs, input, output, charging));
  run->estimator.Learn(features, input, output);
}

Task<void> Stream(ProviderRun* run) {
  while (run->worker.Seconds(run->worker.reactor.Now()) < run->options.seconds) {
    co_await OneCall(run);
  }
}

void RunIt(ProviderRun* run) {
  TaskScope scope(&run->worker.reactor, StopToken());
  for (int i = 0; i < run->options.streams; ++i) scope.Spawn(Stream(run));
  RunToEnd(&run->worker, &scope);
  run->ended = run->worker.Seconds(run->worker.reactor.Now());
  EXPECT_EQ(run->worker.admission.Snapshot().in_flight, 0);
  EXPECT_EQ(run->worker.admission.waiting(), 0);
}

// In any interval t, no more than rate * t + burst + one request is sent.
void ExpectSafe(const ProviderRun& run, double per_second, bool tokens) {
  double debt = 0;
  double last = 0;
  double most = 0;
  for (const auto& [at, cost] : run.sends) {
    debt = std::max(0.0, debt - (at - last) * per_second);
    last = at;
    most = std::max(most, debt);
    debt += tokens ? static_cast<double>(cost) : 1;
  }
  EXPECT_LE(most, per_second * (0.25 + 0.002) + 1);
}

TEST(Provider, AMatchingPoolIsNeverRejectedAndStaysWithinRateAndBurst) {
  // Every combination, and a provider that saves up no more than a second of credit.
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    for (const bool keeps : {false, true}) {
      for (const bool counts_failed : {false, true}) {
        for (const double capacity : {1.0, 60.0}) {
          SCOPED_TRACE(testing::Message() << "seed " << seed << " keeps " << keeps << " counts "
                                          << counts_failed << " capacity " << capacity);
          RunOptions options;
          options.provider = {.requests_per_minute = 400,
                              .tokens_per_minute = 400'000,
                              .capacity = absl::Seconds(capacity),
                              .keeps_estimate = keeps,
                              .counts_failed = counts_failed};
          options.cap = 2'000;
          options.median = 800;
          options.seconds = 120;
          options.streams = 60;
          options.exact = true;
          ProviderRun run(options, seed);
          RunIt(&run);
          EXPECT_EQ(run.provider.rejected(), 0);
          EXPECT_GT(run.provider.accepted(), 500);
          ExpectSafe(run, 400'000 / 60.0, true);
          ExpectSafe(run, 400 / 60.0, false);
        }
      }
    }
  }
}

TEST(Provider, EstimatesThatAreCorrectedAreNotRejectedEither) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const bool keeps : {false, true}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " keeps " << keeps);
      RunOptions options;
      options.provider = {.tokens_per_minute = 400'000, .keeps_estimate = keeps};
      options.seconds = 300;
      ProviderRun run(options, seed);
      RunIt(&run);
      EXPECT_EQ(run.provider.rejected(), 0);
      EXPECT_GT(run.provider.accepted(), 800);
    }
  }
}

TEST(Provider, TwoMillionTokensAMinuteAreUsedToNinetyNinePercentForAnHourWithoutRejection) {
  const uint64_t seed = 20'240'601;
  RunOptions options;
  options.provider = {.tokens_per_minute = 2'000'000};
  options.streams = 400;
  options.seconds = 3600;
  options.latency = absl::Seconds(8);
  ProviderRun run(options, seed);
  TaskScope scope(&run.worker.reactor, StopToken());
  int64_t charged_at_the_hour = 0;
  scope.Spawn(AtTime(&run.worker, 3600, [&] { charged_at_the_hour = run.provider.charged(); }));
  for (int i = 0; i < options.streams; ++i) scope.Spawn(Stream(&run));
  RunToEnd(&run.worker, &scope);
  const double used = static_cast<double>(charged_at_the_hour) / (2'000'000.0 * 60);
  const double mean =
      static_cast<double>(run.provider.charged()) / static_cast<double>(run.provider.accepted());
  RecordProperty("utilisation_percent", std::to_string(used * 100));
  std::printf("seed %lu: %.2f %% used, %ld accepted, %ld rejected, mean %.0f tokens, %ld asked\n",
              static_cast<unsigned long>(seed), used * 100,
              static_cast<long>(run.provider.accepted()),
              static_cast<long>(run.provider.rejected()), mean,
              static_cast<long>(run.worker.admission.asked()));
  EXPECT_EQ(run.provider.rejected(), 0);
  EXPECT_GE(used, 0.99);
  EXPECT_LE(used, 1.0);
  EXPECT_NEAR(mean, 1500, 100);
}

TEST(Provider, ALimitThatIsHalfOfWhatTheUserSaidIsFoundByCuts) {
  // The pool believes in 800k a minute, the provider enforces 400k and says "wait a second".
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    RunOptions options;
    options.provider = {.tokens_per_minute = 400'000, .capacity = absl::Seconds(5)};
    options.believed_tokens = 800'000;
    options.seconds = 600;
    ProviderRun run(options, seed);
    RunIt(&run);
    const double used = static_cast<double>(run.provider.charged()) / (400'000.0 / 60 * run.ended);
    EXPECT_GT(used, 0.85);
    EXPECT_LT(static_cast<double>(run.provider.rejected()),
              0.15 * static_cast<double>(run.provider.accepted()));
  }
}

}  // namespace
}  // namespace headrace::quota
