#include "coordinator/store/summary.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/store/run_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kDir[] = "run";

std::unique_ptr<FaultDisk> DiskWithRun(int64_t rows, int64_t models) {
  auto disk = std::make_unique<FaultDisk>();
  VirtualReactor reactor;
  RunIdentity identity = TestIdentity();
  identity.rows = rows;
  identity.models = models;
  const auto opened = OpenStore(disk.get(), &reactor, kDir, InlineOptions(), identity);
  HR_CHECK(opened->ok());
  HR_CHECK(RunCall(&reactor, (*opened)->Close()).ok());
  return disk;
}

std::string Line(uint64_t item, ErrorClass error_class, std::optional<int64_t> prompt_tokens) {
  ResultLine line;
  line.item = ItemId(item);
  line.error_class = error_class;
  line.http_status = error_class == ErrorClass::kNone ? 200 : 0;
  line.attempts = 2;
  line.usage.prompt_tokens = prompt_tokens;
  if (prompt_tokens.has_value()) line.usage.completion_tokens = 1;
  line.times.total = absl::Milliseconds(10);
  std::string out;
  AppendResultLine(line, &out);
  return out + "\n";
}

TEST(Summary, FailuresStayInTheDenominator) {
  RunSummary summary;
  summary.models.resize(1);
  Tally& tally = summary.models[0].tally;
  tally.items = 100;
  tally.ok = 80;
  tally.failed = 10;
  tally.failed_by_class[ErrorClass::kTimeout] = 10;
  const std::string json = SummaryJson(summary);
  EXPECT_THAT(json, HasSubstr(R"("items":{"total":100,"ok":80,"failed":10,"missing":10})"));
  EXPECT_THAT(json, HasSubstr(R"("ratios":{"ok_of_all":0.800000,"ok_of_finished":0.888889})"));
  EXPECT_THAT(json, HasSubstr(R"("failed_by_class":{"timeout":10})"));
}

TEST(Summary, AnEmptyRunHasNoRatiosAndNoLatencies) {
  const std::string json = SummaryJson(RunSummary());
  EXPECT_THAT(json, HasSubstr(R"("ratios":{"ok_of_all":null,"ok_of_finished":null})"));
  EXPECT_THAT(json, HasSubstr(R"("latency_ms":{"total":null,)"));
  EXPECT_THAT(json, HasSubstr(R"("cost_usd":null)"));
  EXPECT_THAT(json, HasSubstr(R"("finished_items_per_minute":null)"));
  EXPECT_THAT(json, HasSubstr(R"("models":[])"));
}

