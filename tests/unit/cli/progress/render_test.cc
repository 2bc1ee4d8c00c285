#include "cli/progress/render.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/progress/text_width.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/cli/progress/sample.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;

std::string FrameText(const ProgressSnapshot& snapshot, const FrameOptions& options = {}) {
  return absl::StrCat("\n", absl::StrJoin(RenderFrame(snapshot, options), "\n"), "\n");
}

TEST(RenderFrame, ShowsARunInFullFlow) {
  EXPECT_EQ(FrameText(SampleSnapshot()), R"(
gsm8k  pass 1 of 2  11m25s
[#########...............] 41.2%  61,740 of 150,000  eta 16m18s
  ok 61,700  failed 40  deferred 60  5.41k items/min
  pool main  tokens 4.81M of 5M/min (96%)  requests 5.42k of 10k/min (54%)
  in flight 2,480 of 2,500  waiting at the gate 12  workers 1
  queue p50 12ms p95 80ms  network p50 24.1s p95 40s  throttled 9  retries 131
  cost $12.40 of $50.00
  failures: timeout 58, content_filter 42
  gpt-4o-mini  [####........] 20,600 of 50,000  failed 12
  claude-haiku [####........] 20,540 of 50,000  failed 20
  gpt-4o       [####........] 20,600 of 50,000  failed 8
  limited by tokens/min of pool main
)");
}

TEST(RenderFrame, ShowsARunThatHasNotBegun) {
  ProgressSnapshot snapshot;
  snapshot.job = "empty";
  snapshot.waiting_for = "a worker";
  EXPECT_EQ(FrameText(snapshot), R"(
empty  pass 1 of 1  0s
[........................] 0.0%  0 of 0
  ok 0  failed 0  deferred 0  0 items/min
  in flight 0  waiting at the gate 0  workers 0
  queue p50 - p95 -  network p50 - p95 -  throttled 0  retries 0
  waiting for a worker
)");
}

TEST(RenderFrame, AFinishedRunHasNeitherEtaNorLimit) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.finished = true;
  snapshot.done = snapshot.total;
  snapshot.models.clear();
  snapshot.failures.clear();
  snapshot.cost_usd.reset();
  EXPECT_EQ(FrameText(snapshot), R"(
gsm8k  pass 1 of 2  11m25s  finished
[########################] 100.0%  150,000 of 150,000
  ok 61,700  failed 40  deferred 60  5.41k items/min
  pool main  tokens 4.81M of 5M/min (96%)  requests 5.42k of 10k/min (54%)
  in flight 2,480 of 2,500  waiting at the gate 12  workers 1
  queue p50 12ms p95 80ms  network p50 24.1s p95 40s  throttled 9  retries 131
)");
}

TEST(RenderFrame, NeverShowsHundredPercentBeforeTheLastItem) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.done = snapshot.total - 1;
  EXPECT_THAT(RenderFrame(snapshot, {})[1], ::testing::HasSubstr(" 99.9% "));
}

TEST(RenderFrame, NoLineIsWiderThanTheTerminalAndNoFrameHigher) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.job = "\u4E2D\u6587 and a very long name of a job that goes on and on";
  for (int i = 0; i < 40; ++i) snapshot.models.push_back({absl::StrCat("model-", i), 10, 5, 0});
  for (int columns = 1; columns < 100; ++columns) {
    for (int rows : {1, 2, 5, 13, 24, 100}) {
      FrameOptions options;
      options.columns = columns;
      options.rows = rows;
      const std::vector<std::string> frame = RenderFrame(snapshot, options);
      EXPECT_LE(frame.size(), static_cast<size_t>(std::max(1, rows - 1)));
      for (const std::string& line : frame) EXPECT_LE(TextWidth(line), columns) << line;
    }
  }
}

TEST(RenderFrame, ManyModelsAreSummedUpAndTheLimitStaysVisible) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.models.clear();
  for (int i = 0; i < 40; ++i) snapshot.models.push_back({absl::StrCat("m", i), 10, 5, 0});
  FrameOptions options;
  options.rows = 16;
  const std::vector<std::string> frame = RenderFrame(snapshot, options);
  ASSERT_EQ(frame.size(), 14u);
  EXPECT_EQ(frame[12], "  and 36 more models");
  EXPECT_EQ(frame[13], "  limited by tokens/min of pool main");
}

TEST(RenderFrame, ColourChangesNothingButColour) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.models.clear();
  FrameOptions options;
  options.color = true;
  const std::vector<std::string> frame = RenderFrame(snapshot, options);
  EXPECT_EQ(frame[0], "\x1b[1mgsm8k  pass 1 of 2  11m25s\x1b[0m");
  EXPECT_EQ(frame[1], RenderFrame(snapshot, {})[1]);
  EXPECT_EQ(frame[7], "\x1b[33m  failures: timeout 58, content_filter 42\x1b[0m");
}

