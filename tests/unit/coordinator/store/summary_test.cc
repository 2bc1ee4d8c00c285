#include "coordinator/store/summary.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/store/results_csv.h"
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
  const TokenPrices prices = {.input_usd = 1.0, .output_usd = 1.0, .cached_usd = {}};
  const auto tallies = TallyFromLogs(disk.get(), kDir, {prices, TokenPrices()});
  ASSERT_TRUE(tallies.ok()) << tallies.status();
  EXPECT_EQ((*tallies)[0].items, 3);
  EXPECT_EQ((*tallies)[0].ok, 2);
  EXPECT_EQ((*tallies)[0].missing(), 1);
  EXPECT_EQ((*tallies)[0].prompt_tokens, 100);
  EXPECT_EQ((*tallies)[0].items_without_usage, 1);
  EXPECT_EQ((*tallies)[0].total_us.count(), 2);
  EXPECT_DOUBLE_EQ(*(*tallies)[0].cost_usd, 101e-6);
  EXPECT_EQ((*tallies)[1].failed_by_class.at(ErrorClass::kAuth), 1);
  EXPECT_EQ((*tallies)[1].attempts, 2);
  EXPECT_EQ((*tallies)[1].cost_usd, std::nullopt);
  EXPECT_EQ(TallyFromLogs(disk.get(), kDir, {prices}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A line of right checksum that is no JSON.
std::string UnreadableLine(uint64_t item) {
  ResultLine line;
  line.item = ItemId(item);
  line.error_class = ErrorClass::kTimeout;
  line.http_status = 500;
  line.body = "\"";  // a quote that is never closed
  std::string out;
  AppendResultLine(line, &out);
  return out + "\n";
}

TEST(ReadRunFields, AFullDiskUnderTheCsvDoesNotSpoilTheTallyOfTheSamePass) {
  const auto disk = DiskWithRun(3, 1);
  disk->SetContent("run/results.csv", "old");
  disk->SetContent("run/results.jsonl",
                   absl::StrCat(Line(0, ErrorClass::kNone, 7), Line(1, ErrorClass::kNone, 8)));
  auto tally = RunTally::Make(disk.get(), kDir, {TokenPrices()});
  ASSERT_TRUE(tally.ok()) << tally.status();
  ResultsCsv csv(disk.get(), kDir, CsvOptions());
  disk->FailNth(FaultDisk::Call::kAppend, 1, absl::ResourceExhaustedError("full"), 5);
  const auto check =
      ReadRunFields(disk.get(), kDir, [&](const ResultLineKey& key, const ResultFields* fields) {
        tally->Add(key, fields);
        csv.Add(fields).IgnoreError();
        return absl::OkStatus();
      });
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ((*std::move(tally)).Finish()[0].prompt_tokens, 15);
  EXPECT_EQ(std::move(csv).Finish().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(disk->Content("run/results.csv"), "old");
}

TEST(ReadRunFields, AnUnreadableLineCountsByItsKeyAndHasNoRow) {
  const auto disk = DiskWithRun(2, 1);
  disk->SetContent("run/results.jsonl", Line(0, ErrorClass::kNone, 7));
  disk->SetContent("run/errors.jsonl", UnreadableLine(1));
  auto tally = RunTally::Make(disk.get(), kDir, {TokenPrices()});
  ASSERT_TRUE(tally.ok()) << tally.status();
  ResultsCsv csv(disk.get(), kDir, CsvOptions());
  const auto check =
      ReadRunFields(disk.get(), kDir, [&](const ResultLineKey& key, const ResultFields* fields) {
        tally->Add(key, fields);
        return csv.Add(fields);
      });
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->damaged, 1);
  EXPECT_EQ(check->failed, 1);
  EXPECT_EQ((*std::move(tally)).Finish()[0].failed_by_class.at(ErrorClass::kTimeout), 1);
  ASSERT_EQ(std::move(csv).Finish(), absl::OkStatus());
  const std::string content = disk->Content("run/results.csv");
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 2) << content;  // header, one row
}

// Case H7: the rate is what tells a fault of the server.
TEST(Summary, AnswersThatAreNoJsonAreCounted) {
  const auto disk = DiskWithRun(4, 1);
  const std::string contents[] = {"{}", "[1", "{}" + std::string(100, ' ')};
  std::string results;
  for (uint64_t i = 0; i < 3; ++i) {
    const std::string body =
        absl::StrCat(R"({"choices":[{"message":{"content":")", contents[i], R"("}}]})");
    ResultLine line;
    line.item = ItemId(i);
    line.http_status = 200;
    line.body = body;
    line.finish_reason = "length";
    AppendResultLine(line, &results);
    results += "\n";
  }
  disk->SetContent("run/results.jsonl", results);
  disk->SetContent("run/errors.jsonl", Line(3, ErrorClass::kRefusal, 1));
  auto tally = RunTally::Make(disk.get(), kDir, {TokenPrices()}, /*json=*/true);
  ASSERT_TRUE(tally.ok()) << tally.status();
  const auto read =
      ReadRunFields(disk.get(), kDir, [&](const ResultLineKey& key, const ResultFields* fields) {
        tally->Add(key, fields);
        return absl::OkStatus();
      });
  ASSERT_TRUE(read.ok()) << read.status();
  RunSummary summary;
  summary.models.push_back({"m", std::move(*tally).Finish()[0]});
  EXPECT_THAT(SummaryJson(summary), testing::Not(HasSubstr("\"json\"")));
  summary.json = true;
  EXPECT_THAT(SummaryJson(summary),
              HasSubstr(R"("json":{"whole":2,"fenced":0,"truncated":1,"refused":0,"none":0,)"
                        R"("white_space_tails":1})"));
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
