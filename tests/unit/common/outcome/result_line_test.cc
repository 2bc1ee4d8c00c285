#include "common/outcome/result_line.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

ResultLine OkLine() {
  ResultLine line;
  line.item = ItemId(7);
  line.row = RowIndex(3);
  line.model = "m";
  line.custom_id = "q1";
  line.http_status = 200;
  line.request_id = "r";
  line.body = R"({"choices":[{"message":{"content":"hi"}}]})";
  line.finish_reason = "stop";
  line.attempts = 1;
  line.usage.prompt_tokens = 11;
  line.usage.completion_tokens = 2;
  line.times.queue = absl::Microseconds(1'500);
  line.times.first_token = absl::Milliseconds(20);
  line.times.network = absl::Milliseconds(30);
  line.times.total = absl::Milliseconds(32);
  line.worker = "w-1";
  line.batch = BatchId(5);
  line.started = absl::FromUnixMillis(1'700'000'000'123);
  return line;
}

ResultLine FailedLine() {
  ResultLine line = OkLine();
  line.error_class = ErrorClass::kTimeout;
  line.error_message = "no byte in 10s";
  line.http_status = 0;
  line.request_id = "";
  line.body = "";
  line.finish_reason = "";
  line.usage = Usage();
  return line;
}

std::string Written(const ResultLine& line) {
  std::string out;
  AppendResultLine(line, &out);
  return out;
}

// `text` (a line up to its crc key) with a right checksum.
std::string Sealed(const std::string& text) {
  return absl::StrCat(text, ",\"crc\":\"", absl::Hex(Crc32c(text), absl::kZeroPad8), "\"}}");
}

TEST(ResultLine, ALineCutAtAnyByteIsDataLoss) {
  const std::string line = Written(OkLine());
  for (size_t size = 0; size < line.size(); ++size) {
    const auto key = CheckResultLine(absl::string_view(line).substr(0, size));
    EXPECT_EQ(key.status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(ResultLine, AnyFlippedBitIsDataLoss) {
  const std::string line = Written(OkLine());
  for (size_t i = 0; i < line.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = line;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_EQ(CheckResultLine(damaged).status().code(), absl::StatusCode::kDataLoss)
          << "byte " << i << " bit " << bit;
    }
  }
}

TEST(ResultLine, ALineWithBytesAfterItsEndIsDataLoss) {
  const std::string line = Written(OkLine());
  EXPECT_EQ(CheckResultLine(line + " ").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CheckResultLine(line + line).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ResultLine, ARightChecksumOverAnotherFormatIsDataLoss) {
  for (const char* text :
       {"", "{", R"({"a":1)", R"({"id":"hr-1","headrace":{"row":1)",
        R"({"id":"hr-1","headrace":{"item":)", R"({"id":"hr-1","headrace":{"item":x,"status":"ok")",
        R"({"id":"hr-1","headrace":{"item":-1,"status":"ok")",
        R"({"id":"hr-1","headrace":{"item":99999999999999999999,"status":"ok")",
        R"({"id":"hr-1","headrace":{"item":1,"row":1)",
        R"({"id":"hr-1","headrace":{"item":1,"status":"ok)"}) {
    EXPECT_EQ(CheckResultLine(Sealed(text)).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST(ResultLine, AnUpperCaseChecksumIsDataLoss) {
  const std::string text = R"({"id":"hr-1","headrace":{"item":1,"status":"ok")";
  const std::string line = Sealed(text);
  std::string upper = line;
  for (size_t i = upper.size() - 11; i < upper.size(); ++i) {
    upper[i] = absl::ascii_toupper(static_cast<unsigned char>(upper[i]));
  }
  ASSERT_NE(upper, line) << "the checksum has no letters: choose another text";
  EXPECT_TRUE(CheckResultLine(line).ok());
  EXPECT_EQ(CheckResultLine(upper).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ResultLine, AnOkLineIsTheBatchShapePlusOneKey) {
  const std::string text =
      R"({"id":"hr-7","custom_id":"q1","response":{"status_code":200,"request_id":"r",)"
      R"("body":{"choices":[{"message":{"content":"hi"}}]}},"error":null,)"
      R"("headrace":{"item":7,"row":3,"model":"m","status":"ok","finish_reason":"stop",)"
      R"("attempts":1,"possibly_billed":0,"pass":1,)"
      R"("usage":{"prompt_tokens":11,"completion_tokens":2},)"
      R"("ms":{"queue":1.500,"connect":0.000,"first_byte":null,"first_token":20.000,)"
      R"("network":30.000,"total":32.000,"read_tick":0.000},)"
      R"("worker":"w-1","batch":5,"started":"2023-11-14T22:13:20.123Z")";
  EXPECT_EQ(Written(OkLine()), Sealed(text));
}

TEST(ResultLine, AFailureWithoutResponseHasNullResponseAndItsClass) {
  const std::string line = Written(FailedLine());
  EXPECT_THAT(line, HasSubstr(R"("response":null,)"));
  EXPECT_THAT(line, HasSubstr(R"("error":{"code":"timeout","message":"no byte in 10s"})"));
  EXPECT_THAT(line, HasSubstr(R"("status":"timeout")"));
  EXPECT_THAT(line, HasSubstr(R"("usage":{})"));
}

TEST(ResultLine, AFailureWithAnHttpAnswerKeepsTheAnswer) {
  ResultLine line = FailedLine();
  line.error_class = ErrorClass::kBadRequest;
  line.http_status = 400;
  line.body = R"({"error":{"message":"no"}})";
  EXPECT_THAT(Written(line), HasSubstr(R"("response":{"status_code":400,"request_id":"",)"
                                       R"("body":{"error":{"message":"no"}}},"error":{)"));
}

TEST(ResultLine, AnAnswerWithoutBodyIsNull) {
  ResultLine line = FailedLine();
  line.http_status = 502;
  EXPECT_THAT(Written(line), HasSubstr(R"("body":null},)"));
}

TEST(ResultLine, EachClassSurvivesTheWayThroughALine) {
  for (const ErrorClassInfo& info : AllErrorClasses()) {
    ResultLine line = OkLine();
    line.error_class = info.error_class;
    const auto key = CheckResultLine(Written(line));
    ASSERT_TRUE(key.ok()) << info.name << ": " << key.status();
    EXPECT_EQ(key->item, ItemId(7));
    EXPECT_EQ(key->error_class, info.error_class);
  }
}

TEST(ResultLine, AClassOfANewerVersionIsInternal) {
  const auto key = CheckResultLine(
      Sealed(R"({"id":"hr-1","headrace":{"item":1,"row":1,"model":"m","status":"sunspots")"));
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->error_class, ErrorClass::kInternal);
}

TEST(ResultLine, TextThatLooksLikeOurKeysFoolsNobody) {
  const std::string fake =
      R"(,"headrace":{"item":99,"row":1,"model":"x","status":"auth","crc":"00000000"}})";
  ResultLine line = OkLine();
  const std::string body = absl::StrCat(R"({"a":1)", fake, "}");
  line.body = body;
  line.custom_id = fake;
  line.request_id = fake;
  line.model = fake;
  line.finish_reason = fake;
  line.worker = fake;
  line.expected = fake;
  line.flags = fake;
  line.error_message = fake;
  const auto key = CheckResultLine(Written(line));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->item, ItemId(7));
  EXPECT_EQ(key->error_class, ErrorClass::kNone);
}

TEST(ResultLine, ABodyWithLineEndsStaysOneLine) {
  ResultLine line = OkLine();
  line.body = "{\n\"a\":\r\n1}\n";
  line.custom_id = "a\nb";
  const std::string text = Written(line);
  EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("\"body\":{ \"a\":  1} }"));
  EXPECT_TRUE(CheckResultLine(text).ok());
}

TEST(ResultLine, InvalidUtf8InOurTextsBecomesTheReplacementCharacter) {
  ResultLine line = FailedLine();
  line.error_message = "cut \xE5";
  EXPECT_THAT(Written(line), HasSubstr("\"message\":\"cut \xEF\xBF\xBD\""));
}

TEST(ResultLine, AppendingKeepsWhatWasThere) {
  std::string out = "before\n";
  AppendResultLine(OkLine(), &out);
  EXPECT_EQ(out, "before\n" + Written(OkLine()));
}

TEST(ResultLine, LargestValuesFit) {
  ResultLine line = OkLine();
  line.item = ItemId(~uint64_t{0});
  line.attempts = ~uint32_t{0};
  line.times.total = absl::InfiniteDuration();
  line.times.queue = -absl::Seconds(1);
  line.started = absl::InfiniteFuture();
  const auto key = CheckResultLine(Written(line));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->item, ItemId(~uint64_t{0}));
  EXPECT_THAT(Written(line), HasSubstr("\"queue\":0.000"));
  EXPECT_THAT(Written(line), HasSubstr("\"started\":\"9999-"));
}

}  // namespace
}  // namespace headrace