TEST(Summary, SaysHowTheRunEnded) {
  RunSummary summary;
  summary.state = RunState::kStopped;
  summary.reason = "budget of 5 USD used up";
  summary.exit_code = 6;
  summary.started = absl::FromUnixSeconds(1'700'000'000);
  summary.ended = summary.started + absl::Seconds(90);
  summary.active = absl::Seconds(60);
  const std::string json = SummaryJson(summary);
  EXPECT_THAT(json, HasSubstr(R"("state":"stopped","reason":"budget of 5 USD used up",)"
                              R"("exit_code":6,)"));
  EXPECT_THAT(json, HasSubstr(R"("started":"2023-11-14T22:13:20.000Z",)"
                              R"("ended":"2023-11-14T22:14:50.000Z","active_seconds":60.000)"));
}

TEST(Summary, CostNeedsBothPricesAndCountsCachedTokensOnce) {
  Tally tally;
  tally.prompt_tokens = 1'000'000;
  tally.cached_tokens = 400'000;
  tally.completion_tokens = 500'000;
  EXPECT_EQ(CostUsd(tally, {.input_usd = 1.0, .output_usd = {}, .cached_usd = {}}), std::nullopt);
  EXPECT_DOUBLE_EQ(*CostUsd(tally, {.input_usd = 1.0, .output_usd = 4.0, .cached_usd = {}}), 3.0);
  EXPECT_DOUBLE_EQ(*CostUsd(tally, {.input_usd = 1.0, .output_usd = 4.0, .cached_usd = 0.5}), 2.8);
}

TEST(Summary, IsCountedAgainFromTheLogs) {
  const auto disk = DiskWithRun(3, 2);
  disk->SetContent("run/results.jsonl",
                   absl::StrCat(Line(0, ErrorClass::kNone, 100), Line(0, ErrorClass::kNone, 100),
                                Line(2, ErrorClass::kNone, std::nullopt)));
  disk->SetContent("run/errors.jsonl", Line(1, ErrorClass::kAuth, std::nullopt));
  std::vector<RunSummary::Model> models(2);
  const TokenPrices prices = {.input_usd = 1.0, .output_usd = 1.0, .cached_usd = {}};
  ASSERT_EQ(TallyFromLogs(disk.get(), kDir, {prices, TokenPrices()}, &models), absl::OkStatus());
  EXPECT_EQ(models[0].tally.items, 3);
  EXPECT_EQ(models[0].tally.ok, 2);
  EXPECT_EQ(models[0].tally.missing(), 1);
  EXPECT_EQ(models[0].tally.prompt_tokens, 100);
  EXPECT_EQ(models[0].tally.items_without_usage, 1);
  EXPECT_EQ(models[0].tally.total_us.count(), 2);
  EXPECT_DOUBLE_EQ(*models[0].tally.cost_usd, 101e-6);
  EXPECT_EQ(models[1].tally.failed_by_class.at(ErrorClass::kAuth), 1);
  EXPECT_EQ(models[1].tally.attempts, 2);
  EXPECT_EQ(models[1].tally.cost_usd, std::nullopt);
  EXPECT_EQ(TallyFromLogs(disk.get(), kDir, {prices}, &models).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(VerifyRun, ListsWhatIsMissingRepeatedForeignAndDamaged) {
  const auto disk = DiskWithRun(5, 1);
  std::string damaged = Line(1, ErrorClass::kNone, 1);
  damaged[10] ^= 1;
  disk->SetContent("run/results.jsonl", absl::StrCat(Line(0, ErrorClass::kNone, 1), damaged,
                                                     Line(0, ErrorClass::kNone, 1),
                                                     Line(9, ErrorClass::kNone, 1), "{\"torn"));
  disk->SetContent("run/errors.jsonl",
                   absl::StrCat(Line(0, ErrorClass::kAuth, 1), Line(3, ErrorClass::kAuth, 1)));
  const auto check = VerifyRun(disk.get(), kDir);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->ok, 1);
  EXPECT_EQ(check->failed, 1);
  EXPECT_EQ(check->missing, 3);
  EXPECT_THAT(check->missing_items, ElementsAre(ItemId(1), ItemId(2), ItemId(4)));
  EXPECT_EQ(check->duplicates, 2);
  EXPECT_EQ(check->foreign, 1);
  EXPECT_EQ(check->unfinished_bytes, 6);
  EXPECT_FALSE(check->clean());
  EXPECT_THAT(DescribeRunCheck(*check),
              HasSubstr("results.jsonl:2: damaged: the line's checksum is wrong\n"));
  EXPECT_THAT(DescribeRunCheck(*check), HasSubstr("item 4: missing\n"));
}

TEST(VerifyRun, ACompleteRunIsClean) {
  const auto disk = DiskWithRun(2, 1);
  disk->SetContent("run/results.jsonl",
                   absl::StrCat(Line(1, ErrorClass::kNone, 1), Line(0, ErrorClass::kNone, 1)));
  const auto check = VerifyRun(disk.get(), kDir);
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_TRUE(check->clean());
  EXPECT_EQ(DescribeRunCheck(*check), "2 rows x 1 models: 2 ok, 0 failed, 0 missing\n");
}

}  // namespace
}  // namespace headrace
