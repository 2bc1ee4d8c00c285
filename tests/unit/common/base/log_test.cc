#include "common/base/log.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simdjson.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Pair;

// Collects lines instead of printing them, and restores the defaults.
class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    SetLogSink([this](LogLevel level, absl::string_view line) {
      lines_.emplace_back(level, std::string(line));
    });
  }
  ~LogTest() override {
    SetLogSink(nullptr);
    SetLogLevel(LogLevel::kInfo);
    SetLogFormat(LogFormat::kText);
  }

  std::vector<std::pair<LogLevel, std::string>> lines_;
};

TEST_F(LogTest, LinesBelowTheLevelAreDroppedAndTheirOperandsNotEvaluated) {
  int evaluated = 0;
  HR_LOG(kDebug) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
  EXPECT_TRUE(lines_.empty());
  SetLogLevel(LogLevel::kError);
  HR_LOG(kWarning) << ++evaluated;
  HR_LOG(kError) << "down";
  EXPECT_EQ(evaluated, 0);
  EXPECT_THAT(lines_, ElementsAre(Pair(LogLevel::kError, EndsWith(" error down"))));
}

TEST_F(LogTest, ATextLineHasTimeLevelAndMessage) {
  HR_LOG(kWarning) << "lease of batch " << 7 << " expired";
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0].second,
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z "
                           "warning lease of batch 7 expired"));
}

TEST_F(LogTest, AMessageFromAPeerCannotForgeALineOrDriveTheTerminal) {
  HR_LOG(kError) << "provider said: x\n2026-01-01 info all is well\x1b[2J\x7f";
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0].second, EndsWith("x\\n2026-01-01 info all is well\\x1b[2J\\x7f"));
}

TEST_F(LogTest, AJsonLineIsOneValidObject) {
  SetLogFormat(LogFormat::kJson);
  HR_LOG(kInfo) << "quote \" and \n line\xff";
  ASSERT_EQ(lines_.size(), 1u);
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  ASSERT_EQ(parser.parse(lines_[0].second).get(object), simdjson::SUCCESS);
  std::string_view level, message, source, time;
  ASSERT_EQ(object["level"].get(level), simdjson::SUCCESS);
  ASSERT_EQ(object["msg"].get(message), simdjson::SUCCESS);
  ASSERT_EQ(object["source"].get(source), simdjson::SUCCESS);
  ASSERT_EQ(object["ts"].get(time), simdjson::SUCCESS);
  EXPECT_EQ(level, "info");
  EXPECT_EQ(message, "quote \" and \n line\xEF\xBF\xBD");
  EXPECT_THAT(std::string(source), HasSubstr("log_test.cc:"));
  EXPECT_THAT(std::string(time), EndsWith("Z"));
}

TEST_F(LogTest, WorksInAnIfWithoutBracesAndItsElse) {
  const bool yes = lines_.empty();
  if (yes)
    HR_LOG(kInfo) << "then";
  else
    HR_LOG(kInfo) << "else";
  EXPECT_THAT(lines_, ElementsAre(Pair(LogLevel::kInfo, EndsWith("then"))));
}

TEST(LogDeathTest, AFailedCheckSaysWhatAndWhereAndAborts) {
  EXPECT_DEATH(HR_CHECK(1 == 2) << "live: " << 3, "log_test.cc:.*check failed: 1 == 2 live: 3");
}

TEST(LogDeathTest, AFailedCheckIsPrintedEvenWithASink) {
  EXPECT_DEATH(
      {
        SetLogSink([](LogLevel, absl::string_view) {});
        HR_CHECK(false) << "seen";
      },
      "seen");
}

TEST(Check, ItsMessageIsNotEvaluatedWhenItHolds) {
  int evaluated = 0;
  HR_CHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace headrace