TEST(RenderFrame, TheRarestFailureClassesAreCountedTogether) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.failures = {{ErrorClass::kTimeout, 9},    {ErrorClass::kServerError, 8},
                       {ErrorClass::kBadRequest, 7}, {ErrorClass::kRefusal, 6},
                       {ErrorClass::kConnect, 5},    {ErrorClass::kIncomplete, 2},
                       {ErrorClass::kEmptyAnswer, 1}};
  EXPECT_EQ(RenderFrame(snapshot, {})[7],
            "  failures: timeout 9, server_error 8, bad_request 7, refusal 6, others 8");
}

TEST(RenderPlainLine, SaysTheSameOnOneLine) {
  EXPECT_EQ(RenderPlainLine(SampleSnapshot()),
            "[11m25s] gsm8k pass 1 of 2: 61,740 of 150,000 (41.2%), ok 61,700, failed 40, "
            "deferred 60, 5.41k items/min, main tokens 4.81M of 5M/min (96%), in flight 2,480, "
            "throttled 9, cost $12.40 of $50.00, eta 16m18s, limited by tokens/min of pool main");
}

TEST(RenderPlainLine, SaysWhatAutoHasFoundAndWhy) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.in_flight = 212;
  snapshot.auto_in_flight = true;
  snapshot.max_in_flight = 240;
  snapshot.pools[0].in_flight_limit = 240;
  snapshot.pools[0].in_flight_why = "throughput stopped growing at 240";
  EXPECT_THAT(RenderPlainLine(snapshot),
              testing::HasSubstr(
                  "in flight 212 of auto 240: throughput stopped growing at 240, throttled 9"));
  const std::vector<std::string> frame = RenderFrame(snapshot, {});
  EXPECT_THAT(frame,
              testing::Contains("    in flight auto 240: throughput stopped growing at 240"));
  EXPECT_THAT(frame, testing::Contains(
                         testing::HasSubstr("in flight 212 of auto 240  waiting at the gate")));
}

TEST(RenderPlainLine, TwoPoolsSayWhatEachHasFound) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.pools.push_back(snapshot.pools[0]);
  snapshot.pools[1].name = "other";
  snapshot.pools[1].in_flight_limit = 40;
  snapshot.pools[1].in_flight_why = "calls are refused at 44";
  EXPECT_THAT(
      RenderPlainLine(snapshot),
      testing::HasSubstr("in flight 2,480 (other auto 40: calls are refused at 44), throttled 9"));
}

TEST(RenderPlainLine, IsOneLineWhateverAJobIsCalled) {
  ProgressSnapshot snapshot;
  snapshot.job = "two\nlines\x1b[2J";
  snapshot.finished = true;
  EXPECT_EQ(RenderPlainLine(snapshot),
            "[0s] two?lines?[2J pass 1 of 1: 0 of 0 (0.0%), ok 0, failed 0, 0 items/min, "
            "in flight 0, throttled 0, finished");
}

}  // namespace
}  // namespace headrace
