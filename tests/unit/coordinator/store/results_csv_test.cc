#include "coordinator/store/results_csv.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/store/answer_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_disk.h"
#include "tests/unit/coordinator/store/store_test_util.h"

namespace headrace {
namespace {

constexpr char kDir[] = "run";
constexpr char kHeader[] =
    "custom_id,model,status,output,finish_reason,prompt_tokens,completion_tokens,total_ms,"
    "queue_ms,first_token_ms,attempts,error_class,error_message\r\n";

std::string Cell(absl::string_view text, bool guard = true) {
  std::string out;
  AppendCsvCell(text, guard, &out);
  return out;
}

// A run directory of `rows` rows without lines.
std::unique_ptr<FaultDisk> DiskWithRun(int64_t rows) {
  auto disk = std::make_unique<FaultDisk>();
  VirtualReactor reactor;
  RunIdentity identity = TestIdentity();
  identity.rows = rows;
  const auto opened = OpenStore(disk.get(), &reactor, kDir, InlineOptions(), identity);
  HR_CHECK(opened->ok());
  HR_CHECK(RunCall(&reactor, (*opened)->Close()).ok());
  return disk;
}

TEST(CsvCell, AFormulaInAnAnswerIsGuarded) {
  EXPECT_EQ(Cell("=HYPERLINK(\"http://x\",\"y\")"), "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
  EXPECT_EQ(Cell("+1"), "'+1");
  EXPECT_EQ(Cell("-2+3"), "'-2+3");
  EXPECT_EQ(Cell("@x"), "'@x");
  EXPECT_EQ(Cell("\t=1"), "'\t=1");
  EXPECT_EQ(Cell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(Cell("\n=1"), "\"'\n=1\"");
  EXPECT_EQ(Cell("\xE2\x80\x8B=1"), "'\xE2\x80\x8B=1");
  EXPECT_EQ(Cell("\xEF\xBC\x9D"
                 "1"),
            "'\xEF\xBC\x9D"
            "1");
  EXPECT_EQ(Cell(" =1"), "' =1");
}

TEST(CsvCell, NumbersAndWordsAreNotGuarded) {
  for (const char* text : {"-5", "-0.25", "-1e9", "-1E-9", "12", "a=b", "", "x-1", "007", "1e5",
                           "NA", "null", " 12 "}) {
    EXPECT_EQ(Cell(text), text);
  }
  EXPECT_EQ(Cell("-"), "'-");
  EXPECT_EQ(Cell("-1e"), "'-1e");
  EXPECT_EQ(Cell("-1-1"), "'-1-1");
}

TEST(CsvCell, TheGuardCanBeTurnedOff) { EXPECT_EQ(Cell("=1", false), "=1"); }

TEST(CsvCell, IsQuotedByRfc4180) {
  EXPECT_EQ(Cell("a,b"), "\"a,b\"");
  EXPECT_EQ(Cell("say \"hi\""), "\"say \"\"hi\"\"\"");
  EXPECT_EQ(Cell("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(Cell("plain text"), "plain text");
}

TEST(ResultsCsv, WhatIsNotARunDirectoryIsRefused) {
  FaultDisk disk;
  EXPECT_EQ(WriteResultsCsv(&disk, kDir, CsvOptions()).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(disk.Exists("run/results.csv"));
}

TEST(ResultsCsv, AFailedWriteLeavesTheOldFile) {
  const auto disk = DiskWithRun(1);
  disk->SetContent("run/results.csv", "old");
  disk->FailNth(FaultDisk::Call::kAppend, 1, absl::ResourceExhaustedError("full"), 5);
  EXPECT_EQ(WriteResultsCsv(disk.get(), kDir, CsvOptions()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(disk->Content("run/results.csv"), "old");
}

TEST(ResultsCsv, EveryItemThatEndedHasOneRow) {
  const auto disk = DiskWithRun(4);
  ResultLine ok;
  ok.item = ItemId(0);
  ok.custom_id = "007";
  ok.model = "gpt";
  ok.http_status = 200;
  ok.body = R"({"choices":[{"message":{"content":"yes, \"no\""}}]})";
  ok.finish_reason = "stop";
  ok.attempts = 2;
  ok.usage.prompt_tokens = 10;
  ok.times.total = absl::Microseconds(1'234'567);
  ok.times.queue = absl::Milliseconds(4);
  ok.times.first_token = absl::Milliseconds(100);
  std::string results;
  AppendResultLine(ok, &results);
  results += "\n";
  const std::string first = results;
  results += first;                // a repeated line
  results += "{\"damaged\":1}\n";  // and one that is none of ours
  ResultLine failed;
  failed.item = ItemId(1);
  failed.custom_id = "=1";
  failed.model = "gpt";
  failed.error_class = ErrorClass::kTimeout;
  failed.error_message = "too slow,\nalas";
  failed.attempts = 3;
  std::string errors;
  AppendResultLine(failed, &errors);
  errors += "\n";
  disk->SetContent("run/results.jsonl", results);
  disk->SetContent("run/errors.jsonl", errors);

  const auto check = WriteResultsCsv(disk.get(), kDir, CsvOptions());
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(disk->Content("run/results.csv"),
            absl::StrCat(kHeader,
                         "007,gpt,ok,\"yes, \"\"no\"\"\",stop,10,,1234.567,4.000,100.000,2,,\r\n",
                         "'=1,gpt,failed,,,,,0.000,0.000,,3,timeout,\"too slow,\nalas\"\r\n"));
  EXPECT_EQ(check->ok, 1);
  EXPECT_EQ(check->failed, 1);
  EXPECT_EQ(check->duplicates, 1);
  EXPECT_EQ(check->damaged, 1);
  EXPECT_EQ(check->missing, 2);
  EXPECT_FALSE(disk->Exists("run/results.csv.tmp"));
}

// A chat answer of one choice.
std::string ChatBody(absl::string_view message) {
  return absl::StrCat(R"({"choices":[{"message":)", message, "}]}");
}

// Cases H1, H3, H4, H6: what is no JSON stays as it came, and says so.
TEST(ResultsCsv, JsonIsTakenOutOfAFenceAndNothingElse) {
  const auto disk = DiskWithRun(6);
  const std::pair<std::string, std::string> answers[] = {
      {R"({"content":" {\"a\":1}\n"})", "stop"},
      {R"({"content":"```json\n{\"a\":1}\n```"})", "stop"},
      {R"({"content":"{\"a\":[1"})", "length"},
      {R"({"content":null,"refusal":"{}"})", "stop"},
      {R"({"content":"so: {}"})", "stop"},
  };
  std::string results;
  uint64_t item = 0;
  for (const auto& [message, reason] : answers) {
    const std::string body = ChatBody(message);
    const std::string id = absl::StrCat(item);
    ResultLine line;
    line.item = ItemId(item++);
    line.custom_id = id;
    line.model = "m";
    line.http_status = 200;
    line.body = body;
    line.finish_reason = reason;
    AppendResultLine(line, &results);
    results += "\n";
  }
  ResultLine failed;
  failed.item = ItemId(item);
  failed.custom_id = "5";
  failed.model = "m";
  failed.error_class = ErrorClass::kRefusal;
  std::string errors;
  AppendResultLine(failed, &errors);
  disk->SetContent("run/results.jsonl", results);
  disk->SetContent("run/errors.jsonl", errors + "\n");
  CsvOptions options;
  options.json = true;
  ASSERT_TRUE(WriteResultsCsv(disk.get(), kDir, options).ok());
  const std::string header(kHeader);
  EXPECT_EQ(disk->Content("run/results.csv"),
            absl::StrCat(header.substr(0, header.size() - 2), ",json\r\n",
                         "0,m,ok,\"{\"\"a\"\":1}\",stop,,,0.000,0.000,,0,,,whole\r\n",
                         "1,m,ok,\"{\"\"a\"\":1}\",stop,,,0.000,0.000,,0,,,fenced\r\n",
                         "2,m,ok,\"{\"\"a\"\":[1\",length,,,0.000,0.000,,0,,,truncated\r\n",
                         "3,m,ok,{},stop,,,0.000,0.000,,0,,,refused\r\n",
                         "4,m,ok,so: {},stop,,,0.000,0.000,,0,,,none\r\n",
                         "5,m,failed,,,,,0.000,0.000,,0,refusal,,\r\n"));
  EXPECT_EQ(disk->Content("run/results.jsonl"), results);
}

TEST(AnswerText, ReadsTheShapesOfTheProviders) {
  AnswerReader reader;
  EXPECT_EQ(reader.Read(R"({"choices":[{"message":{"content":"a\nb\u00e9"}},{"message":{}}]})"),
            "a\nb\xC3\xA9");
  EXPECT_EQ(reader.Read(R"({"choices":[{"message":{"content":[{"type":"text","text":"a"},)"
                        R"({"type":"image"},{"type":"text","text":"b"}]}}]})"),
            "ab");
  EXPECT_EQ(reader.Read(R"({"choices":[{"message":{"content":null,"refusal":"no"}}]})"), "no");
  EXPECT_EQ(reader.Read(R"({"choices":[{"text":"old"}]})"), "old");
  EXPECT_EQ(reader.Read(R"({"type":"message","content":[{"type":"thinking","thinking":"hm"},)"
                        R"({"type":"text","text":"x"},{"type":"text","text":"y"}]})"),
            "xy");
  EXPECT_EQ(reader.Read(R"({"output":[{"type":"reasoning","summary":[]},{"type":"message",)"
                        R"("content":[{"type":"output_text","text":"r"}]}]})"),
            "r");
}

TEST(AnswerText, IsEmptyWhereThereIsNone) {
  AnswerReader reader;
  for (const char* body :
       {"", "no json", "7", "[]", "{}", R"({"choices":[]})", R"({"choices":{}})",
        R"({"choices":[{}]})", R"({"choices":[{"message":{"content":null,"tool_calls":[]}}]})",
        R"({"content":[],"stop_reason":"refusal"})", R"({"error":{"message":"x"}})",
        "{\"choices\":[{\"message\":{\"content\":\"\xE5\"}}]}"}) {
    EXPECT_EQ(reader.Read(body), "") << body;
  }
}

}  // namespace
}  // namespace headrace
